// SPDX-License-Identifier: Apache-2.0
#include "shim/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/owner.h"
#include "base/paths.h"
#include "client/find.h"
#include "client/packet.h"
#include "shim/entry.h"
#include "shim/env.h"
#include "shim/owned_fd.h"
#include "shim/say.h"
#include "shim/wiped.h"

#define CONNS            64               /* threads that can talk at once; more take turns */
#define GRACE_DEFAULT_NS (10 * NS_PER_S)  /* before a lease says otherwise */
#define PAUSE_MIN_NS     (2 * NS_PER_MS)  /* between two attempts to reach an allotd */
#define PAUSE_MAX_NS     (50 * NS_PER_MS) /* that is away: doubles up to here */

#define REATTACH_NS (100 * NS_PER_MS) /* at most so often for the sake of a doorbell */

enum conn_state {
	CONN_EMPTY = 0,
	CONN_IDLE,
	CONN_BUSY, /* belongs to one thread */
};

struct attach_conn {
	_Atomic uint32_t state;
	uint32_t next_id;
	uint32_t index;
	struct owned_fd sock;
};

/*
 * The doorbell.  Anonymous inodes are all one, so the identity of an eventfd is the kernel's number
 * of it (Linux 5.2; before that 0, and any anonymous inode is taken for ours).
 */
struct bell {
	struct owned_fd fd;
	uint64_t id;
};

/*
 * All there is, in memory that fork wipes.  `latch` is held while attaching, never while anything
 * else is awaited; `bell_lock` for the few instructions around the doorbell.
 */
struct attach_region {
	struct attach_shared shared; /* first: attach_page() reads it by this address */
	pthread_mutex_t latch;
	pthread_mutex_t bell_lock;
	_Atomic uint32_t has_lease;
	_Atomic uint32_t n_open; /* connections that are not CONN_EMPTY */
	_Atomic uint64_t gone_since_ns;
	_Atomic uint32_t said_gone;
	_Atomic uint32_t resent;
	uint32_t has_place;
	uint32_t is_clean; /* close_inherited() was done */
	pid_t server;
	struct client_place place;
	struct owned_fd page_fd;
	struct bell bell;
	_Atomic uint64_t reattached_ns;
	struct wire_attached lease;
	struct attach_conn conn[CONNS];
};

void *_Atomic attach_shared_memory;
uint64_t attach_answer_ns = 10 * NS_PER_S; /* an allotd that lives may be slow */

/* what this process inherited from a parent that was attached; see close_inherited() */
static struct owned_fd mirror_conn[CONNS], mirror_page;
static struct bell mirror_bell;

static struct attach_region *region(void)
{
	return wiped_once(&attach_shared_memory, sizeof(struct attach_region));
}

/* ---- where ---- */

static int find_place(struct attach_region *r, struct err *err)
{
	const char *named = env_get()->socket;
	int e;

	if (r->has_place)
		return 0;
	e = client_find(*named ? named : NULL, &r->place, err);
	if (e == 0)
		r->has_place = 1;
	return e;
}

/*
 * Where the machine has a service, only root's server is believed: else a program could name a
 * socket of its own and grant itself everything.  Without one the server must be ours or root's.
 */
static int check_server(struct attach_region *r, int sock, pid_t *ret_pid, struct err *err)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	bool is_root;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return err_set(err, -errno, "cannot ask who serves '%s'", r->place.socket);
	is_root = owner_is_root(cred.uid);
	if (!is_root && access(PATHS_SYSTEM_SOCKET, F_OK) == 0)
		return err_set(err, -EPERM,
			       "'%s' is served by uid %u, but this machine's allotd is '%s'",
			       r->place.socket, cred.uid, PATHS_SYSTEM_SOCKET);
	if (!is_root && cred.uid != 0 && cred.uid != getuid() && cred.uid != geteuid())
		return err_set(err, -EPERM, "'%s' is served by uid %u, neither root nor us",
			       r->place.socket, cred.uid);
	*ret_pid = cred.pid;
	return 0;
}

