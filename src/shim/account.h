// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_ACCOUNT_H
#define SHIM_ACCOUNT_H

/*
 * What this process may hold: taking and giving back bytes of the lease.
 *
 * Order everywhere: take, call the driver, keep or give back.  A take within the credit word is one
 * compare-and-swap and asks nobody; otherwise allotd is asked (NEED), which may take as long as
 * the job's --when-full.  A give is one add, and a ring when somebody wants it (wire/page.h).
 *
 * A charge says how many bytes were taken from which slot.  Slot ACCOUNT_NOWHERE is a charge of
 * nothing: the GPU is not in the lease, the size is 0, or the job runs unlimited because allotd is
 * away (--fail-policy open).  Such a charge is kept and given back like any other, so that callers
 * need not know.
 *
 * A refusal is explained on stderr by one line, once: by account_take itself, or with
 * ACCOUNT_QUIET later by account_explain, when the caller has found no other way.
 *
 * Any thread; no lock is held while waiting; errno is preserved; no malloc.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/attach.h"
#include "wire/page.h"

#define ACCOUNT_NOWHERE (-1)

/* how NVML shows it with this process (wire/page.h) */
enum charge_kind {
	CHARGE_PLAIN,   /* as soon as the driver's call has returned */
	CHARGE_MANAGED, /* never */
	CHARGE_ELASTIC, /* some time */
};

struct charge {
	int32_t slot;  /* of the lease, or ACCOUNT_NOWHERE */
	uint32_t kind; /* enum charge_kind */
	uint64_t bytes;
};
#define CHARGE_NONE ((struct charge){ .slot = ACCOUNT_NOWHERE })

struct refusal {
	int32_t slot;
	uint32_t is_away; /* allotd could not be asked; that has been said already */
	uint64_t asked_bytes;
	struct wire_grant grant;
};

#define ACCOUNT_NO_WAIT (1u << 0) /* a capture is under way: refuse instead of waiting */
#define ACCOUNT_QUIET   (1u << 1) /* leave the explaining to the caller */
#define ACCOUNT_ASK     (1u << 2) /* ask allotd even if there is credit (the card proved full) */

/** account_take_slow - the part of account_take that is not inline */
bool account_take_slow(int slot, uint64_t bytes, unsigned flags, struct charge *ret,
		       struct refusal *ret_refusal);

/* one compare-and-swap; false when the credit is smaller */
static inline bool account_take_credit(struct credit_slot *s, uint64_t bytes)
{
	uint64_t have = atomic_load_explicit(&s->credit_bytes, memory_order_relaxed);

	while (have >= bytes)
		if (atomic_compare_exchange_weak(&s->credit_bytes, &have, have - bytes))
			return true;
	return false;
}

/**
 * account_take - reserve @bytes of the lease's slot @slot
 * @flags:       ACCOUNT_*
 * @ret:         filled on true
 * @ret_refusal: with ACCOUNT_QUIET, filled on false; else NULL
 *
 * False: CUDA_ERROR_OUT_OF_MEMORY is due.  May block unless ACCOUNT_NO_WAIT.
 */
static inline bool account_take(int slot, uint64_t bytes, unsigned flags, struct charge *ret,
				struct refusal *ret_refusal)
{
	struct attach_shared *shared = attach_shared();
	struct credit_page *page;

	if (slot < 0 || slot >= WIRE_MAX_GPUS || bytes == 0) {
		*ret = CHARGE_NONE;
		return true;
	}
	page = shared ? atomic_load_explicit(&shared->page, memory_order_acquire) : NULL;
	if (page && !(flags & ACCOUNT_ASK)) {
		atomic_fetch_add(&shared->held_bytes[slot], bytes);
		if (account_take_credit(&page->slot[slot], bytes)) {
			*ret = (struct charge){ .slot = slot, .bytes = bytes };
			return true;
		}
		atomic_fetch_sub(&shared->held_bytes[slot], bytes);
	}
	return account_take_slow(slot, bytes, flags, ret, ret_refusal);
}

/**
 * account_moves, account_moved - around the driver's call that @bytes of @slot were taken for
 * Until it has returned NVML may lack what is charged already (wire/page.h).
 */
static inline void account_moves(int slot, uint64_t bytes)
{
	struct credit_page *page = attach_page();

	if (page && slot >= 0 && slot < WIRE_MAX_GPUS)
		atomic_fetch_add_explicit(&page->slot[slot].moving_bytes, bytes,
					  memory_order_relaxed);
}

static inline void account_moved(int slot, uint64_t bytes)
{
	struct credit_page *page = attach_page();
	_Atomic uint64_t *moving;
	uint64_t n;

	if (!page || slot < 0 || slot >= WIRE_MAX_GPUS)
		return;
	moving = &page->slot[slot].moving_bytes;
	n = atomic_load_explicit(moving, memory_order_relaxed);
	/* a page that came meanwhile has not counted us */
	while (n &&
	       !atomic_compare_exchange_weak_explicit(moving, &n, n > bytes ? n - bytes : 0,
						      memory_order_release, memory_order_relaxed))
		;
}

/** account_give - give a charge back; the memory is free by now.  Never waits */
void account_give(struct charge charge);

/**
 * account_mark - a plain charge is of another kind
 * Before account_moved, so that nobody takes the difference for a driver that needs less.
 */
void account_mark(struct charge *charge, enum charge_kind kind);

/** account_split - take @bytes out of @charge (at most what it has) as a charge of its own */
struct charge account_split(struct charge *charge, uint64_t bytes);

/** account_explain - the one line about a refusal */
void account_explain(const struct refusal *refusal);

/** account_settle - tell allotd that the driver's own use may have changed (rate-limited) */
void account_settle(int slot);

/**
 * account_settle_freed - the driver's own use has shrunk: let allotd see it before we go on
 *
 * So that the program's next question shows the room.  Some milliseconds; a fraction of a second
 * when NVML is slow; not at all when allotd is away.
 */
void account_settle_freed(int slot);

/* The reservation of a context: between open and close the driver makes it. */
struct account_context {
	struct attach_conn *conn;
	int32_t slot;
};

/** account_context_open - reserve a context's cost on @slot; false: out of memory is due */
bool account_context_open(int slot, unsigned flags, struct account_context *ret);

/**
 * account_context_close - say whether the driver made it, and let it be measured
 * Returns false when the context takes the job too far over its limit and must be undone (that
 * has been explained); always true for @made false.
 */
bool account_context_close(struct account_context *ctx, bool made);

/*
 * A turn beyond the limit: between open and close one call of the driver may take more than is
 * charged (policy/ledger.h, overdraft).  One a process and slot at a time; others wait for it.
 */
struct account_turn {
	struct attach_conn *conn; /* NULL: none, or the job runs unlimited */
	int32_t slot;
};

/**
 * account_turn_open - wait until a call that may take @bytes may be made
 * @flags: ACCOUNT_NO_WAIT: only if that is now
 * False: refused (that has been explained), or allotd is away.
 */
bool account_turn_open(int slot, uint64_t bytes, unsigned flags, struct account_turn *ret);

/** account_turn_close - @kept_bytes: what the call took and could be neither taken nor freed */
void account_turn_close(struct account_turn *turn, uint64_t kept_bytes);

/** account_gone - what was granted to us is another process's now: no longer ours to give back */
void account_gone(struct charge charge);

/**
 * account_view - what the program sees of slot @slot
 * Returns false when nobody knows (allotd is away): *ret then holds the lease's own figures with
 * nothing free.
 */
bool account_view(int slot, struct wire_viewed *ret);

#endif
