// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/drops.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5, include/uapi/asm-generic/socket.h */
#endif

#define PEER_READ_BURST      16 /* packets of one peer before the others' turn */
#define PEERS_READY_BURST    64 /* connections served in one turn of the loop */
#define COMPLAINTS           20 /* about peers, in a burst */
#define COMPLAINT_NS         (10 * NS_PER_S)
#define ACCEPT_BURST         32
#define UNWATCHED_NS         (5 * NS_PER_MS) /* a connection that was served waits at most so long */
#define PEERS_QUIET_PRIORITY (SD_EVENT_PRIORITY_NORMAL + 10)
#define ACCEPT_PAUSE_NS      (200 * NS_PER_MS) /* after running out of descriptors */

struct peers {
	sd_event *event;
	int epoll;
	struct drops *drops;
	sd_event_source *ready; /* of the epoll */
	sd_event_source *listen;
	sd_event_source *pause; /* listens again after a while */
	sd_event_source *reaper;
	sd_event_source *watcher;
	int listen_fd;
	uid_t uid_only;
	unsigned max;        /* connections at a time */
	unsigned max_of_uid; /* of one user but root: nobody can lock the others out */
	const struct peers_ops *ops;
	void *context;
	struct list all;
	struct list doomed;    /* to be freed when nobody up the stack holds them */
	struct list unwatched; /* served once, not yet in the epoll */
	uint64_t unwatched_since_ns;
	unsigned n;
	size_t queue_bytes;
	bool is_full_told;
	unsigned complaints;
	uint64_t complained_ns;
	_Alignas(8) unsigned char in[WIRE_MAX_MESSAGE];
	_Alignas(8) unsigned char out[WIRE_MAX_MESSAGE];
};

static void peer_free(struct peer *peer)
{
	outbox_fini(&peer->outbox);
	if (peer->fd >= 0)
		close(peer->fd);
	if (peer->pidfd >= 0)
		close(peer->pidfd);
	list_del(&peer->node);
	peer->peers->n--;
	free(peer);
}

static void peer_doom(struct peer *peer)
{
	struct peers *peers = peer->peers;

	if (peer->is_doomed)
		return;
	peer->is_doomed = true;
	list_del(&peer->unwatched);
	if (peer->is_watched)
		(void)epoll_ctl(peers->epoll, EPOLL_CTL_DEL, peer->fd, NULL); /* it is in there */
	list_del(&peer->node);
	list_append(&peers->doomed, &peer->node);
	(void)sd_event_source_set_enabled(peers->reaper, SD_EVENT_ONESHOT); /* cannot fail */
}

/* between two events: nobody up the stack holds a peer now */
static int peers_reap(sd_event_source *source, void *userdata)
{
	struct peers *peers = userdata;

	(void)source;
	while (!list_is_empty(&peers->doomed)) { /* `closed` may doom further ones */
		struct peer *peer = list_entry(peers->doomed.next, struct peer, node);

		peers->ops->closed(peers->context, peer);
		peer_free(peer);
	}
	if (peers->listen &&
	    sd_event_source_set_enabled(peers->listen, SD_EVENT_ON) >= 0) /* room again */
		peers->is_full_told = false;
	return 0;
}

/* what a peer can make us write down has a bound: a burst, and then one line in ten seconds */
static bool may_complain(struct peers *peers)
{
	uint64_t now = clock_now_ns();
	uint64_t fresh = (now - peers->complained_ns) / COMPLAINT_NS;

	if (fresh > 0) {
		peers->complaints =
			fresh > peers->complaints ? 0 : peers->complaints - (unsigned)fresh;
		peers->complained_ns = now;
	}
	if (peers->complaints >= COMPLAINTS)
		return false;
	peers->complaints++;
	return true;
}

/* what the loop shall wait for */
static void peer_watch(struct peer *peer)
{
	struct epoll_event e = { .events = EPOLLRDHUP, .data.ptr = peer };

	if (peer->is_doomed)
		return;
	if (!peer->is_held && !peer->is_closing)
		e.events |= EPOLLIN;
	if (!outbox_is_empty(&peer->outbox))
		e.events |= EPOLLOUT;
	list_del(&peer->unwatched);
	if (epoll_ctl(peer->peers->epoll, peer->is_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
		      peer->fd, &e) < 0) {
		log_warn("cannot serve pid %d: %s", peer->pid, strerror(errno));
		peer_doom(peer);
	} else {
		peer->is_watched = true;
	}
}

