// SPDX-License-Identifier: Apache-2.0
#include "shim/wiped.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* what the kernel would not wipe; appended to only */
#define BY_HAND_MAX 1024

static struct {
	void *_Atomic start;
	_Atomic size_t bytes;
} by_hand[BY_HAND_MAX];
static _Atomic unsigned n_by_hand;
static pthread_once_t by_hand_once = PTHREAD_ONCE_INIT;

static void wipe_in_child(void)
{
	unsigned n = atomic_load(&n_by_hand);

	for (unsigned i = 0; i < n && i < BY_HAND_MAX; i++) {
		void *start = atomic_load(&by_hand[i].start);

		if (start)
			memset(start, 0, atomic_load(&by_hand[i].bytes));
	}
}

static void wipe_by_hand(void)
{
	(void)pthread_atfork(NULL, NULL, wipe_in_child); /* out of memory: as if never forked */
}

void *wiped_map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned i;

	if (p == MAP_FAILED)
		return NULL;
	if (madvise(p, bytes, MADV_WIPEONFORK) == 0)
		return p;
	(void)pthread_once(&by_hand_once, wipe_by_hand);
	i = atomic_fetch_add(&n_by_hand, 1);
	if (i >= BY_HAND_MAX) {
		munmap(p, bytes);
		return NULL;
	}
	atomic_store(&by_hand[i].bytes, bytes);
	atomic_store(&by_hand[i].start, p);
	return p;
}

void *wiped_once(void *_Atomic *where, size_t bytes)
{
	void *p = atomic_load_explicit(where, memory_order_acquire);
	void *mine;

	if (p)
		return p;
	mine = wiped_map(bytes);
	if (!mine)
		return NULL;
	if (atomic_compare_exchange_strong(where, &p, mine))
		return mine;
	munmap(mine, bytes);
	return p;
}
