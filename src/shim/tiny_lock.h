// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_TINY_LOCK_H
#define SHIM_TINY_LOCK_H

/*
 * A lock for sections of a few instructions: one locked instruction to take it, a plain store to
 * give it back.  Zero is unlocked, so a forked child finds it free (shim/wiped.h).
 *
 * Nothing that may block or call out is done inside, so a holder is gone in nanoseconds unless it
 * was preempted; who finds it taken looks again some times, then sleeps between looks.  No
 * fairness, no recursion, no owner.
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#define TINY_LOCK_LOOKS    100   /* before the first sleep */
#define TINY_LOCK_SLEEP_NS 20000 /* a preempted holder needs the processor, not our looking */

struct tiny_lock {
	_Atomic uint32_t held;
};

static inline void tiny_lock_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static __attribute__((noinline, unused)) void tiny_lock_wait(struct tiny_lock *l)
{
	int saved_errno = errno;

	for (unsigned looks = 0;; looks++) {
		if (!atomic_load_explicit(&l->held, memory_order_relaxed) &&
		    !atomic_exchange_explicit(&l->held, 1, memory_order_acquire))
			break;
		if (looks < TINY_LOCK_LOOKS) {
			tiny_lock_relax();
		} else {
			struct timespec ts = { .tv_nsec = TINY_LOCK_SLEEP_NS };

			(void)nanosleep(&ts, NULL); /* woken early: one more look */
		}
	}
	errno = saved_errno;
}

static inline void tiny_lock_take(struct tiny_lock *l)
{
	if (atomic_exchange_explicit(&l->held, 1, memory_order_acquire))
		tiny_lock_wait(l);
}

static inline void tiny_lock_give(struct tiny_lock *l)
{
	atomic_store_explicit(&l->held, 0, memory_order_release);
}

#endif