static void watch_all(struct peers *peers)
{
	struct peer *peer, *tmp;

	list_for_each_safe (peer, tmp, &peers->unwatched, unwatched)
		peer_watch(peer);
}

/* nothing else to do: what came meanwhile is seen, for the epoll is level-triggered */
static int on_quiet(sd_event_source *source, void *userdata)
{
	(void)source;
	watch_all(userdata);
	return 0;
}

/* it was served and nobody waits for us: others first */
static void peer_watch_later(struct peer *peer)
{
	struct peers *peers = peer->peers;

	if (peer->is_doomed || peer->is_watched)
		return;
	if (list_is_empty(&peers->unwatched)) {
		peers->unwatched_since_ns = clock_now_ns();
		(void)sd_event_source_set_enabled(peers->watcher,
						  SD_EVENT_ONESHOT); /* cannot fail */
	}
	list_append(&peers->unwatched, &peer->unwatched);
}

/* a loop that never gets quiet must not forget them */
static void watch_overdue(struct peers *peers)
{
	if (!list_is_empty(&peers->unwatched) &&
	    clock_now_ns() - peers->unwatched_since_ns > UNWATCHED_NS)
		watch_all(peers);
}

void peer_send_fds(struct peer *peer, unsigned type, uint32_t request_id, const void *payload,
		   const int *fds, unsigned n_fds)
{
	struct peers *peers = peer->peers;
	int len, r = 0;

	if (peer->is_doomed || peer->is_closing)
		return;
	len = wire_encode(peers->out, sizeof(peers->out), type, request_id, payload);
	if (len < 0) {
		log_error("cannot encode message %u: %s", type, strerror(-len));
		return;
	}
	if (outbox_is_empty(&peer->outbox))
		r = outbox_send(peer->fd, peers->out, (size_t)len, fds, n_fds);
	if (r == 0) {
		if (peer->outbox.bytes + (size_t)len > PEER_QUEUE_MAX ||
		    peers->queue_bytes + (size_t)len > PEERS_QUEUE_MAX)
			r = -ENOBUFS;
		else
			r = outbox_put(&peer->outbox, peers->out, (size_t)len, fds, n_fds);
		if (r < 0 && may_complain(peers))
			log_warn("pid %d reads too slowly (%zu bytes wait): disconnected",
				 peer->pid, peer->outbox.bytes);
		if (r == 0)
			peer_watch(peer);
	}
	if (r < 0)
		peer_doom(peer);
}

void peer_send(struct peer *peer, unsigned type, uint32_t request_id, const void *payload)
{
	peer_send_fds(peer, type, request_id, payload, NULL, 0);
}

void peer_ok(struct peer *peer, uint32_t request_id, uint64_t value)
{
	peer_send(peer, WIRE_OK, request_id, &(struct wire_ok){ .value = value });
}

void peer_refuse(struct peer *peer, uint32_t request_id, enum wire_code code, const char *fmt, ...)
{
	struct wire_error e = { .code = (uint32_t)code, .version = WIRE_VERSION };
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(e.text, sizeof(e.text), fmt, ap); /* cut when too long */
	va_end(ap);
	peer_send(peer, WIRE_ERROR, request_id, &e);
}

void peer_end(struct peer *peer)
{
	if (peer->is_doomed)
		return;
	if (outbox_is_empty(&peer->outbox)) {
		peer_doom(peer);
		return;
	}
	peer->is_closing = true;
	peer_watch(peer);
}

void peer_hold(struct peer *peer)
{
	peer->is_held = true;
	peer_watch(peer);
}

void peer_release(struct peer *peer)
{
	peer->is_held = false;
	peer_watch(peer);
}

static void peer_flush(struct peer *peer)
{
	int r = outbox_flush(&peer->outbox, peer->fd);

	if (r < 0 || (r == 1 && peer->is_closing))
		peer_doom(peer);
	else
		peer_watch(peer);
}

