// SPDX-License-Identifier: Apache-2.0
/*
 * A program that does with the GPU what it is told on stdin, one command a line, one answer a
 * line.  Integration tests steer real processes with it; it knows nothing of allot.
 *
 *   init                    cuInit, primary context of device 0       ok | error CODE
 *   device N                primary context of device N
 *   alloc SIZE              ok ID | error CODE
 *   managed SIZE, async SIZE, create SIZE (VMM, device), host SIZE, array WIDTH HEIGHT
 *   module SIZE             a module with a variable of that size
 *   limit stack|printf|heap SIZE  ok | error CODE (cuCtxSetLimit)
 *   free ID                 by the call that belongs to it
 *   info                    ok FREE TOTAL (cuMemGetInfo)
 *   total                   ok TOTAL (cuDeviceTotalMem)
 *   fill ID BYTE, check ID BYTE   through the device's copy and set calls
 *   fork                    a child that goes on reading; the parent answers ok PID and waits for
 * it begin, end              capture on a stream (global mode) threads N SIZE          N threads
 * allocate and free SIZE, 100 times each: ok REFUSALS pid                     ok PID exec CMD…
 * becomes that quit
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/cuda_proto.h"
#include "abi/cuda_types.h"
#include "base/parse.h"
#include "base/size.h"

#define CALLS(X)                        \
	X(cuInit)                       \
	X(cuDeviceGet)                  \
	X(cuDeviceTotalMem_v2)          \
	X(cuDevicePrimaryCtxRetain)     \
	X(cuDevicePrimaryCtxRelease_v2) \
	X(cuCtxSetCurrent)              \
	X(cuCtxSynchronize)             \
	X(cuMemGetInfo_v2)              \
	X(cuMemAlloc_v2)                \
	X(cuMemAllocManaged)            \
	X(cuMemAllocAsync)              \
	X(cuMemFreeAsync)               \
	X(cuMemFree_v2)                 \
	X(cuMemHostAlloc)               \
	X(cuMemFreeHost)                \
	X(cuMemCreate)                  \
	X(cuMemRelease)                 \
	X(cuArrayCreate_v2)             \
	X(cuArrayDestroy)               \
	X(cuModuleLoadData)             \
	X(cuModuleUnload)               \
	X(cuCtxSetLimit)                \
	X(cuMemsetD8_v2)                \
	X(cuMemcpyDtoH_v2)              \
	X(cuStreamCreate)               \
	X(cuStreamSynchronize)          \
	X(cuStreamBeginCapture_v2)      \
	X(cuStreamEndCapture)
#define DECLARE(name) static pfn_##name *p_##name;
CALLS(DECLARE)

#define MAX_THINGS 4096u
#define MAX_WORDS  16

enum kind {
	KIND_NONE,
	KIND_DEVICE,
	KIND_ASYNC,
	KIND_HANDLE,
	KIND_HOST,
	KIND_ARRAY,
	KIND_MODULE,
};

struct thing {
	enum kind kind;
	CUdeviceptr ptr;
	void *host;
	CUarray array;
	CUmodule module;
	uint64_t bytes;
};

static struct thing things[MAX_THINGS];
static unsigned n_things;
static CUstream stream;
static int device;

static void answer(CUresult r)
{
	if (r == CUDA_SUCCESS)
		printf("ok\n");
	else
		printf("error %d\n", (int)r);
}

static void answer_thing(CUresult r, const struct thing *t)
{
	if (r != CUDA_SUCCESS || n_things == MAX_THINGS) {
		printf("error %d\n", (int)r);
		return;
	}
	things[n_things] = *t;
	printf("ok %u\n", n_things++);
}

static CUresult init(int n)
{
	CUcontext ctx;
	CUdevice dev;
	CUresult r = p_cuInit(0);

	if (!r)
		r = p_cuDeviceGet(&dev, n);
	if (!r)
		r = p_cuDevicePrimaryCtxRetain(&ctx, dev);
	if (!r)
		r = p_cuCtxSetCurrent(ctx);
	if (!r && !stream)
		r = p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	device = n;
	return r;
}

static void allocate(const char *what, uint64_t bytes)
{
	struct thing t = { .kind = KIND_DEVICE, .bytes = bytes };
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUresult r;

	if (strcmp(what, "alloc") == 0) {
		r = p_cuMemAlloc_v2(&t.ptr, bytes);
	} else if (strcmp(what, "managed") == 0) {
		r = p_cuMemAllocManaged(&t.ptr, bytes, CU_MEM_ATTACH_GLOBAL);
	} else if (strcmp(what, "async") == 0) {
		t.kind = KIND_ASYNC;
		r = p_cuMemAllocAsync(&t.ptr, bytes, stream);
	} else if (strcmp(what, "create") == 0) {
		t.kind = KIND_HANDLE;
		prop.location.id = device;
		r = p_cuMemCreate(&t.ptr, size_round_up(bytes, 2 * MIB), &prop, 0);
	} else {
		t.kind = KIND_HOST;
		r = p_cuMemHostAlloc(&t.host, bytes, 0);
	}
	answer_thing(r, &t);
}

static void load_module(uint64_t bytes)
{
	struct thing t = { .kind = KIND_MODULE, .bytes = bytes };
	char text[512];

	(void)snprintf(text, sizeof(text),
		       ".version 6.0\n.target sm_50\n.address_size 64\n"
		       ".visible .global .align 4 .b32 big[%" PRIu64 "];\n"
		       ".visible .entry touch()\n{\n"
		       "	.reg .b32 %%r<2>;\n	mov.u32 %%r1, 1;\n"
		       "	st.global.u32 [big], %%r1;\n	ret;\n}\n",
		       bytes / 4);
	answer_thing(p_cuModuleLoadData(&t.module, text), &t);
}

static CUresult set_limit(const char *name, uint64_t value)
{
	CUlimit limit = strcmp(name, "stack") == 0    ? CU_LIMIT_STACK_SIZE
			: strcmp(name, "printf") == 0 ? CU_LIMIT_PRINTF_FIFO_SIZE
						      : CU_LIMIT_MALLOC_HEAP_SIZE;

	return p_cuCtxSetLimit(limit, value);
}

static CUresult release(struct thing *t)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	switch (t->kind) {
	case KIND_DEVICE:
		r = p_cuMemFree_v2(t->ptr);
		break;
	case KIND_ASYNC:
		r = p_cuMemFreeAsync(t->ptr, stream);
		if (!r)
			r = p_cuStreamSynchronize(stream);
		break;
	case KIND_HANDLE:
		r = p_cuMemRelease(t->ptr);
		break;
	case KIND_HOST:
		r = p_cuMemFreeHost(t->host);
		break;
	case KIND_ARRAY:
		r = p_cuArrayDestroy(t->array);
		break;
	case KIND_MODULE:
		r = p_cuModuleUnload(t->module);
		break;
	case KIND_NONE:
		break;
	}
	t->kind = KIND_NONE;
	return r;
}

static CUresult verify(const struct thing *t, unsigned char byte, bool *ret_same)
{
	unsigned char buf[65536];
	uint64_t n = size_min(t->bytes, sizeof(buf));
	CUresult r = p_cuMemcpyDtoH_v2(buf, t->ptr, n);

	*ret_same = true;
	for (uint64_t i = 0; i < n; i++)
		*ret_same &= buf[i] == byte;
	return r;
}

struct thread_work {
	pthread_t id;
	CUcontext ctx;
	uint64_t bytes;
	unsigned refused, wrong;
};

static void *thread_main(void *arg)
{
	struct thread_work *w = arg;

	(void)p_cuCtxSetCurrent(w->ctx);
	for (unsigned i = 0; i < 100; i++) {
		CUdeviceptr p;
		CUresult r = p_cuMemAlloc_v2(&p, w->bytes);

		if (r == CUDA_ERROR_OUT_OF_MEMORY)
			w->refused++;
		else if (r || p_cuMemFree_v2(p))
			w->wrong++;
	}
	return NULL;
}

static void run_threads(unsigned n, uint64_t bytes)
{
	static struct thread_work work[64];
	unsigned refused = 0, wrong = 0;
	CUcontext ctx;

	if (n > 64 || p_cuDevicePrimaryCtxRetain(&ctx, device)) {
		printf("error 1\n");
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		work[i] = (struct thread_work){ .ctx = ctx, .bytes = bytes };
		(void)pthread_create(&work[i].id, NULL, thread_main, &work[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		(void)pthread_join(work[i].id, NULL);
		refused += work[i].refused;
		wrong += work[i].wrong;
	}
	(void)p_cuDevicePrimaryCtxRelease_v2(device);
	if (wrong)
		printf("error 999\n");
	else
		printf("ok %u\n", refused);
}

static void go_on_in_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		printf("child %d\n", getpid());
		return;
	}
	printf("ok %d\n", pid);
	(void)fflush(stdout);
	(void)waitpid(pid, NULL, 0);
	exit(0);
}

static unsigned split(char *line, char *words[MAX_WORDS + 1])
{
	unsigned n = 0;
	char *save = NULL;

	for (char *w = strtok_r(line, " \n", &save); w && n < MAX_WORDS;
	     w = strtok_r(NULL, " \n", &save))
		words[n++] = w;
	words[n] = NULL;
	return n;
}

static void on_thing(char **w)
{
	uint64_t id, byte = 0;
	bool same;
	CUresult r;

	if (!w[1] || parse_u64(w[1], 0, n_things ? n_things - 1 : 0, &id, NULL) < 0 ||
	    n_things == 0 || (w[2] && parse_u64(w[2], 0, 255, &byte, NULL) < 0)) {
		printf("error 1\n");
		return;
	}
	if (strcmp(w[0], "free") == 0) {
		answer(release(&things[id]));
	} else if (strcmp(w[0], "fill") == 0) {
		r = p_cuMemsetD8_v2(things[id].ptr, (unsigned char)byte, things[id].bytes);
		answer(r ? r : p_cuCtxSynchronize());
	} else {
		r = verify(&things[id], (unsigned char)byte, &same);
		if (r)
			answer(r);
		else
			printf(same ? "ok same\n" : "ok other\n");
	}
}

static void query(const char *what)
{
	size_t a = 0, b = 0;
	CUresult r;

	if (strcmp(what, "info") == 0) {
		r = p_cuMemGetInfo_v2(&a, &b);
		if (r == CUDA_SUCCESS) {
			printf("ok %zu %zu\n", a, b);
			return;
		}
	} else {
		r = p_cuDeviceTotalMem_v2(&a, device);
		if (r == CUDA_SUCCESS) {
			printf("ok %zu\n", a);
			return;
		}
	}
	answer(r);
}

static void obey(char **w, unsigned n)
{
	uint64_t bytes = 0, number = 0;
	CUgraph graph;

	if (strcmp(w[0], "init") == 0) {
		answer(init(0));
	} else if (strcmp(w[0], "device") == 0 && n > 1 && !parse_u64(w[1], 0, 63, &number, NULL)) {
		answer(init((int)number));
	} else if (strcmp(w[0], "info") == 0 || strcmp(w[0], "total") == 0) {
		query(w[0]);
	} else if (strcmp(w[0], "free") == 0 || strcmp(w[0], "fill") == 0 ||
		   strcmp(w[0], "check") == 0) {
		on_thing(w);
	} else if (strcmp(w[0], "fork") == 0) {
		go_on_in_child();
	} else if (strcmp(w[0], "pid") == 0) {
		printf("ok %d\n", getpid());
	} else if (strcmp(w[0], "begin") == 0) {
		answer(p_cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	} else if (strcmp(w[0], "end") == 0) {
		answer(p_cuStreamEndCapture(stream, &graph));
	} else if (strcmp(w[0], "exec") == 0 && n > 1) {
		(void)execvp(w[1], w + 1);
		printf("error 1\n");
	} else if (strcmp(w[0], "threads") == 0 && n == 3 &&
		   !parse_u64(w[1], 1, 64, &number, NULL) && !parse_size(w[2], &bytes, NULL)) {
		run_threads((unsigned)number, bytes);
	} else if (strcmp(w[0], "module") == 0 && n == 2 && !parse_size(w[1], &bytes, NULL)) {
		load_module(bytes);
	} else if (strcmp(w[0], "limit") == 0 && n == 3 && !parse_size(w[2], &bytes, NULL)) {
		answer(set_limit(w[1], bytes));
	} else if (strcmp(w[0], "array") == 0 && n == 3 &&
		   !parse_u64(w[1], 1, 65536, &bytes, NULL) &&
		   !parse_u64(w[2], 1, 65536, &number, NULL)) {
		CUDA_ARRAY_DESCRIPTOR d = { .Width = bytes,
					    .Height = number,
					    .Format = CU_AD_FORMAT_FLOAT,
					    .NumChannels = 1 };
		struct thing t = { .kind = KIND_ARRAY };
		CUresult r = p_cuArrayCreate_v2(&t.array, &d);

		answer_thing(r, &t);
	} else if (n == 2 && parse_size(w[1], &bytes, NULL) == 0) {
		allocate(w[0], bytes);
	} else {
		printf("what?\n");
	}
}

int main(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	char line[4096];

	if (!lib) {
		printf("%s\n", dlerror());
		return 1;
	}
#define FIND(name)                                  \
	p_##name = (pfn_##name *)dlsym(lib, #name); \
	if (!p_##name)                              \
		return 1;
	CALLS(FIND)
	/* read no further than the line: what comes behind "exec" is for the next program */
	if (setvbuf(stdin, NULL, _IONBF, 0) != 0)
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		char *words[MAX_WORDS + 1];
		unsigned n = split(line, words);

		if (n == 0)
			continue;
		if (strcmp(words[0], "quit") == 0)
			break;
		obey(words, n);
		(void)fflush(stdout);
	}
	return 0;
}
