// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_ATTACH_H
#define SHIM_ATTACH_H

/*
 * A guest's conversation with allotd: blocking, from any thread, without a thread of its own.
 *
 * Which allotd: client/find.h; in a process whose environment lost ALLOT_SOCKET, what the process
 * was started with.  Where the machine has a service (its socket exists), only a server of uid 0
 * is believed.  The first call attaches; the lease is kept.  Both shims use this file, each for
 * itself: attach_role says as what.
 *
 * Connections: a small pool.  A call takes an idle connection or opens one, uses it alone and
 * puts it back, so that no lock is held while somebody waits for an answer; the one exception is
 * the first attach, which all threads must await anyway.  A descriptor is used only while fstat
 * says that it is still ours: a host that closes or reuses descriptors costs a reconnection, and
 * we never write into, or close, a file of the host.
 *
 * When allotd is away: a call tries again for the grace period of the lease (10 s before there is
 * one), counted from when the loss was first noticed, so that later calls fail at once; then it
 * answers -ECONNREFUSED or the like and one line on stderr has said so.  What that means is the
 * caller's affair: attach_is_open() tells whether the job is to run unlimited.  In a process that
 * allot did not start there is no grace.
 *
 * Also defined here: shim_driver_dir (shim/entry.h), the folder of the real libraries as allotd
 * says; it attaches.
 *
 * fork: all state is wiped in the child (shim/wiped.h), which attaches as itself at its first
 * call and closes what it inherited.  errno is preserved.  Nothing here is cancelled by
 * pthread_cancel.  No malloc.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/page.h"
#include "wire/wire.h"

struct err;

/* defined once by each library that links this: what it attaches as */
extern const enum wire_attach_role attach_role;

/* how long allotd may take for what it answers at once, at least; tests shorten it */
extern uint64_t attach_answer_ns;

/** attach_ensure - attach if that has not happened; 0, or -errno when there is no allotd for us */
int attach_ensure(void);

/** attach_lease - what ATTACHED said, for the life of the process; NULL before the first attach */
const struct wire_attached *attach_lease(void);

/** attach_is_open - is this job to run unlimited while allotd is away? */
bool attach_is_open(void);

#define ATTACH_NO_WAIT (1u << 0) /* do not wait for an allotd that is away (stream capture) */

/**
 * attach_call - one request, one answer
 * @flags: ATTACH_*
 * @ret:   the struct of @answer_type, filled on 0 only
 *
 * Blocks: NEED as long as allotd lets it wait and answers other questions meanwhile, anything else
 * at most the grace period.  A request
 * whose answer was lost with the connection is sent again.  Returns 0; -EREMOTEIO when allotd
 * refused, in words (@err); -ECONNREFUSED, -ENOENT, -ECONNRESET, -ETIMEDOUT… when it stayed away.
 */
int attach_call(unsigned type, const void *payload, unsigned answer_type, void *ret, unsigned flags,
		struct err *err);

/** attach_list - one request; each item of @item_type goes to @each until END; as attach_call */
int attach_list(unsigned type, const void *payload, unsigned item_type,
		int (*each)(const void *item, void *arg), void *arg, struct err *err);

/** attach_hint - one message without an answer; lost if there is no idle connection.  Never waits
 */
void attach_hint(unsigned type, const void *payload);

/** attach_resent - how many requests were sent again because their connection broke */
uint32_t attach_resent(void);

/* A conversation of several requests that must come from one connection (NEED, CONTEXT_DONE). */
struct attach_conn;

/** attach_call_keep - attach_call, and the connection stays ours until attach_release */
int attach_call_keep(struct attach_conn **ret_conn, unsigned type, const void *payload,
		     unsigned answer_type, void *ret, unsigned flags, struct err *err);

/** attach_next - a further request on a kept connection; never reconnects */
int attach_next(struct attach_conn *conn, unsigned type, const void *payload, unsigned answer_type,
		void *ret, struct err *err);
void attach_release(struct attach_conn *conn);

/** attach_tell - a last message without an answer on a kept connection, and release it.  Never
 * waits; allotd takes a connection that is gone for the message */
void attach_tell(struct attach_conn *conn, unsigned type, const void *payload);

/** attach_ring - tell allotd that credit came back in @slot which somebody wants.  Never waits */
void attach_ring(uint32_t slot);

/*
 * For the fast path: the credit page (NULL: not attached, or just forked), and what this process
 * holds of each slot by its own count.  The count is raised before anything is taken and lowered
 * after it went back, so it is never too low; account.c compares it with the page after a restart
 * of allotd.
 */
struct attach_shared {
	struct credit_page *_Atomic page;
	_Alignas(64) _Atomic uint64_t held_bytes[WIRE_MAX_GPUS];
	_Atomic uint64_t managed_bytes[WIRE_MAX_GPUS]; /* the part of it in managed memory */
	_Atomic uint64_t elastic_bytes[WIRE_MAX_GPUS]; /* … that the driver takes when it likes */
};
extern void *_Atomic attach_shared_memory;

static inline struct attach_shared *attach_shared(void)
{
	return atomic_load_explicit(&attach_shared_memory, memory_order_acquire);
}

static inline struct credit_page *attach_page(void)
{
	struct attach_shared *s = attach_shared();

	return s ? atomic_load_explicit(&s->page, memory_order_acquire) : NULL;
}

#endif
