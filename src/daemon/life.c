// SPDX-License-Identifier: Apache-2.0
#include "daemon/life.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/credit.h"
#include "daemon/daemon.h"
#include "daemon/deaths.h"
#include "daemon/gpus.h"
#include "daemon/late.h"
#include "daemon/pages.h"
#include "daemon/peers.h"

static void drop_asks(struct process *p)
{
	struct ask *ask, *tmp;

	list_for_each_safe (ask, tmp, &p->asks, node) {
		if (ask->peer)
			ask->peer->ask = NULL;
		list_del(&ask->node);
		free(ask);
	}
}

/* its connections are nobody's: a child that inherited one has to come by itself */
static void drop_peers(struct process *p)
{
	struct peer *peer, *tmp;

	list_for_each_safe (peer, tmp, &p->peers, process_node) {
		list_del(&peer->process_node);
		peer->process = NULL;
		peer_end(peer);
	}
}

void life_dead(struct process *p)
{
	struct daemon *d = p->job->daemon;

	p->is_dead = true;
	drop_peers(p);
	ledger_process_dead(d->ledger, p->account, clock_now_ns());
	drop_asks(p);
}

/*
 * The bell's open file is the tenants', too: one of them may clear O_NONBLOCK and be faster than we
 * are, and a read that waits for it would be the end of us all.
 */
static void quieten(int bell)
{
	uint64_t count;
	struct iovec iov = { .iov_base = &count, .iov_len = sizeof(count) };

	if (preadv2(bell, &iov, 1, -1, RWF_NOWAIT) >= 0 || errno == EAGAIN || errno == EINTR)
		return;
	(void)fcntl(bell, F_SETFL, O_NONBLOCK); /* an old kernel */
	(void)!read(bell, &count, sizeof(count));
}

/* made quiet first: whoever returns after that rings again, and whoever did before is looked at */
static int on_ring(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct job *job = userdata;
	struct process *p;
	uint64_t now;

	(void)source, (void)revents;
	quieten(fd);
	now = clock_now_ns();
	gpus_note_activity(job->daemon->gpus);
	list_for_each (p, &job->processes, node)
		if (p->page && !p->is_dead)
			ledger_returned(job->daemon->ledger, p->account, now);
	return 0;
}

static int make_bell(struct job *job)
{
	AUTO_FD int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int r;

	if (bell < 0)
		return -errno;
	r = sd_event_add_io(job->daemon->event, &job->ring, bell, EPOLLIN, on_ring, job);
	if (r >= 0)
		job->bell = TAKE_FD(bell);
	return r;
}

int life_bell(struct process *p)
{
	struct job *job = p->job;
	int r = job->bell < 0 ? make_bell(job) : 0;

	if (r < 0)
		return r;
	if (p->is_silent)
		job->daemon->registry.n_silent--;
	p->is_silent = false;
	return job->bell;
}

static int watch_death(struct process *p)
{
	return p->is_dead ? 0 : deaths_watch(p->job->daemon->deaths, p);
}

static void keep_page(struct process *p)
{
	struct wire_keep m = { .process = p->number };

	if (p->page_fd < 0 || !p->job->keeper)
		return;
	peer_send_fds(p->job->keeper, WIRE_KEEP, 0, &m, &p->page_fd, 1);
	close(p->page_fd);
	p->page_fd = -1;
}

int life_finish(struct process *p)
{
	int r = watch_death(p);

	if (r < 0)
		return r;
	list_del(&p->late);
	/* one that is gone already needs no keeping: the watch tells us at once */
	if (!p->is_dead && process_identify(p))
		keep_page(p);
	return 0;
}

/* as if it had never begun: its pidfd is the caller's again */
static void undo(struct process *p, int *pidfd)
{
	deaths_unwatch(p->job->daemon->deaths, p);
	*pidfd = p->pidfd;
	p->pidfd = -1;
	process_free(p);
}

/* registered, without an account, to be finished later; NULL: no memory */
static struct process *begin_late(struct job *job, pid_t pid, uint64_t start_ticks, int *pidfd)
{
	struct process *p = process_new(job, pid, start_ticks, *pidfd);

	if (!p)
		return NULL;
	*pidfd = -1;
	late_add(job->daemon->late, p);
	return p;
}

/* registered and watched, without an account; NULL with *ret_errno */
static struct process *begin(struct job *job, pid_t pid, uint64_t start_ticks, int *pidfd,
			     int *ret_errno)
{
	struct process *p = process_new(job, pid, start_ticks, *pidfd);
	int r = p ? watch_death(p) : -ENOMEM;

	*ret_errno = r;
	if (r >= 0) {
		*pidfd = -1;
		return p;
	}
	if (p)
		undo(p, pidfd);
	return NULL;
}