/* the descriptors that came along; more than we can use are closed at once */
static unsigned take_fds(struct peers *peers, struct msghdr *msg, int fds[PEER_FDS_MAX])
{
	unsigned n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (n < PEER_FDS_MAX)
				fds[n++] = fd;
			else
				drops_close(peers->drops, fd);
		}
	}
	return n;
}

/*
 * Descriptors that nobody expects are not even taken up: to close one may take as long as its owner
 * pleases (drops.h).  A program that has attached sends none.
 */
static bool expects_fds(struct peer *peer)
{
	struct wire_header h;

	if (peer->process || peer->is_observer || drops_is_full(peer->peers->drops) ||
	    recv(peer->fd, &h, sizeof(h), MSG_PEEK | MSG_DONTWAIT) != sizeof(h))
		return false;
	return h.type == WIRE_ATTACH || h.type == WIRE_KEPT || h.type == WIRE_ADOPT;
}

static void peer_speak_up(struct peer *peer, const struct wire_message *msg, const struct err *err)
{
	if (may_complain(peer->peers))
		log_warn("pid %d (uid %u) sent no message of ours: %s: disconnected", peer->pid,
			 peer->uid, err->text);
	if (err->code == -EPROTONOSUPPORT)
		peer_refuse(peer, msg->request_id, WIRE_CODE_NOT_SUPPORTED,
			    "this is allotd %s, which speaks protocol %d; you speak protocol %u: "
			    "install the same version on both sides, and restart %s",
			    ALLOT_VERSION, WIRE_VERSION, msg->version,
			    msg->version > WIRE_VERSION ? "allotd" : "the program");
	else
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE, "%s", err->text);
	peer_end(peer);
}

