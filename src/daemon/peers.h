// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_PEERS_H
#define DAEMON_PEERS_H

/*
 * The connections of allotd: who is there, what they said, what they will be told.
 *
 * A peer is one accepted SEQPACKET connection.  Its identity (pid, uid, pidfd) comes from the
 * kernel at the moment it connected.  Bytes that are no message of ours are answered in words and
 * end that connection, never another one.  What cannot be sent at once is queued; a peer that lets
 * more pile up than PEER_QUEUE_MAX, or whose queue is the one that takes the common room over
 * PEERS_QUEUE_MAX, is disconnected.
 *
 * A peer is freed only between two turns of the loop (see peers_reap), after `closed` was called,
 * so a handler may go on using the peer it was given.  Sending to a doomed peer is harmless.
 *
 * All connections hang on one epoll of their own below the loop: sd-event looks at everything that
 * is ready again after each single event, which a crowd would make quadratic.
 *
 * Most connections are made to ask something at once, so each is read as soon as it is accepted.
 * Who was served then goes into the epoll when nothing else is to be done, or after some
 * milliseconds: in a crowd the others' answers come first.
 *
 * One thread: the loop's.  Nothing here blocks.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "base/list.h"
#include "daemon/outbox.h"
#include "wire/wire.h"

#define PEERS_MAX       4096
#define PEER_GROUPS_MAX 256
#define PEER_QUEUE_MAX  ((size_t)4 << 20)
#define PEERS_QUEUE_MAX ((size_t)32 << 20)
#define PEER_FDS_MAX    OUTBOX_FDS_MAX

struct peers;
struct process;
struct job;
struct ask;

enum peer_sight {
	PEER_SIGHT_UNKNOWN,
	PEER_SIGHT_OURS, /* it lives in our PID namespace */
	PEER_SIGHT_OTHER,
};

struct peer {
	struct list node; /* of peers */
	struct peers *peers;
	int fd;
	pid_t pid; /* 0: in no namespace that we can see */
	uid_t uid;
	gid_t gid;
	int pidfd;             /* -1 when the kernel gave none; whoever needs it longer takes it */
	enum peer_sight sight; /* sight.h */
	bool is_watched;       /* is in the epoll */
	struct list unwatched;
	bool is_doomed;
	bool is_closing; /* close when the queue is empty */
	bool is_held;    /* a request is being answered: read no further one */
	struct outbox outbox;

	/* what the connection turned out to be; owned by programs.c and jobs.c */
	struct process *process;
	struct list process_node;
	struct ask *ask;       /* an answer that is still to come */
	int context_slot;      /* a context was granted and not yet reported; -1: none */
	int overdraft_slot;    /* the same of an overdraft */
	struct job *job;       /* whose keeper this is */
	uint64_t observed_job; /* of an observer: the id of its job; 0: nobody's */
	bool is_observer;
	struct list waiting; /* of run.waiters: a WAIT that wants its second answer */
	uint32_t waiting_id;
	struct list settling; /* of registry.settling: a SETTLE that wants its answer */
	uint32_t settle_id;
	unsigned settle_slot;
	uint64_t settle_end_ns;
	uint32_t n_kept; /* pages that a returning keeper has still to send */
};

struct peers_ops {
	/** message - @fds: what came with it, *n_fds of them; a taken one is replaced by -1 */
	void (*message)(void *context, struct peer *peer, const struct wire_message *msg, int *fds,
			unsigned n_fds);
	void (*closed)(void *context, struct peer *peer);
	/** short_of_descriptors - nobody more can be accepted: can some be given back? */
	void (*short_of_descriptors)(void *context);
};

/**
 * peers_new - serve a listening socket
 * @listen_fd: taken over on success
 * @uid_only:  serve only this user and root; (uid_t)-1: everybody
 *
 * Nobody is accepted before peers_accept.  Returns 0 or -errno.
 */
int peers_new(sd_event *event, int listen_fd, uid_t uid_only, const struct peers_ops *ops,
	      void *context, struct peers **ret);
struct peers *peers_free(struct peers *peers);

/** peers_accept - begin to accept (may be called again) */
int peers_accept(struct peers *peers);

/** peers_set_limits - connections at a time, and those of one user but root; PEERS_MAX at the most
 */
void peers_set_limits(struct peers *peers, unsigned max, unsigned max_of_uid);

/** peer_groups - the groups of its process when it connected; how many */
unsigned peer_groups(const struct peer *peer, uint32_t *ret_gids, unsigned max);

unsigned peers_count(const struct peers *peers);

/** peer_send - queue one message; a failure dooms the peer and is not the caller's concern */
void peer_send(struct peer *peer, unsigned type, uint32_t request_id, const void *payload);

/** peer_send_fds - with descriptors, which are duplicated when they have to wait */
void peer_send_fds(struct peer *peer, unsigned type, uint32_t request_id, const void *payload,
		   const int *fds, unsigned n_fds);

/** peer_ok - the answer OK with @value */
void peer_ok(struct peer *peer, uint32_t request_id, uint64_t value);

/** peer_refuse - the answer ERROR in words; the connection goes on */
void peer_refuse(struct peer *peer, uint32_t request_id, enum wire_code code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/** peer_end - close after what is queued has gone out */
void peer_end(struct peer *peer);

/** peer_hold, peer_release - the answer to the last request comes later; it has come */
void peer_hold(struct peer *peer);
void peer_release(struct peer *peer);

#endif