static int give_page(struct process *p)
{
	int r = pages_take(p->job->daemon->pages, &p->page, &p->page_fd, &p->page_inode);

	if (r < 0)
		return r;
	p->page->process = p->number;
	p->page->job_id = p->job->spec.id;
	r = life_bell(p);
	return r < 0 ? r : 0;
}

int life_begin(struct job *job, pid_t pid, uint64_t start_ticks, int *pidfd, struct process **ret,
	       struct err *err)
{
	struct daemon *d = job->daemon;
	struct process *p = begin_late(job, pid, start_ticks, pidfd);
	int r = p ? give_page(p) : -ENOMEM;

	if (r >= 0)
		r = ledger_process_add(d->ledger, job->lease, pid, p, clock_now_ns(), &p->account);
	if (r >= 0) {
		*ret = p;
		return 0;
	}
	if (p)
		undo(p, pidfd);
	return err_set(err, r, "cannot serve process %d: %s", pid, strerror(-r));
}

void life_replace(struct process *old, struct process *fresh)
{
	drop_peers(old);
	drop_asks(old);
	ledger_process_replaced(old->job->daemon->ledger, TAKE(old->account), fresh->account,
				clock_now_ns());
	process_free(old);
}

int life_exec(struct process **p, struct err *err)
{
	struct process *old = *p, *fresh;
	AUTO_FD int pidfd = fcntl(old->pidfd, F_DUPFD_CLOEXEC, 3);
	int r;

	if (pidfd < 0)
		return err_set(err, -errno, "cannot serve process %d: %s", old->entry.pid,
			       strerror(errno));
	r = life_begin(old->job, old->entry.pid, old->start_ticks, &pidfd, &fresh, err);
	if (r < 0)
		return r;
	life_replace(old, fresh);
	*p = fresh;
	return 0;
}

int life_adopt(struct job *job, pid_t pid, uint64_t start_ticks, int *pidfd, int page_fd,
	       struct process **ret, struct err *err)
{
	struct daemon *d = job->daemon;
	uint64_t claim[LEDGER_MAX_SLOTS];
	struct credit_page *page;
	struct process *p;
	struct stat st;
	int r = credit_page_adopt(page_fd, &page, err);

	if (r < 0)
		return r;
	p = begin(job, pid, start_ticks, pidfd, &r);
	if (!p) {
		credit_page_unmap(page);
		return err_set(err, r, "cannot serve process %d: %s", pid, strerror(-r));
	}
	p->page = page;
	p->page_inode = fstat(page_fd, &st) == 0 ? st.st_ino : 0;
	credit_page_claim(page, claim);
	r = ledger_process_restore(d->ledger, job->lease, pid, p, claim, clock_now_ns(),
				   &p->account);
	if (r < 0) {
		undo(p, pidfd);
		return err_set(err, r, "cannot serve process %d: %s", pid, strerror(-r));
	}
	p->is_silent = true;
	d->registry.n_silent++;
	*ret = p;
	return 0;
}

int life_seen(struct job *job, pid_t pid, uint64_t start_ticks, int *pidfd, struct process **ret)
{
	struct daemon *d = job->daemon;
	int r;
	struct process *p = begin(job, pid, start_ticks, pidfd, &r);

	if (!p)
		return r;
	r = ledger_process_add(d->ledger, job->lease, pid, p, clock_now_ns(), &p->account);
	if (r < 0) {
		undo(p, pidfd);
		return r;
	}
	ledger_process_detach(d->ledger, p->account, clock_now_ns());
	log_debug("job %llu: process %d is charged by what NVML shows",
		  (unsigned long long)job->spec.id, pid);
	*ret = p;
	return 0;
}

bool life_has_page(const struct process *p, int fd)
{
	struct stat st;

	return p->page && fstat(fd, &st) == 0 && st.st_ino == p->page_inode;
}

void life_detach(struct process *p)
{
	struct daemon *d = p->job->daemon;

	if (p->is_dead)
		return;
	ledger_process_detach(d->ledger, p->account, clock_now_ns());
	drop_asks(p);
}

void life_end(struct process *p)
{
	struct job *job = p->job;
	struct daemon *d = job->daemon;
	struct wire_drop m = { .process = p->number };
	bool is_kept = p->page && p->number && p->page_fd < 0;

	drop_peers(p);
	drop_asks(p);
	ledger_process_free(d->ledger, TAKE(p->account), clock_now_ns());
	process_free(p);
	if (is_kept && job->keeper)
		peer_send(job->keeper, WIRE_DROP, 0, &m);
}
