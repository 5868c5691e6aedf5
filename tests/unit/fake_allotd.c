// SPDX-License-Identifier: Apache-2.0
#include "fake_allotd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "client/packet.h"
#include "wire/page.h"

#define MAX_PEERS 64

struct process {
	pid_t pid;
	int bell, page_fd;
	struct credit_page *page;
	uint64_t granted;
};

struct server {
	struct fake_shared *shared;
	int listener;
	struct process process[FAKE_MAX_PROCESSES];
	unsigned n_processes;
	struct {
		int sock;
		struct process *process;
	} peer[MAX_PEERS];
	unsigned n_peers;
};

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fake allotd: %s: %s\n", what, strerror(errno));
	_exit(3);
}

static struct credit_slot *slot_of(struct process *p)
{
	return &p->page->slot[0];
}

static uint64_t granted_to_all(struct server *s)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->n_processes; i++)
		sum += s->process[i].granted;
	return sum;
}

static void set_granted(struct server *s, struct process *p, uint64_t bytes)
{
	p->granted = bytes;
	atomic_store(&slot_of(p)->granted_bytes, bytes);
	atomic_store(&s->shared->granted_bytes, granted_to_all(s));
}

static void call_back(struct server *s)
{
	for (unsigned i = 0; i < s->n_processes; i++) {
		struct process *p = &s->process[i];
		uint64_t unused;

		atomic_store(&slot_of(p)->wanted, 1);
		unused = atomic_exchange(&slot_of(p)->credit_bytes, 0);
		must(unused <= p->granted, "more credit than was granted");
		atomic_fetch_add(&s->shared->called_back_bytes, unused);
		set_granted(s, p, p->granted - unused);
	}
	atomic_fetch_add(&s->shared->call_backs, 1);
}