/* ---- descriptors that came with ATTACHED ---- */

static uint64_t eventfd_id(int fd)
{
	unsigned long long id = 0;
	char path[48], text[512];
	const char *at;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0; /* no /proc: then 0 equals 0 below, and only the inode is compared */
	at = strstr(text, "eventfd-id:");
	if (at && sscanf(at, "eventfd-id: %llu", &id) != 1)
		id = 0;
	return id;
}

static int bell_get(struct bell *b)
{
	int fd = owned_fd_get(&b->fd);

	return fd >= 0 && eventfd_id(fd) == b->id ? fd : -1;
}

static void bell_close(struct bell *b)
{
	int fd = bell_get(b);

	if (fd >= 0)
		close(fd);
	*b = (struct bell){ 0 };
}

static int map_page(struct attach_region *r, int fd)
{
	struct credit_page *page =
		mmap(NULL, CREDIT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return -errno;
	if (page->magic != CREDIT_PAGE_MAGIC || page->version != CREDIT_PAGE_VERSION) {
		munmap(page, CREDIT_PAGE_BYTES);
		return -EPROTO;
	}
	(void)madvise(page, CREDIT_PAGE_BYTES, MADV_DONTFORK); /* a child must ask for its own */
	owned_fd_set(&r->page_fd, fd);
	mirror_page = r->page_fd;
	for (unsigned i = 0; i < WIRE_MAX_GPUS; i++) {
		atomic_store(&page->slot[i].managed_bytes,
			     atomic_load(&r->shared.managed_bytes[i]));
		atomic_store(&page->slot[i].elastic_bytes,
			     atomic_load(&r->shared.elastic_bytes[i]));
	}
	/* a page that was there before stays mapped: another thread may be about to use it */
	atomic_store_explicit(&r->shared.page, page, memory_order_release);
	return 0;
}

static void set_bell(struct attach_region *r, int fd)
{
	uint64_t id = eventfd_id(fd);

	pthread_mutex_lock(&r->bell_lock);
	bell_close(&r->bell);
	owned_fd_set(&r->bell.fd, fd);
	r->bell.id = id;
	mirror_bell = r->bell;
	pthread_mutex_unlock(&r->bell_lock);
}

static int take_fds(struct attach_region *r, struct packet *p, struct err *err)
{
	for (unsigned i = 0; i < p->n_fds; i++) {
		int fd = p->fds[i];
		int e;

		if (fd_is_sealed_memfd(fd, CREDIT_PAGE_BYTES) != 1) {
			set_bell(r, fd);
		} else {
			e = map_page(r, fd);
			if (e < 0)
				return err_set(err, e, "allotd's credit page is of another kind");
		}
		p->fds[i] = -1; /* taken */
	}
	if (attach_role == WIRE_ROLE_CUDA && !atomic_load(&r->shared.page))
		return err_set(err, -EPROTO, "allotd sent no credit page");
	return 0;
}

/* ---- attaching ---- */

static void close_inherited(struct attach_region *r)
{
	if (r->is_clean)
		return;
	r->is_clean = 1;
	for (unsigned i = 0; i < CONNS; i++)
		owned_fd_close(&mirror_conn[i]);
	owned_fd_close(&mirror_page);
	bell_close(&mirror_bell);
}

static int refusal(const struct packet *p, struct err *err)
{
	const struct wire_error *e = p->msg.payload;

	return err_set(err, -EREMOTEIO, "%s", e->text);
}

/* a process that allot did not start has no allotd to come back */
static uint64_t grace_ns(const struct attach_region *r)
{
	if (atomic_load(&r->has_lease))
		return r->lease.grace_ns;
	return env_get()->in_job ? GRACE_DEFAULT_NS : 0;
}

/* how long an answer that allotd gives at once may take */
static uint64_t answer_ns(const struct attach_region *r)
{
	uint64_t grace = grace_ns(r);

	return grace > attach_answer_ns ? grace : attach_answer_ns;
}

/*
 * ATTACH and its answer on a fresh connection; the latch is held.
 *
 * The page goes along when allotd may have forgotten us: it is another process than before, or we
 * have no other connection.  Where the host closed the page's descriptor, a stream above 0 says
 * that we are the process that allotd knows, and not one that was executed in its place.
 */
static int say_attach(struct attach_region *r, struct attach_conn *c, int sock, pid_t server,
		      struct err *err)
{
	bool alone = server != r->server || atomic_load(&r->n_open) == 1;
	int page = alone ? owned_fd_get(&r->page_fd) : -1;
	bool first = page >= 0 || !atomic_load(&r->has_lease);
	struct wire_attach ask = { .role = (uint32_t)attach_role,
				   .flags = page >= 0 ? WIRE_ATTACH_HAS_PAGE : 0,
				   .stream = first ? 0 : c->index + 1 };
	struct packet in;
	int e = packet_send(sock, WIRE_ATTACH, ++c->next_id, &ask, page);

	if (e == 0)
		e = packet_recv(sock, answer_ns(r), &in, err);
	if (e < 0)
		return e;
	if (in.msg.type == WIRE_ERROR) {
		e = refusal(&in, err);
	} else if (in.msg.type != WIRE_ATTACHED) {
		e = err_set(err, -EPROTO, "allotd answered ATTACH with %s", wire_name(in.msg.type));
	} else {
		if (!atomic_load(&r->has_lease)) {
			memcpy(&r->lease, in.msg.payload, sizeof(r->lease));
			if (r->lease.n_gpus > WIRE_MAX_GPUS)
				r->lease.n_gpus = WIRE_MAX_GPUS;
		}
		e = take_fds(r, &in, err);
		if (e == 0)
			atomic_store(&r->has_lease, 1);
	}
	packet_close_fds(&in);
	return e;
}

static int conn_open_latched(struct attach_region *r, struct attach_conn *c, struct err *err)
{
	struct timeval limit = { .tv_sec = (time_t)(GRACE_DEFAULT_NS / NS_PER_S) };
	AUTO_FD int sock = -1;
	pid_t server = 0;
	int e = find_place(r, err);

	if (e < 0)
		return e;
	close_inherited(r);
	sock = packet_connect(r->place.socket);
	if (sock < 0)
		return err_set(err, sock, "cannot reach allotd on '%s': %s", r->place.socket,
			       strerror(-sock));
	e = check_server(r, sock, &server, err);
	if (e < 0)
		return e;
	(void)setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	e = say_attach(r, c, sock, server, err);
	if (e < 0)
		return e;
	r->server = server;
	owned_fd_set(&c->sock, TAKE_FD(sock));
	mirror_conn[c->index] = c->sock;
	return 0;
}

/* ---- the pool ---- */

static void conn_drop(struct attach_region *r, struct attach_conn *c)
{
	owned_fd_close(&c->sock);
	mirror_conn[c->index] = (struct owned_fd){ 0 };
	atomic_fetch_sub(&r->n_open, 1);
	atomic_store(&c->state, CONN_EMPTY);
}

static void conn_put(struct attach_conn *c)
{
	atomic_store(&c->state, CONN_IDLE);
}

static struct attach_conn *conn_find(struct attach_region *r, uint32_t state)
{
	for (unsigned i = 0; i < CONNS; i++) {
		uint32_t seen = state;

		if (atomic_load_explicit(&r->conn[i].state, memory_order_relaxed) == state &&
		    atomic_compare_exchange_strong(&r->conn[i].state, &seen, CONN_BUSY))
			return &r->conn[i];
	}
	return NULL;
}

static struct attach_conn *conn_find_idle(struct attach_region *r)
{
	struct attach_conn *c;

	while ((c = conn_find(r, CONN_IDLE))) {
		if (owned_fd_get(&c->sock) >= 0)
			return c;
		conn_drop(r, c);
	}
	return NULL;
}

/* a connection of our own: idle (then *ret_fresh is false) or new; -EAGAIN: all in use */
static int conn_take(struct attach_region *r, struct attach_conn **ret, bool *ret_fresh,
		     struct err *err)
{
	struct attach_conn *c = conn_find_idle(r);
	int e;

	*ret_fresh = false;
	if (c) {
		*ret = c;
		return 0;
	}
	c = conn_find(r, CONN_EMPTY);
	if (!c)
		return -EAGAIN;
	atomic_fetch_add(&r->n_open, 1);
	c->index = (uint32_t)(c - r->conn);
	pthread_mutex_lock(&r->latch);
	e = conn_open_latched(r, c, err);
	pthread_mutex_unlock(&r->latch);
	if (e < 0) {
		conn_drop(r, c);
		return e;
	}
	*ret_fresh = true;
	*ret = c;
	return 0;
}

static int conn_send(struct attach_conn *c, unsigned type, const void *payload)
{
	int sock = owned_fd_get(&c->sock);

	return sock < 0 ? -ECONNRESET : packet_send(sock, type, ++c->next_id, payload, -1);
}

static bool is_answering(struct attach_region *r);

static int conn_recv(struct attach_region *r, struct attach_conn *c, unsigned asked,
		     struct packet *in, struct err *err)
{
	int sock = owned_fd_get(&c->sock), e;

	/* NEED may wait for room: for ever, as long as allotd talks to us otherwise */
	do
		e = sock < 0 ? -ECONNRESET : packet_recv(sock, answer_ns(r), in, err);
	while (e == -ETIMEDOUT && asked == WIRE_NEED && is_answering(r));

	if (e < 0)
		return e;
	packet_close_fds(in);
	if (in->msg.request_id != c->next_id)
		return err_set(err, -EPROTO, "allotd answered another request");
	return in->msg.type == WIRE_ERROR ? refusal(in, err) : 0;
}

/* ---- one call, and what happens while allotd is away ---- */

struct call {
	unsigned type;
	const void *payload;
	unsigned answer_type; /* of the one answer, or of the items */
	void *ret;
	int (*each)(const void *item, void *arg); /* a list, when set */
	void *arg;
};

static int converse(struct attach_region *r, struct attach_conn *c, const struct call *call,
		    struct err *err)
{
	struct packet in;
	int e = conn_send(c, call->type, call->payload);

	while (e == 0) {
		e = conn_recv(r, c, call->type, &in, err);
		if (e < 0)
			return e;
		if (call->each && in.msg.type == WIRE_END)
			return 0;
		if (in.msg.type != call->answer_type)
			return err_set(err, -EPROTO, "allotd answered %s with %s",
				       wire_name(call->type), wire_name(in.msg.type));
		if (!call->each) {
			memcpy(call->ret, in.msg.payload, (size_t)wire_size(call->answer_type));
			return 0;
		}
		e = call->each(in.msg.payload, call->arg);
	}
	return e;
}

static int ignore_item(const void *item, void *arg)
{
	(void)item, (void)arg;
	return 0;
}

/* does allotd (stopped, hung) answer what it answers at once? */
static bool is_answering(struct attach_region *r)
{
	static const struct wire_procs ask;
	const struct call call = {
		.type = WIRE_PROCS, .payload = &ask, .answer_type = WIRE_PROC, .each = ignore_item
	};
	struct attach_conn *c;
	struct err err;
	bool fresh;
	int e = conn_take(r, &c, &fresh, &err);

	if (e < 0)
		return e == -EAGAIN; /* all of them wait, and whoever is first to ask finds out */
	e = converse(r, c, &call, &err);
	if (e == 0 || e == -EREMOTEIO)
		conn_put(c);
	else
		conn_drop(r, c);
	return e == 0 || e == -EREMOTEIO;
}

static bool is_final(int e)
{
	return e == -EREMOTEIO || e == -EACCES || e == -EPERM || e == -EPROTONOSUPPORT ||
	       e == -ENAMETOOLONG || e == -ENOMEM;
}

/* has allotd been away for longer than the lease allows?  Notes the first time */
static bool grace_is_over(struct attach_region *r)
{
	uint64_t now = clock_now_ns();
	uint64_t since = 0;

	if (atomic_compare_exchange_strong(&r->gone_since_ns, &since, now))
		since = now;
	return now - since >= grace_ns(r);
}

static void note_back(struct attach_region *r)
{
	if (atomic_load_explicit(&r->gone_since_ns, memory_order_relaxed))
		atomic_store(&r->gone_since_ns, 0);
	if (atomic_load_explicit(&r->said_gone, memory_order_relaxed))
		atomic_store(&r->said_gone, 0);
}

static void say_gone(struct attach_region *r, const struct err *err)
{
	bool open = attach_is_open();

	if (attach_role != WIRE_ROLE_CUDA || atomic_exchange(&r->said_gone, 1))
		return;
	say("%s: %s", err->text[0] ? err->text : "allotd does not answer",
	    err->code == -EREMOTEIO && !open ? "no GPU memory for it"
	    : open                           ? "running without a limit (--fail-policy open)"
		   : "no more GPU memory until it is back (--fail-policy closed); "
		     "'allot doctor' tells more");
}

static void pause_ns(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / NS_PER_S),
			       .tv_nsec = (long)(ns % NS_PER_S) };

	(void)nanosleep(&ts, NULL); /* a signal only shortens it */
}

