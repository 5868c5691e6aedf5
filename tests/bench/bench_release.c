// SPDX-License-Identifier: Apache-2.0
/*
 * How long after a free does the one who waits for it go on?  Two jobs share a full card:
 *   bench_release want FILE ROUNDS      waits for it in cuMemAlloc; prints "release P50 P99" in us
 *   bench_release hold FILE ROUNDS      started second: holds all the rest, frees a block each
 * round
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/cuda_proto.h"
#include "abi/cuda_types.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/size.h"

#define CALLS(X)                    \
	X(cuInit)                   \
	X(cuDeviceGet)              \
	X(cuDevicePrimaryCtxRetain) \
	X(cuCtxSetCurrent)          \
	X(cuMemAlloc_v2)            \
	X(cuMemFree_v2)
#define DECLARE(name) static pfn_##name *p_##name;
CALLS(DECLARE)

#define BLOCK      GIB
#define MAX_ROUNDS 4096u

struct shared {
	_Atomic uint64_t ready, held, asked, got;
	_Atomic uint64_t freed_ns;
	int64_t took_ns[MAX_ROUNDS];
};

static struct shared *sh;

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

#define PATIENCE_NS (30 * NS_PER_S) /* the other one is gone */

static void await(_Atomic uint64_t *word, uint64_t value)
{
	uint64_t end = clock_now_ns() + PATIENCE_NS;

	while (atomic_load(word) < value) {
		if (clock_now_ns() > end) {
			fprintf(stderr, "bench_release: the other one is gone\n");
			exit(1);
		}
		(void)usleep(50);
	}
}

static int start(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	CUdevice dev;
	CUcontext ctx;

	if (!lib)
		return 1;
#define FIND(name)                                  \
	p_##name = (pfn_##name *)dlsym(lib, #name); \
	if (!p_##name)                              \
		return 1;
	CALLS(FIND)
	return p_cuInit(0) || p_cuDeviceGet(&dev, 0) || p_cuDevicePrimaryCtxRetain(&ctx, dev) ||
	       p_cuCtxSetCurrent(ctx);
}

static int hold(uint64_t rounds)
{
	CUdeviceptr p, last = 0;

	await(&sh->ready, 1); /* its context must find room, too */
	while (p_cuMemAlloc_v2(&p, BLOCK) == CUDA_SUCCESS)
		last = p;
	atomic_store(&sh->held, 1);
	for (uint64_t i = 1; i <= rounds; i++) {
		await(&sh->asked, i);
		(void)usleep(1500); /* so that it waits really */
		if (p_cuMemFree_v2(last))
			return 1;
		atomic_store(&sh->freed_ns, clock_now_ns());
		await(&sh->got, i);
		if (p_cuMemAlloc_v2(&last, BLOCK))
			return 1;
		atomic_store(&sh->held, i + 1);
	}
	return 0;
}

static int want(uint64_t rounds)
{
	atomic_store(&sh->ready, 1);
	for (uint64_t i = 1; i <= rounds; i++) {
		CUdeviceptr p;
		uint64_t end, own;

		await(&sh->held, i);
		atomic_store(&sh->asked, i);
		if (p_cuMemAlloc_v2(&p, BLOCK))
			return 1;
		end = clock_now_ns();
		if (p_cuMemFree_v2(p))
			return 1;
		while (!atomic_load(&sh->freed_ns) || atomic_load(&sh->freed_ns) > end + NS_PER_S)
			; /* the holder is between its free and its next line */
		/* what the driver itself needs, with the credit at hand: not a matter of waiting */
		own = clock_now_ns();
		if (p_cuMemAlloc_v2(&p, BLOCK))
			return 1;
		own = clock_now_ns() - own;
		if (p_cuMemFree_v2(p))
			return 1;
		/* below 0: the free returned later than the wake-up that it caused */
		sh->took_ns[i - 1] = (int64_t)(end - atomic_load(&sh->freed_ns)) - (int64_t)own;
		atomic_store(&sh->got, i);
	}
	qsort(sh->took_ns, rounds, sizeof(sh->took_ns[0]), by_value);
	printf("release %.1f %.1f\n", (double)sh->took_ns[rounds / 2] / 1e3,
	       (double)sh->took_ns[rounds - 1 - rounds / 100] / 1e3);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t rounds;
	int fd = argc == 4 ? open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || parse_u64(argv[3], 1, MAX_ROUNDS, &rounds, NULL) < 0 ||
	    ftruncate(fd, sizeof(*sh)) < 0)
		return 2;
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (sh == MAP_FAILED || start())
		return 1;
	return strcmp(argv[1], "hold") == 0 ? hold(rounds) : want(rounds);
}