static void new_page(struct process *p, int fd)
{
	bool fresh = fd < 0;

	p->page_fd = fresh ? fd_memfd_sealed("fake", CREDIT_PAGE_BYTES) : dup(fd);
	p->page = mmap(NULL, CREDIT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->page_fd, 0);
	must(p->page != MAP_FAILED, "map");
	p->page->magic = CREDIT_PAGE_MAGIC;
	p->page->version = CREDIT_PAGE_VERSION;
	p->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static struct process *find_process(struct server *s, pid_t pid)
{
	for (unsigned i = 0; i < s->n_processes; i++)
		if (s->process[i].pid == pid)
			return &s->process[i];
	return NULL;
}

static void attach(struct server *s, unsigned i, struct packet *in)
{
	const struct wire_attach *ask = in->msg.payload;
	struct wire_attached out = { .job_id = 7,
				     .n_gpus = 1,
				     .fail_policy = atomic_load(&s->shared->fail_open),
				     .grace_ns = atomic_load(&s->shared->grace_ns),
				     .job_name = "train" };
	bool has_page = ask->flags & WIRE_ATTACH_HAS_PAGE;
	unsigned char buf[WIRE_MAX_MESSAGE];
	struct ucred cred;
	socklen_t n = sizeof(cred);
	struct process *p;
	bool fresh = false;

	must(getsockopt(s->peer[i].sock, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0, "cred");
	atomic_fetch_add(&s->shared->attaches, 1);
	p = find_process(s, cred.pid);
	if (!p) {
		must(s->n_processes < FAKE_MAX_PROCESSES, "processes");
		p = &s->process[s->n_processes++];
		*p = (struct process){ .pid = cred.pid };
		fresh = !has_page;
		new_page(p, has_page ? in->fds[0] : -1);
		set_granted(s, p, atomic_load(&slot_of(p)->granted_bytes));
	}
	if (has_page)
		atomic_fetch_add(&s->shared->with_page, 1);
	if (fresh)
		atomic_fetch_add(&s->shared->fresh_pages, 1);
	s->peer[i].process = p;
	out.fresh_page = fresh;
	memset(out.gpus[0].uuid.bytes, 1, sizeof(out.gpus[0].uuid.bytes));
	out.gpus[0].limit_bytes = atomic_load(&s->shared->limit_bytes);
	out.gpus[0].has_limit = 1;
	{
		int len = wire_encode(buf, sizeof(buf), WIRE_ATTACHED, in->msg.request_id, &out);
		int fds[2] = { p->page_fd, p->bell };
		unsigned first = fresh ? 0 : 1;
		unsigned count = fresh ? 2 : ask->stream == 0;
		struct iovec iov = { buf, (size_t)len };
		union {
			struct cmsghdr align;
			char buf[CMSG_SPACE(sizeof(fds))];
		} control = { 0 };
		struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

		if (count) {
			struct cmsghdr *c;

			mh.msg_control = control.buf;
			mh.msg_controllen = CMSG_SPACE(count * sizeof(int));
			c = CMSG_FIRSTHDR(&mh);
			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN(count * sizeof(int));
			memcpy(CMSG_DATA(c), &fds[first], count * sizeof(int));
		}
		(void)sendmsg(s->peer[i].sock, &mh, MSG_NOSIGNAL);
	}
}

static void need(struct server *s, struct process *p, const struct wire_need *ask,
		 struct wire_grant *out)
{
	uint64_t limit = atomic_load(&s->shared->limit_bytes), delay, ahead;

	atomic_fetch_add(&s->shared->needs, 1);
	delay = atomic_load(&s->shared->delay_ns);
	if (delay) {
		struct timespec ts = { .tv_nsec = (long)delay };

		nanosleep(&ts, NULL);
	}
	out->limit_bytes = limit;
	if (ask->kind == WIRE_NEED_CONTEXT) {
		atomic_fetch_add(&s->shared->contexts, 1);
		return;
	}
	if (ask->kind == WIRE_NEED_OVERDRAFT) {
		if (atomic_load(&s->shared->no_turn))
			out->result = WIRE_GRANT_OVER_LIMIT;
		else
			atomic_fetch_add(&s->shared->turns, 1);
		return;
	}
	if (granted_to_all(s) + ask->bytes > limit)
		call_back(s);
	out->used_bytes = granted_to_all(s);
	if (ask->bytes > limit || granted_to_all(s) > limit - ask->bytes) {
		atomic_fetch_add(&s->shared->refusals, 1);
		out->result = WIRE_GRANT_OVER_LIMIT;
		return;
	}
	out->bytes = ask->bytes;
	set_granted(s, p, p->granted + ask->bytes);
	if (atomic_exchange(&s->shared->die_granting, 0)) {
		atomic_store(&s->shared->died, 1);
		raise(SIGKILL);
	}
	ahead = atomic_load(&s->shared->ahead_bytes);
	if (granted_to_all(s) + ahead <= limit) {
		set_granted(s, p, p->granted + ahead);
		atomic_fetch_add(&slot_of(p)->credit_bytes, ahead);
		out->credit_bytes = ahead;
	}
}

static void answer(struct server *s, unsigned i, struct packet *in)
{
	int sock = s->peer[i].sock;
	uint32_t id = in->msg.request_id;

	if (in->msg.type == WIRE_ATTACH) {
		attach(s, i, in);
	} else if (in->msg.type == WIRE_NEED) {
		struct wire_grant out = { 0 };

		need(s, s->peer[i].process, in->msg.payload, &out);
		(void)packet_send(sock, WIRE_GRANT, id, &out, -1);
	} else if (in->msg.type == WIRE_CONTEXT_DONE) {
		const struct wire_context_done *done = in->msg.payload;
		struct wire_context_settled out = { .keep = !atomic_load(&s->shared->undo_context),
						    .cost_bytes = 500 << 20,
						    .used_bytes = 900 << 20,
						    .limit_bytes = 600 << 20 };

		atomic_fetch_add(&s->shared->contexts_ok, done->ok);
		(void)packet_send(sock, WIRE_CONTEXT_SETTLED, id, &out, -1);
	} else if (in->msg.type == WIRE_OVERDRAFT_DONE) {
		const struct wire_overdraft_done *done = in->msg.payload;

		atomic_fetch_add(&s->shared->kept_bytes, done->kept_bytes);
		atomic_fetch_add(&s->shared->turns_done, 1);
	} else if (in->msg.type == WIRE_VIEW) {
		uint64_t limit = atomic_load(&s->shared->limit_bytes);
		struct wire_viewed out = { .total_bytes = limit,
					   .limit_bytes = limit,
					   .free_bytes = limit - granted_to_all(s) };

		atomic_fetch_add(&s->shared->views, 1);
		(void)packet_send(sock, WIRE_VIEWED, id, &out, -1);
	} else if (in->msg.type == WIRE_SETTLE) {
		const struct wire_settle *settle = in->msg.payload;
		struct wire_ok out = { 0 };

		atomic_fetch_add(&s->shared->settles, 1);
		if (settle->flags & WIRE_SETTLE_ANSWER)
			(void)packet_send(sock, WIRE_OK, id, &out, -1);
	}
}

static void drop_peer(struct server *s, unsigned i)
{
	close(s->peer[i].sock);
	s->peer[i] = s->peer[--s->n_peers];
}

static void serve(struct server *s)
{
	for (;;) {
		struct pollfd p[1 + MAX_PEERS + FAKE_MAX_PROCESSES];
		unsigned n = 0, peers = s->n_peers, processes = s->n_processes;

		p[n++] = (struct pollfd){ .fd = s->listener, .events = POLLIN };
		for (unsigned i = 0; i < peers; i++)
			p[n++] = (struct pollfd){ .fd = s->peer[i].sock, .events = POLLIN };
		for (unsigned i = 0; i < processes; i++)
			p[n++] = (struct pollfd){ .fd = s->process[i].bell, .events = POLLIN };
		(void)poll(p, n, 1);
		if (atomic_exchange(&s->shared->want, 0))
			call_back(s);
		for (unsigned i = 0; i < processes; i++) {
			uint64_t count;

			if (p[1 + peers + i].revents & POLLIN &&
			    read(s->process[i].bell, &count, sizeof(count)) == sizeof(count))
				atomic_fetch_add(&s->shared->rings, 1);
		}
		for (unsigned i = peers; i-- > 0;) {
			static struct packet in;

			if (!p[1 + i].revents)
				continue;
			if (packet_recv(s->peer[i].sock, PACKET_FOREVER, &in, NULL) < 0) {
				drop_peer(s, i);
				continue;
			}
			answer(s, i, &in);
			packet_close_fds(&in);
		}
		if (p[0].revents && s->n_peers < MAX_PEERS) {
			int sock = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);

			if (sock >= 0) {
				s->peer[s->n_peers].process = NULL;
				s->peer[s->n_peers++].sock = sock;
			}
		}
	}
}

void fake_place(struct fake *f)
{
	(void)str_print(f->folder, sizeof(f->folder), "/tmp/allot-test-XXXXXX");
	must(mkdtemp(f->folder) != NULL, "mkdtemp");
	(void)str_print(f->socket, sizeof(f->socket), "%s/sock", f->folder);
}

void fake_adopt(struct fake *f, const char *socket)
{
	char *slash;

	(void)str_copy(f->socket, sizeof(f->socket), socket);
	(void)str_copy(f->folder, sizeof(f->folder), socket);
	slash = strrchr(f->folder, '/');
	must(slash != NULL, "a path");
	*slash = '\0';
	f->shared = mmap(NULL, sizeof(*f->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(f->shared != MAP_FAILED, "mmap");
}

void fake_start(struct fake *f)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct server *s;

	(void)str_copy(sa.sun_path, sizeof(sa.sun_path), f->socket);
	(void)unlink(f->socket);
	/* the listener is made by the server itself: its pid is what SO_PEERCRED tells */
	int ready[2];
	char byte;

	must(pipe(ready) == 0, "pipe");
	f->pid = fork();
	must(f->pid >= 0, "fork");
	if (f->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlives the test */
		close(ready[0]);
		s = calloc(1, sizeof(*s));
		must(s != NULL, "calloc");
		s->shared = f->shared;
		s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		must(bind(s->listener, (struct sockaddr *)&sa, sizeof(sa)) == 0, "bind");
		must(listen(s->listener, 64) == 0, "listen");
		must(write(ready[1], "", 1) == 1, "write");
		close(ready[1]);
		serve(s);
	}
	close(ready[1]);
	must(read(ready[0], &byte, 1) == 1, "start");
	close(ready[0]);
}

void fake_kill(struct fake *f)
{
	if (f->pid <= 0)
		return;
	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
	f->pid = 0;
}

void fake_remove(struct fake *f)
{
	fake_kill(f);
	(void)unlink(f->socket);
	(void)rmdir(f->folder);
}