static int call_patiently(const struct call *call, struct attach_conn **keep, unsigned flags,
			  struct err *err)
{
	struct attach_region *r = region();
	uint64_t pause = PAUSE_MIN_NS;

	if (!r)
		return err_set(err, -ENOMEM, "no memory");
	for (;;) {
		struct attach_conn *c;
		bool fresh;
		int e = conn_take(r, &c, &fresh, err);

		if (e == 0) {
			e = call ? converse(r, c, call, err) : 0;
			if (e == 0 || e == -EREMOTEIO) {
				note_back(r);
				if (e == 0 && keep)
					*keep = c;
				else
					conn_put(c);
				return e;
			}
			conn_drop(r, c);
			atomic_fetch_add(&r->resent, 1);
			if (!fresh)
				continue; /* broke while idle: there are only so many of them */
		}
		if (is_final(e) || (e != -EAGAIN && (flags & ATTACH_NO_WAIT)) || grace_is_over(r)) {
			say_gone(r, err);
			return e;
		}
		pause_ns(pause);
		pause = pause * 2 > PAUSE_MAX_NS ? PAUSE_MAX_NS : pause * 2;
	}
}

static int call_quietly(const struct call *call, struct attach_conn **keep, unsigned flags,
			struct err *err)
{
	int saved_errno = errno, cancel, e;
	struct err own = { 0 };

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	e = call_patiently(call, keep, flags, err ? err : &own);
	(void)pthread_setcancelstate(cancel, NULL);
	errno = saved_errno;
	return e;
}