/* one packet; false when there is none now or the peer is done */
static bool peer_receive(struct peer *peer)
{
	struct peers *peers = peer->peers;
	struct iovec iov = { .iov_base = peers->in, .iov_len = sizeof(peers->in) };
	union {
		char buf[CMSG_SPACE(PEER_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf) };
	struct wire_message msg = { 0 };
	struct err err = { 0 };
	int fds[PEER_FDS_MAX];
	ssize_t n;

	if (!expects_fds(peer))
		m.msg_controllen = 0;
	n = recvmsg(peer->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			peer_doom(peer);
		return false;
	}
	unsigned n_fds = take_fds(peers, &m, fds);
	bool goes_on = true;

	if (n == 0 && n_fds == 0) {
		peer_doom(peer);
		return false;
	}
	if (m.msg_flags & MSG_TRUNC)
		err_set(&err, -EBADMSG, "packet is longer than %d bytes", WIRE_MAX_MESSAGE);
	else
		(void)wire_decode(peers->in, (size_t)n, &msg, &err); /* err tells */
	if (err.code < 0) {
		peer_speak_up(peer, &msg, &err);
		goes_on = false;
	} else {
		peers->ops->message(peers->context, peer, &msg, fds, n_fds);
	}
	for (unsigned i = 0; i < n_fds; i++)
		if (fds[i] >= 0)
			drops_close(peers->drops, fds[i]);
	return goes_on && !peer->is_doomed && !peer->is_held && !peer->is_closing;
}

static void serve_peer(struct peer *peer, uint32_t revents)
{
	if (revents & EPOLLOUT)
		peer_flush(peer);
	if ((revents & EPOLLIN) && !peer->is_doomed && !peer->is_held && !peer->is_closing)
		for (int i = 0; i < PEER_READ_BURST && peer_receive(peer); i++)
			;
	/* the other side is gone: what it sent before is read first, unless it waits anyway */
	if ((revents & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) &&
	    (!(revents & EPOLLIN) || peer->is_held || peer->is_closing))
		peer_doom(peer);
}

static int on_ready(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct epoll_event ready[PEERS_READY_BURST];
	int n = epoll_wait(fd, ready, PEERS_READY_BURST, 0);

	(void)source, (void)revents;
	for (int i = 0; i < n; i++) {
		struct peer *peer = ready[i].data.ptr;

		if (!peer->is_doomed) /* by one that came before it in this turn */
			serve_peer(peer, ready[i].events);
	}
	watch_overdue(userdata);
	return n < 0 && errno != EINTR ? -errno : 0;
}

void peers_set_limits(struct peers *peers, unsigned max, unsigned max_of_uid)
{
	peers->max = max;
	peers->max_of_uid = max_of_uid;
}

unsigned peer_groups(const struct peer *peer, uint32_t *ret_gids, unsigned max)
{
	gid_t gids[PEER_GROUPS_MAX];
	socklen_t len = sizeof(gids);
	unsigned n = 0;

	if (max)
		ret_gids[n++] = peer->gid;
	/* in more groups than that: then of its first one alone */
	if (getsockopt(peer->fd, SOL_SOCKET, SO_PEERGROUPS, gids, &len) < 0)
		return n;
	for (unsigned i = 0; i < len / sizeof(gids[0]) && n < max; i++)
		ret_gids[n++] = gids[i];
	return n;
}

static unsigned peers_of_uid(const struct peers *peers, uid_t uid)
{
	struct peer *peer;
	unsigned n = 0;

	list_for_each (peer, &peers->all, node)
		n += peer->uid == uid;
	return n;
}

/* a connection that is not served is told why */
static void turn_away(int fd, enum wire_code code, const char *why)
{
	struct wire_error e = { .code = (uint32_t)code, .version = WIRE_VERSION };
	_Alignas(8) unsigned char buf[sizeof(struct wire_header) + sizeof(e)];
	int len;

	(void)str_copy(e.text, sizeof(e.text), why);
	len = wire_encode(buf, sizeof(buf), WIRE_ERROR, 0, &e);
	if (len > 0) /* best effort: it will see the end of the connection anyway */
		(void)!send(fd, buf, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int peer_pidfd(int fd, pid_t pid)
{
	int pidfd;
	socklen_t len = sizeof(pidfd);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0)
		return pidfd;
	return pid > 0 ? fd_pidfd_open(pid) : -ESRCH; /* checked by start time when used */
}

static struct peer *peer_add(struct peers *peers, int fd, const struct ucred *cred)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->peers = peers;
	peer->fd = fd;
	peer->context_slot = -1;
	peer->overdraft_slot = -1;
	peer->pid = cred->pid;
	peer->uid = cred->uid;
	peer->gid = cred->gid;
	outbox_init(&peer->outbox, &peers->queue_bytes);
	list_append(&peers->all, &peer->node);
	peers->n++;
	peer->pidfd = peer_pidfd(fd, cred->pid);
	return peer;
}

/* 0: go on (*ret: not NULL when somebody came); -EAGAIN: nobody there; -EMFILE …: no room */
static int accept_one(struct peers *peers, struct peer **ret)
{
	AUTO_FD int fd = accept4(peers->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred cred;
	socklen_t len = sizeof(cred);

	*ret = NULL;
	if (fd < 0)
		return errno == EINTR || errno == ECONNABORTED ? 0 : -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return 0; /* gone already */
	if (peers->uid_only != (uid_t)-1 && cred.uid != 0 && cred.uid != peers->uid_only) {
		turn_away(fd, WIRE_CODE_NOT_PERMITTED, "this allotd serves another user");
		return 0;
	}
	if (peers->n >= peers->max ||
	    (cred.uid != 0 && peers->n >= peers->max_of_uid && peers->uid_only == (uid_t)-1 &&
	     peers_of_uid(peers, cred.uid) >= peers->max_of_uid)) {
		turn_away(fd, WIRE_CODE_FAILED, "allotd has too many connections: try again later");
		return 0;
	}
	*ret = peer_add(peers, fd, &cred);
	if (*ret)
		(void)TAKE_FD(fd);
	else
		log_warn("cannot serve pid %d: no memory, ignoring", cred.pid);
	return 0;
}

/* as many as are there, up to a bound, and then what they have to say; accept_one's outcome */
static int accept_some(struct peers *peers)
{
	struct peer *fresh[ACCEPT_BURST];
	unsigned n = 0;
	int r = 0;

	for (int i = 0; i < ACCEPT_BURST && r == 0; i++) {
		r = accept_one(peers, &fresh[n]);
		n += r == 0 && fresh[n];
	}
	for (unsigned i = 0; i < n; i++) {
		if (fresh[i]->is_doomed)
			continue;
		if (peer_receive(fresh[i]))
			peer_watch_later(fresh[i]);
		else if (!fresh[i]->is_watched)
			peer_watch(fresh[i]);
	}
	watch_overdue(peers);
	return r;
}

static int on_pause_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct peers *peers = userdata;

	(void)source, (void)usec;
	return sd_event_source_set_enabled(peers->listen, SD_EVENT_ON);
}

static int on_listen(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct peers *peers = userdata;
	int r = accept_some(peers);

	(void)fd, (void)revents;
	if (r == 0 || r == -EAGAIN)
		return 0;
	/* the caller stays in the backlog; asking again at once would only burn the CPU */
	if (!peers->is_full_told)
		log_warn("cannot accept: %s; waiting for a connection to end", strerror(-r));
	peers->is_full_told = true;
	peers->ops->short_of_descriptors(peers->context);
	r = sd_event_source_set_enabled(source, SD_EVENT_OFF);
	if (r < 0)
		return r;
	(void)sd_event_source_set_time_relative(peers->pause, ACCEPT_PAUSE_NS / NS_PER_US);
	return sd_event_source_set_enabled(peers->pause, SD_EVENT_ONESHOT);
}

int peers_new(sd_event *event, int listen_fd, uid_t uid_only, const struct peers_ops *ops,
	      void *context, struct peers **ret)
{
	struct peers *peers = calloc(1, sizeof(*peers));
	int r;

	if (!peers)
		return -ENOMEM;
	peers->event = event;
	peers->listen_fd = -1;
	peers->uid_only = uid_only;
	peers->max = PEERS_MAX;
	peers->max_of_uid = PEERS_MAX / 2;
	peers->ops = ops;
	peers->context = context;
	list_init(&peers->all);
	list_init(&peers->doomed);
	list_init(&peers->unwatched);
	peers->epoll = epoll_create1(EPOLL_CLOEXEC);
	peers->drops = drops_new();
	r = !peers->drops ? -ENOMEM
	    : peers->epoll < 0
		    ? -errno
		    : sd_event_add_io(event, &peers->ready, peers->epoll, EPOLLIN, on_ready, peers);
	if (r >= 0)
		r = sd_event_add_defer(event, &peers->reaper, peers_reap, peers);
	if (r >= 0)
		r = sd_event_source_set_enabled(peers->reaper, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_source_set_priority(peers->reaper, SD_EVENT_PRIORITY_IMPORTANT);
	if (r >= 0)
		r = sd_event_add_defer(event, &peers->watcher, on_quiet, peers);
	if (r >= 0)
		r = sd_event_source_set_enabled(peers->watcher, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_source_set_priority(peers->watcher, PEERS_QUIET_PRIORITY);
	if (r >= 0)
		r = sd_event_add_time_relative(event, &peers->pause, CLOCK_MONOTONIC, 0, 0,
					       on_pause_over, peers);
	if (r >= 0)
		r = sd_event_source_set_enabled(peers->pause, SD_EVENT_OFF);
	if (r < 0) {
		peers_free(peers);
		return r;
	}
	peers->listen_fd = listen_fd;
	*ret = peers;
	return 0;
}

int peers_accept(struct peers *peers)
{
	if (peers->listen)
		return 0;
	return sd_event_add_io(peers->event, &peers->listen, peers->listen_fd, EPOLLIN, on_listen,
			       peers);
}

struct peers *peers_free(struct peers *peers)
{
	struct peer *peer, *tmp;

	if (!peers)
		return NULL;
	list_for_each_safe (peer, tmp, &peers->all, node) {
		peers->ops->closed(peers->context, peer);
		peer_free(peer);
	}
	sd_event_source_disable_unref(peers->listen);
	sd_event_source_disable_unref(peers->pause);
	sd_event_source_disable_unref(peers->reaper);
	sd_event_source_disable_unref(peers->watcher);
	sd_event_source_disable_unref(peers->ready);
	if (peers->epoll >= 0)
		close(peers->epoll);
	if (peers->listen_fd >= 0)
		close(peers->listen_fd);
	drops_free(peers->drops);
	free(peers);
	return NULL;
}

unsigned peers_count(const struct peers *peers)
{
	return peers->n;
}
