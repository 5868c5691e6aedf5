// SPDX-License-Identifier: Apache-2.0
#include "conform.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct kernels kern;

static size_t marked_free;

static size_t free_now(void)
{
	size_t free_bytes = 0, total = 0;
	QUIET(cuMemGetInfo_v2, &free_bytes, &total);
	return free_bytes;
}

void mem_mark(void)
{
	marked_free = free_now();
}

void mem_delta(const char *what)
{
	out_line("# card: %lld bytes since the mark, %s",
		 (long long)marked_free - (long long)free_now(), what);
}

void data_u32(CUdeviceptr p, size_t bytes)
{
	char text[40];
	size_t n = bytes / 4;
	uint32_t *host = malloc(n * 4);
	uint64_t hash = 0xcbf29ce484222325ull;
	bool uniform = true;
	if (!host)
		abort();
	CUresult r = QUIET(cuMemcpyDtoH_v2, host, p, n * 4);
	if (r != CUDA_SUCCESS) {
		out_append(" data: %s", result_text(r, text));
		free(host);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		uniform &= host[i] == host[0];
		hash = (hash ^ host[i]) * 0x100000001b3ull;
	}
	if (uniform)
		out_append(" data: %zu x 0x%08x", n, n ? host[0] : 0);
	else
		out_append(" data: 0x%08x..0x%08x hash %016" PRIx64, host[0], host[n - 1], hash);
	free(host);
}

struct thread_call {
	void (*fn)(void *);
	void *arg;
};

static void *thread_main(void *arg)
{
	struct thread_call *call = arg;
	call->fn(call->arg);
	return NULL;
}

void on_thread(void (*fn)(void *), void *arg)
{
	struct thread_call call = { fn, arg };
	pthread_t thread;
	if (pthread_create(&thread, NULL, thread_main, &call) != 0)
		abort();
	pthread_join(thread, NULL);
}

CUdeviceptr alloc_quiet(size_t bytes, unsigned int value)
{
	CUdeviceptr p = 0;
	char buf[40];
	CUresult r = QUIET(cuMemAlloc_v2, &p, bytes);
	if (r == CUDA_SUCCESS)
		r = QUIET(cuMemsetD32_v2, p, value, bytes / 4);
	if (r != CUDA_SUCCESS)
		out_line("!! cannot prepare %zu bytes: %s", bytes, result_text(r, buf));
	out_flush();
	out_append("# %zu bytes of 0x%x:", bytes, value);
	out_new_ptr("p", p, bytes);
	out_flush();
	return p;
}

void spin_quiet(CUstream stream, uint64_t ns)
{
	char buf[40];
	void *args[] = { &ns };
	CUresult r = QUIET(cuLaunchKernel, kern.spin, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL);
	if (r != CUDA_SUCCESS)
		out_line("!! spin: %s", result_text(r, buf));
}

CUresult fill_quiet(CUdeviceptr p, unsigned int value, uint64_t words, CUstream stream)
{
	void *args[] = { &p, &value, &words };
	return QUIET(cuLaunchKernel, kern.fill, 8, 1, 1, 64, 1, 1, 0, stream, args, NULL);
}