int attach_ensure(void)
{
	struct attach_region *r = region();

	if (r && atomic_load_explicit(&r->has_lease, memory_order_acquire))
		return 0;
	return call_quietly(NULL, NULL, 0, NULL);
}

const struct wire_attached *attach_lease(void)
{
	struct attach_region *r = atomic_load_explicit(&attach_shared_memory, memory_order_acquire);

	return r && atomic_load_explicit(&r->has_lease, memory_order_acquire) ? &r->lease : NULL;
}

/* overrides the weak one of the entry code: where the real driver is, only allotd knows */
const char *shim_driver_dir(void)
{
	return attach_ensure() == 0 ? attach_lease()->driver_dir : "";
}

uint32_t attach_resent(void)
{
	struct attach_region *r = atomic_load_explicit(&attach_shared_memory, memory_order_acquire);

	return r ? atomic_load(&r->resent) : 0;
}

bool attach_is_open(void)
{
	const struct wire_attached *lease = attach_lease();

	return lease && lease->fail_policy == WIRE_FAIL_OPEN;
}

int attach_call(unsigned type, const void *payload, unsigned answer_type, void *ret, unsigned flags,
		struct err *err)
{
	struct call call = {
		.type = type, .payload = payload, .answer_type = answer_type, .ret = ret
	};

