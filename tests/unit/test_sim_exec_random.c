// SPDX-License-Identifier: Apache-2.0
/*
 * Random work on several streams of several threads, against what order CUDA promises: whatever is
 * submitted to a stream sees all of the stream's work before it and none after it.
 *
 * Each stream has a counter in pinned memory that its kernels add to, and the thread keeps the
 * value that the counter must have at this place of the stream; functions called by the stream
 * compare.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rand.h"
#include "sim_exec_fixture.h"

#define THREADS 3
#define STREAMS 3 /* of each thread; the first is a blocking one */
#define STEPS   2000

struct lane {
	CUstream stream;
	CUdeviceptr counter;
	unsigned expected;
	CUevent event;
	unsigned recorded; /* the counter's value at the event; 0: none yet */
	CUgraphExec exec;  /* adds 5, calls a function, adds 2 */
};

struct check {
	volatile unsigned *at;
	unsigned expected;
};

static CUcontext ctx;
static pthread_barrier_t captured;
static CUfunction add_u32;
static unsigned wrong, called;

static void compare(void *arg)
{
	struct check *check = arg;

	if (*check->at != check->expected)
		__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&called, 1, __ATOMIC_RELAXED);
	free(check);
}

static void nothing(void *arg)
{
	(void)arg;
}

static void must(CUresult r)
{
	if (r != CUDA_SUCCESS)
		__atomic_add_fetch(&wrong, 1000000, __ATOMIC_RELAXED);
}

static void add(struct lane *lane, unsigned n)
{
	unsigned long long one = 1;
	void *params[] = { &lane->counter, &n, &one };

	must(CU(cuLaunchKernel)(add_u32, 1, 1, 1, 1, 1, 1, 0, lane->stream, params, NULL));
}

static void expect(struct lane *lane)
{
	struct check *check = malloc(sizeof(*check));

	check->at = (unsigned *)(uintptr_t)lane->counter;
	check->expected = lane->expected;
	must(CU(cuLaunchHostFunc)(lane->stream, compare, check));
}

static void lane_init(struct lane *lane, unsigned flags)
{
	CUgraph graph;
	void *host;

	must(CU(cuStreamCreate)(&lane->stream, flags));
	must(CU(cuEventCreate)(&lane->event, 0));
	must(CU(cuMemHostAlloc)(&host, 4096, 0));
	*(unsigned *)host = 0;
	lane->counter = (CUdeviceptr)(uintptr_t)host;
	lane->expected = lane->recorded = 0;
	must(CU(cuStreamBeginCapture_v2)(lane->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	add(lane, 5);
	must(CU(cuLaunchHostFunc)(lane->stream, nothing, NULL));
	add(lane, 2);
	must(CU(cuStreamEndCapture)(lane->stream, &graph));
	must(CU(cuGraphInstantiateWithFlags)(&lane->exec, graph, 0));
	must(CU(cuGraphDestroy)(graph));
}

static void lane_fini(struct lane *lane)
{
	must(CU(cuStreamSynchronize)(lane->stream));
	if (*(unsigned *)(uintptr_t)lane->counter != lane->expected)
		__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
	must(CU(cuStreamDestroy_v2)(lane->stream));
	must(CU(cuEventDestroy_v2)(lane->event));
	must(CU(cuGraphExecDestroy)(lane->exec));
	must(CU(cuMemFreeHost)((void *)(uintptr_t)lane->counter));
}

static void step(struct lane *lanes, struct rand_state *rand)
{
	struct lane *lane = &lanes[rand_below(rand, STREAMS)];
	struct lane *other = &lanes[rand_below(rand, STREAMS)];
	unsigned n = 1 + (unsigned)rand_below(rand, 9);

	switch (rand_below(rand, 10)) {
	case 0:
	case 1:
	case 2:
		add(lane, n);
		lane->expected += n;
		break;
	case 3:
		expect(lane);
		break;
	case 4:
		must(CU(cuEventRecord)(lane->event, lane->stream));
		lane->recorded = lane->expected;
		break;
	case 5:
		must(CU(cuStreamWaitEvent)(lane->stream, other->event, 0));
		break;
	case 6:
		must(CU(cuGraphLaunch)(lane->exec, lane->stream));
		lane->expected += 7;
		break;
	case 7:
		must(CU(cuMemsetD32Async)(lane->counter, n, 1, lane->stream));
		lane->expected = n;
		break;
	case 8:
		must(CU(cuEventSynchronize)(lane->event));
		break;
	default:
		/* the legacy stream: behind all blocking streams, and before what they do next */
		add(&(struct lane){ .counter = lane->counter + 64 }, 1);
		break;
	}
}

static void *run(void *arg)
{
	struct rand_state rand = { (uint64_t)(uintptr_t)arg };
	struct lane lanes[STREAMS];

	must(CU(cuCtxSetCurrent)(ctx));
	for (int i = 0; i < STREAMS; i++)
		lane_init(&lanes[i], i ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
	/* work on the legacy stream breaks a capture of a blocking stream, anybody's */
	pthread_barrier_wait(&captured);
	for (int i = 0; i < STEPS; i++)
		step(lanes, &rand);
	for (int i = 0; i < STREAMS; i++)
		expect(&lanes[i]);
	must(CU(cuCtxSynchronize)());
	for (int i = 0; i < STREAMS; i++)
		lane_fini(&lanes[i]);
	return NULL;
}

static void order_holds_whatever_is_mixed(void **unused)
{
	pthread_t threads[THREADS];

	(void)unused;
	assert_int_equal(CU(cuCtxGetCurrent)(&ctx), 0);
	add_u32 = sim_exec_function("allot_add_u32");
	assert_int_equal(pthread_barrier_init(&captured, NULL, THREADS), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(wrong, 0);
	assert_true(called > THREADS * STEPS / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_holds_whatever_is_mixed),
	};

	return cmocka_run_group_tests(tests, sim_exec_setup, NULL);
}
