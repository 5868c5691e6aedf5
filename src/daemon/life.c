// SPDX-License-Identifier: Apache-2.0
#include "daemon/life.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/credit.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
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

static int on_death(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct process *p = userdata;
	struct daemon *d = p->job->daemon;

	(void)source, (void)fd, (void)revents;
	p->is_dead = true;
	p->death = sd_event_source_disable_unref(p->death);
	drop_peers(p);
	ledger_process_dead(d->ledger, p->account, clock_now_ns());
	drop_asks(p);
	return 0;
}

static int on_ring(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct process *p = userdata;
	uint64_t count;

	(void)source, (void)revents;
	(void)!read(fd, &count, sizeof(count)); /* only to make it quiet */
	gpus_note_activity(p->job->daemon->gpus);
	ledger_returned(p->job->daemon->ledger, p->account, clock_now_ns());
	return 0;
}

int life_bell(struct process *p)
{
	struct daemon *d = p->job->daemon;
	int r;

	if (p->bell >= 0)
		return p->bell;
	p->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->bell < 0)
		return -errno;
	r = sd_event_add_io(d->event, &p->ring, p->bell, EPOLLIN, on_ring, p);
	if (r < 0) {
		close(p->bell);
		p->bell = -1;
		return r;
	}
	if (p->is_silent)
		d->registry.n_silent--;
	p->is_silent = false;
	return p->bell;
}

static int watch_death(struct process *p)
{
	return sd_event_add_io(p->job->daemon->event, &p->death, p->pidfd, EPOLLIN, on_death, p);
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
	if (p) {
		p->pidfd = -1; /* the caller's again */
		process_free(p);
	}
	return NULL;
}

static int give_page(struct process *p)
{
	int r = credit_page_make(p->number, p->job->spec.id, &p->page, &p->page_fd);
	struct stat st;

	if (r < 0)
		return r;
	if (fstat(p->page_fd, &st) < 0)
		return -errno;
	p->page_inode = st.st_ino;
	r = life_bell(p);
	return r < 0 ? r : 0;
}

int life_begin(struct job *job, pid_t pid, uint64_t start_ticks, int *pidfd, struct process **ret,
	       struct err *err)
{
	struct daemon *d = job->daemon;
	int r, taken = *pidfd;
	struct process *p = begin(job, pid, start_ticks, pidfd, &r);

	if (p)
		r = give_page(p);
	if (r >= 0)
		r = ledger_process_add(d->ledger, job->lease, pid, p, clock_now_ns(), &p->account);
	if (r >= 0) {
		*ret = p;
		return 0;
	}
	if (p) {
		p->pidfd = -1;
		*pidfd = taken;
		process_free(p);
	}
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
	int taken = *pidfd, r = credit_page_adopt(page_fd, &page, err);

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
		p->pidfd = -1;
		*pidfd = taken;
		process_free(p);
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
	int r, taken = *pidfd;
	struct process *p = begin(job, pid, start_ticks, pidfd, &r);

	if (!p)
		return r;
	r = ledger_process_add(d->ledger, job->lease, pid, p, clock_now_ns(), &p->account);
	if (r < 0) {
		p->pidfd = -1;
		*pidfd = taken;
		process_free(p);
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
	bool had_page = p->page != NULL;

	drop_peers(p);
	drop_asks(p);
	ledger_process_free(d->ledger, TAKE(p->account), clock_now_ns());
	process_free(p);
	if (had_page && job->keeper)
		peer_send(job->keeper, WIRE_DROP, 0, &m);
}