	return call_quietly(&call, NULL, flags, err);
}

int attach_list(unsigned type, const void *payload, unsigned item_type,
		int (*each)(const void *item, void *arg), void *arg, struct err *err)
{
	struct call call = {
		.type = type, .payload = payload, .answer_type = item_type, .each = each, .arg = arg
	};

	return call_quietly(&call, NULL, 0, err);
}

int attach_call_keep(struct attach_conn **ret_conn, unsigned type, const void *payload,
		     unsigned answer_type, void *ret, unsigned flags, struct err *err)
{
	struct call call = {
		.type = type, .payload = payload, .answer_type = answer_type, .ret = ret
	};

	return call_quietly(&call, ret_conn, flags, err);
}

int attach_next(struct attach_conn *conn, unsigned type, const void *payload, unsigned answer_type,
		void *ret, struct err *err)
{
	struct call call = {
		.type = type, .payload = payload, .answer_type = answer_type, .ret = ret
	};
	int saved_errno = errno, cancel, e;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	e = converse(region(), conn, &call, err);
	(void)pthread_setcancelstate(cancel, NULL);
	errno = saved_errno;
	return e;
}

void attach_release(struct attach_conn *conn)
{
	conn_put(conn); /* if it broke, its next user finds out */
}

void attach_tell(struct attach_conn *conn, unsigned type, const void *payload)
{
	int saved_errno = errno;

	if (conn_send(conn, type, payload) == 0)
		conn_put(conn);
	else
		conn_drop(region(), conn);
	errno = saved_errno;
}

