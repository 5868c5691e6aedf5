// SPDX-License-Identifier: Apache-2.0
/*
 * A program that tries to get out of its part of the card.
 *
 *   gpu_escape HOW [ARGUMENT]
 *
 *   credit VALUE    fill its credit page with VALUE (every word of every slot), then take
 *   closed          close all descriptors above 2 and open others in their place, then take
 *   daemon          take in a grandchild with its own session, whose parents are gone
 *   clone           take in a child that the C library knows nothing of
 *   fork            take in a child of a process that has used CUDA: must fail, not crash
 *   dlmopen PATH    take through a driver loaded into a namespace of its own
 *   copy PATH       take through a copy of the driver under another name
 *   cold            sixteen threads whose first call is the first of all
 *   give            give back, by the driver's own calls, what was never taken
 *
 * "take" is cuMemAlloc of 64 MiB each until it is refused, at most 16 GiB.  Prints "took MIB ERROR"
 * and waits until stdin ends.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/cuda_proto.h"
#include "abi/cuda_types.h"
#include "base/cleanup.h"
#include "base/size.h"
#include "wire/page.h"

#define CALLS(X)                    \
	X(cuInit)                   \
	X(cuDevicePrimaryCtxRetain) \
	X(cuCtxSetCurrent)          \
	X(cuMemAlloc_v2)            \
	X(cuMemFree_v2)             \
	X(cuMemFreeAsync)           \
	X(cuMemRelease)
#define DECLARE(name) static pfn_##name *p_##name;
CALLS(DECLARE)

#define STEP    (64 * MIB)
#define MOST    (16 * GIB)
#define THREADS 16

static void load(void *lib)
{
	if (!lib) {
		fprintf(stderr, "gpu_escape: %s\n", dlerror());
		exit(1);
	}
#define LOAD(name)                                  \
	p_##name = (pfn_##name *)dlsym(lib, #name); \
	if (!p_##name)                              \
		exit(1);
	CALLS(LOAD)
}

static CUresult start(void)
{
	CUcontext ctx;
	CUresult r = p_cuInit(0);

	if (!r)
		r = p_cuDevicePrimaryCtxRetain(&ctx, 0);
	return r ? r : p_cuCtxSetCurrent(ctx);
}

static uint64_t take_all(CUresult *ret)
{
	uint64_t took = 0;
	CUdeviceptr p;

	while (took < MOST && !(*ret = p_cuMemAlloc_v2(&p, STEP)))
		took += STEP;
	return took;
}

static int take(void)
{
	CUresult r = start();
	uint64_t took = r ? 0 : take_all(&r);
	char c;

	printf("took %" PRIu64 " %d\n", took / MIB, (int)r);
	(void)fflush(stdout);
	(void)!read(STDIN_FILENO, &c, 1);
	return 0;
}

/* ---- the ways ---- */

static int with_credit(const char *value)
{
	uint64_t bytes = strtoull(value, NULL, 0);
	FILE *maps = fopen("/proc/self/maps", "re");
	struct credit_page *page = NULL;
	char line[512];
	CUresult r = start();

	/* the page comes with the first question */
	CUdeviceptr p;
	if (r || p_cuMemAlloc_v2(&p, MIB))
		return 1;
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "allot-credit"))
			page = (struct credit_page *)(uintptr_t)strtoull(line, NULL, 16);
	if (maps)
		(void)fclose(maps);
	if (!page) {
		fprintf(stderr, "gpu_escape: no credit page\n");
		return 1;
	}
	for (unsigned i = 0; i < WIRE_MAX_GPUS; i++) {
		atomic_store(&page->slot[i].credit_bytes, bytes);
		atomic_store(&page->slot[i].granted_bytes, bytes);
		atomic_store(&page->slot[i].wanted, (uint32_t)bytes);
	}
	page->magic = (uint32_t)bytes;
	page->job_id = page->process = bytes;
	return take();
}

static int with_other_descriptors(void)
{
	if (start())
		return 1;
	(void)syscall(SYS_close_range, 3, ~0u, 0);
	for (int i = 0; i < 64; i++)
		(void)open("/dev/null", O_RDWR); /* in their place, and kept */
	return take();
}

static int in_a_daemon(void)
{
	if (fork() != 0)
		_exit(0);
	(void)setsid();
	if (fork() != 0)
		_exit(0);
	(void)usleep(50000); /* the parents are gone */
	return take();
}

static int in_a_raw_clone(void)
{
	int status = 0;
	long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);

	if (pid == 0)
		_exit(take());
	if (pid < 0 || waitpid((pid_t)pid, &status, 0) < 0)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int after_a_fork(void)
{
	CUdeviceptr p;
	int status = 0;

	if (start() || p_cuMemAlloc_v2(&p, STEP))
		return 1;
	if (fork() == 0)
		_exit(take());
	(void)wait(&status);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int through_a_namespace(const char *path)
{
	load(dlmopen(LM_ID_NEWLM, path, RTLD_NOW));
	return take();
}

static int through_a_copy(const char *path)
{
	load(dlopen(path, RTLD_NOW));
	return take();
}

static pthread_barrier_t line;

static void *thread_main(void *arg)
{
	CUresult r;

	(void)pthread_barrier_wait(&line);
	r = start();
	*(uint64_t *)arg = r ? 0 : take_all(&r);
	return NULL;
}

static int cold(void)
{
	uint64_t took[THREADS] = { 0 }, all = 0;
	pthread_t id[THREADS];
	char c;

	(void)pthread_barrier_init(&line, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		(void)pthread_create(&id[i], NULL, thread_main, &took[i]);
	for (unsigned i = 0; i < THREADS; i++) {
		(void)pthread_join(id[i], NULL);
		all += took[i];
	}
	printf("took %" PRIu64 " 2\n", all / MIB);
	(void)fflush(stdout);
	(void)!read(STDIN_FILENO, &c, 1);
	return 0;
}

static int after_giving(void)
{
	CUdeviceptr p;

	if (start() || p_cuMemAlloc_v2(&p, STEP))
		return 1;
	for (int i = 0; i < 1000; i++) {
		(void)p_cuMemFree_v2(p); /* once it is right, then never again */
		(void)p_cuMemFreeAsync(p, NULL);
		(void)p_cuMemRelease(p);
	}
	return take();
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : "";

	if (strcmp(how, "dlmopen") == 0)
		return through_a_namespace(argument);
	if (strcmp(how, "copy") == 0)
		return through_a_copy(argument);
	load(dlopen("libcuda.so.1", RTLD_NOW));
	if (strcmp(how, "credit") == 0)
		return with_credit(argument);
	if (strcmp(how, "closed") == 0)
		return with_other_descriptors();
	if (strcmp(how, "daemon") == 0)
		return in_a_daemon();
	if (strcmp(how, "clone") == 0)
		return in_a_raw_clone();
	if (strcmp(how, "fork") == 0)
		return after_a_fork();
	if (strcmp(how, "cold") == 0)
		return cold();
	if (strcmp(how, "give") == 0)
		return after_giving();
	return take();
}
