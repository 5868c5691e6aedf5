// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_GUARD_H
#define SHIM_GUARD_H

/*
 * Is this thread inside one of our hooks already?
 *
 * A driver that calls its own exports through the dynamic linker meets our hooks from within a
 * call that we made. Such a call belongs to the outer one, which does the accounting: the inner
 * hook hands it straight to the driver.
 *
 *	CUresult cuMemFoo(...)
 *	{
 *		if (!guard_enter())
 *			return real_cuMemFoo(...);
 *		CUresult result = foo_accounted(...);
 *		guard_leave();
 *		return result;
 *	}
 *
 * What is kept is the address of the outermost hook's frame, not a count. A thread that left a
 * hook without guard_leave (longjmp, cancellation) is found out at its next call, whose frame does
 * not lie below the remembered one; a count would have switched us off for ever. So guard_enter
 * is to be called by the exported function itself, once, and guard_leave is not nested.
 *
 * One word a thread, TLS model initial-exec: no allocation, no call, no lock. Own thread only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* frame of the outermost hook of this thread, 0: outside */
extern _Thread_local uintptr_t guard_frame
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/** guard_enter - true: outermost, go on and call guard_leave; false: hand it to the driver */
static inline __attribute__((always_inline)) bool guard_enter(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	if (guard_frame && here < guard_frame)
		return false;
	guard_frame = here;
	return true;
}

static inline __attribute__((always_inline)) void guard_leave(void)
{
	guard_frame = 0;
}

/** guard_is_inside - within a hook (or not left properly); for assertions and messages */
static inline bool guard_is_inside(void)
{
	return guard_frame != 0;
}

#endif