void attach_hint(unsigned type, const void *payload)
{
	struct attach_region *r = atomic_load_explicit(&attach_shared_memory, memory_order_acquire);
	struct attach_conn *c = r ? conn_find_idle(r) : NULL;
	int saved_errno = errno;

	if (!c)
		return;
	if (conn_send(c, type, payload) == 0)
		conn_put(c);
	else
		conn_drop(r, c);
	errno = saved_errno;
}

/* the doorbell was closed by the host: a new attach brings another; meanwhile, in words */
static void reattach(struct attach_region *r, uint32_t slot)
{
	struct wire_settle settle = { .slot = slot };
	uint64_t last = atomic_load(&r->reattached_ns), now = clock_now_ns();
	struct attach_conn *c;

	if (now - last < REATTACH_NS ||
	    !atomic_compare_exchange_strong(&r->reattached_ns, &last, now))
		return;
	while ((c = conn_find_idle(r)))
		conn_drop(r, c);
	if (call_quietly(NULL, NULL, ATTACH_NO_WAIT, NULL) == 0)
		attach_hint(WIRE_SETTLE, &settle);
}

void attach_ring(uint32_t slot)
{
	struct attach_region *r = atomic_load_explicit(&attach_shared_memory, memory_order_acquire);
	int saved_errno = errno;
	uint64_t one = 1;
	bool rung = false;
	int fd;

	if (!r)
		return;
	pthread_mutex_lock(&r->bell_lock);
	fd = bell_get(&r->bell);
	if (fd >= 0) {
		ssize_t n;

		do
			n = write(fd, &one, sizeof(one));
		while (n < 0 && errno == EINTR);
		rung = n == sizeof(one) || errno == EAGAIN; /* full: it rings already */
	}
	pthread_mutex_unlock(&r->bell_lock);
	if (!rung)
		reattach(r, slot);
	errno = saved_errno;
}
