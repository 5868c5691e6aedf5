// SPDX-License-Identifier: Apache-2.0
/*
 * Stream-ordered allocations of several processes at their job's limit.
 *
 *	gpu_pools fit|grow PROCESSES THREADS SECONDS
 *
 * Each process keeps one small allocation, so that its pool keeps one piece of 32 MiB; the first
 * fills the rest of the limit.  Then all threads of all processes allocate and free for so long:
 * `fit` only what has its place in that piece whatever the others do, `grow` also what makes the
 * pool grow, which must be refused at the limit.  Prints "worker PID" when a process is ready,
 * "full" when the limit is, and at the end "done PID CALLS REFUSED LONGEST_MS" a process.  Exit
 * status 1 when `fit` was refused once, or anything else failed.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/cuda_proto.h"
#include "abi/cuda_types.h"
#include "base/clock.h"
#include "base/rand.h"
#include "base/size.h"

#define CALLS(X)                    \
	X(cuInit)                   \
	X(cuDevicePrimaryCtxRetain) \
	X(cuCtxSetCurrent)          \
	X(cuStreamCreate)           \
	X(cuMemAlloc_v2)            \
	X(cuMemAllocAsync)          \
	X(cuMemFreeAsync)
#define DECLARE(name) static pfn_##name *p_##name;
CALLS(DECLARE)

#define THREADS_MAX 16
#define FIT_MAX     (2 * MIB) /* so many times THREADS_MAX leaves a piece room for another */
#define OOM         CUDA_ERROR_OUT_OF_MEMORY

/* what the processes have in common */
struct common {
	_Atomic unsigned ready;
	_Atomic unsigned full;
};

struct worker {
	pthread_t id;
	struct rand_state random;
	uint64_t calls, refused, longest_ns;
};

static struct common *common;
static CUcontext primary;
static uint64_t end_ns, seconds;
static bool may_grow;

static void fail(const char *what, CUresult r)
{
	fprintf(stderr, "gpu_pools: %s: error %d\n", what, (int)r);
	_exit(1);
}

#define OK(call)                         \
	do {                             \
		CUresult r_ = (call);    \
		if (r_ != CUDA_SUCCESS)  \
			fail(#call, r_); \
	} while (0)

static void load(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (!lib) {
		fprintf(stderr, "gpu_pools: %s\n", dlerror());
		_exit(1);
	}
#define LOAD(name)                                  \
	p_##name = (pfn_##name *)dlsym(lib, #name); \
	if (!p_##name)                              \
		fail(#name " is missing", CUDA_ERROR_NOT_FOUND);
	CALLS(LOAD)
}

/* one allocation, for a moment */
static void step(struct worker *w, CUstream stream)
{
	uint64_t bytes = 1 + rand_below(&w->random, FIT_MAX), begun, took;
	CUdeviceptr p;
	CUresult r;

	if (may_grow && rand_below(&w->random, 2))
		bytes = 20 * MIB + rand_below(&w->random, 120 * MIB);
	begun = clock_now_ns();
	r = p_cuMemAllocAsync(&p, bytes, stream);
	took = clock_now_ns() - begun;
	w->longest_ns = size_max(w->longest_ns, took);
	w->calls++;
	w->refused += r == OOM;
	if (r == CUDA_SUCCESS)
		OK(p_cuMemFreeAsync(p, stream));
	else if (r != OOM)
		fail("cuMemAllocAsync", r);
}

static void *hammer(void *arg)
{
	struct worker *w = arg;
	CUstream stream;

	OK(p_cuCtxSetCurrent(primary));
	OK(p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	while (clock_now_ns() < end_ns)
		step(w, stream);
	return NULL;
}

static void wait_for(_Atomic unsigned *what, unsigned value)
{
	while (atomic_load(what) < value)
		(void)usleep(1000);
}

/* until nothing of 2 MiB is left, also not when the figures have settled */
static void fill(void)
{
	CUdeviceptr p;

	for (int i = 0; i < 3; i++) {
		for (uint64_t bytes = 256 * MIB; bytes >= 2 * MIB; bytes /= 2)
			while (p_cuMemAlloc_v2(&p, bytes) == CUDA_SUCCESS)
				;
		(void)usleep(300000);
	}
	printf("full\n");
	(void)fflush(stdout);
	atomic_store(&common->full, 1);
}

static int run(unsigned number, unsigned processes, unsigned threads)
{
	static struct worker w[THREADS_MAX];
	uint64_t calls = 0, refused = 0, longest = 0;
	CUdeviceptr anchor;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	load();
	OK(p_cuInit(0));
	OK(p_cuDevicePrimaryCtxRetain(&primary, 0));
	OK(p_cuCtxSetCurrent(primary));
	OK(p_cuMemAllocAsync(&anchor, 4096, NULL));
	printf("worker %d\n", getpid());
	(void)fflush(stdout);
	atomic_fetch_add(&common->ready, 1);
	wait_for(&common->ready, processes);
	if (number == 0)
		fill();
	wait_for(&common->full, 1);
	end_ns = clock_now_ns() + seconds * NS_PER_S;
	for (unsigned i = 0; i < threads; i++) {
		w[i].random.s = number * 100 + i;
		if (pthread_create(&w[i].id, NULL, hammer, &w[i]) != 0)
			fail("pthread_create", CUDA_ERROR_UNKNOWN);
	}
	for (unsigned i = 0; i < threads; i++) {
		(void)pthread_join(w[i].id, NULL);
		calls += w[i].calls;
		refused += w[i].refused;
		longest = size_max(longest, w[i].longest_ns);
	}
	printf("done %d %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", getpid(), calls, refused,
	       longest / NS_PER_MS);
	(void)fflush(stdout);
	return !may_grow && refused;
}

int main(int argc, char **argv)
{
	unsigned processes, threads;
	int status, worst = 0;

	if (argc != 5 || atoi(argv[3]) > THREADS_MAX / 2) {
		fprintf(stderr, "usage: gpu_pools fit|grow PROCESSES THREADS SECONDS\n");
		return 2;
	}
	may_grow = strcmp(argv[1], "grow") == 0;
	processes = (unsigned)atoi(argv[2]);
	threads = (unsigned)atoi(argv[3]);
	seconds = (uint64_t)atoi(argv[4]);
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (common == MAP_FAILED)
		return 1;
	for (unsigned i = 0; i < processes; i++)
		if (fork() == 0)
			_exit(run(i, processes, threads));
	while (wait(&status) > 0)
		if (!WIFSIGNALED(status) && status)
			worst = 1;
	return worst;
}
