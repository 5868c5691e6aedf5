// SPDX-License-Identifier: Apache-2.0
#include "shim/fork.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "shim/wiped.h"

/* holds this process's number; 0: not yet given, or wiped because we are a child */
static void *_Atomic fork_page;

/* the last number given in this process or in an ancestor when it made us */
static _Atomic uint64_t fork_last;

uint64_t fork_generation(void)
{
	_Atomic uint64_t *number = atomic_load_explicit(&fork_page, memory_order_acquire);
	uint64_t now, mine;
	int saved_errno;

	if (!number) {
		saved_errno = errno;
		number = wiped_once(&fork_page, sizeof(*number));
		errno = saved_errno;
		if (!number) /* no memory for one page: the pid tells children apart too */
			return (uint64_t)1 << 63 | (uint64_t)getpid();
	}
	now = atomic_load_explicit(number, memory_order_acquire);
	if (now)
		return now;
	/* several threads of a child may come here: each takes a number, one is kept */
	mine = atomic_fetch_add(&fork_last, 1) + 1;
	if (atomic_compare_exchange_strong(number, &now, mine))
		return mine;
	return now;
}
