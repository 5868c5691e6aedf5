// SPDX-License-Identifier: Apache-2.0
/*
 * A program that shares GPU memory with others as it is told on stdin, one command a line, one
 * answer a line.  Tests steer several of them; it knows nothing of allot.  An ID is a piece of
 * memory that it can see; BYTES may be written "64M".
 *
 *   init | pid | quit
 *   alloc BYTES             cuMemAlloc                                  ok ID | error CODE
 *   create BYTES            cuMemCreate for export, mapped              ok ID
 *   pool BYTES              a pool for export, and one allocation       ok ID
 *   ipc ID, ipc-inside ID   cuIpcGetMemHandle of its begin, of behind it   ok HEX
 *   open HEX | close ID     cuIpcOpenMemHandle, cuIpcCloseMemHandle     ok ID | ok
 *   bind PATH               a socket that others can send to
 *   send ID PATH [MARK]     the descriptor of a create or a pool, to another's socket, with a mark
 *                           on its open file                            ok | error CODE | no mark
 *   receive                 … import and map it                         ok ID
 *   receive-external        … import it as external memory              ok ID
 *   receive-pool            … import the pool
 *   pointer ID              cuMemPoolExportPointer                      ok HEX
 *   import-pointer HEX      … from the pool that was received           ok ID
 *   retain ID               cuMemRetainAllocationHandle: a second import of the same   ok ID
 *   mark                    of what was received last                   ok MARK | none
 *   free ID                 by the calls that belong to it
 *   release ID              the handle of a create, whose mapping stays
 *   fill ID BYTE, check ID BYTE
 *   info                    ok FREE TOTAL (cuMemGetInfo)
 *   spawn IN OUT            another of this program, which reads and writes there          ok
 *   nvml                    ok USED PID:BYTES… (NVML, GPU 0)
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "abi/cuda_proto.h"
#include "abi/cuda_types.h"
#include "abi/nvml_proto.h"
#include "base/parse.h"
#include "base/size.h"
#include "shim/fd_mark.h"

#define CALLS(X)                              \
	X(cuInit)                             \
	X(cuDevicePrimaryCtxRetain)           \
	X(cuCtxSetCurrent)                    \
	X(cuCtxSynchronize)                   \
	X(cuMemGetInfo_v2)                    \
	X(cuMemAlloc_v2)                      \
	X(cuMemFree_v2)                       \
	X(cuMemFreeAsync)                     \
	X(cuMemAllocFromPoolAsync)            \
	X(cuMemPoolCreate)                    \
	X(cuMemPoolDestroy)                   \
	X(cuMemPoolSetAccess)                 \
	X(cuMemPoolExportToShareableHandle)   \
	X(cuMemPoolImportFromShareableHandle) \
	X(cuMemPoolExportPointer)             \
	X(cuMemPoolImportPointer)             \
	X(cuMemAddressReserve)                \
	X(cuMemAddressFree)                   \
	X(cuMemCreate)                        \
	X(cuMemRelease)                       \
	X(cuMemMap)                           \
	X(cuMemUnmap)                         \
	X(cuMemSetAccess)                     \
	X(cuMemRetainAllocationHandle)        \
	X(cuMemExportToShareableHandle)       \
	X(cuMemImportFromShareableHandle)     \
	X(cuImportExternalMemory)             \
	X(cuExternalMemoryGetMappedBuffer)    \
	X(cuDestroyExternalMemory)            \
	X(cuIpcGetMemHandle)                  \
	X(cuIpcOpenMemHandle_v2)              \
	X(cuIpcCloseMemHandle)                \
	X(cuMemsetD8_v2)                      \
	X(cuMemcpyDtoH_v2)                    \
	X(cuStreamSynchronize)
#define DECLARE(name) static pfn_##name *p_##name;
CALLS(DECLARE)

#define MAX_THINGS 1024u
#define MAX_WORDS  4
#define FD_TYPE    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

enum kind {
	KIND_NONE,
	KIND_LINEAR,
	KIND_OPENED, /* cuIpcOpenMemHandle */
	KIND_MAPPED, /* a handle, and where it is mapped */
	KIND_POOLED,
	KIND_EXTERNAL,
	KIND_RETAINED, /* only a handle */
};

struct thing {
	enum kind kind;
	CUdeviceptr ptr;
	uint64_t bytes;
	CUmemGenericAllocationHandle handle; /* 0: released */
	CUmemoryPool pool;
	CUexternalMemory external;
};

static struct thing things[MAX_THINGS];
static unsigned n_things;
static int inbox = -1;
static uint64_t received_mark; /* 0: none */
static CUmemoryPool received_pool;

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

static void answer_hex(CUresult r, const void *bytes, size_t n)
{
	if (r) {
		answer(r);
		return;
	}
	printf("ok ");
	for (size_t i = 0; i < n; i++)
		printf("%02x", ((const unsigned char *)bytes)[i]);
	printf("\n");
}

static bool from_hex(const char *text, void *bytes, size_t n)
{
	if (strlen(text) != 2 * n)
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned int byte;

		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			return false;
		((unsigned char *)bytes)[i] = (unsigned char)byte;
	}
	return true;
}

static CUresult init(void)
{
	CUcontext ctx;
	CUresult r = p_cuInit(0);

	if (!r)
		r = p_cuDevicePrimaryCtxRetain(&ctx, 0);
	return r ? r : p_cuCtxSetCurrent(ctx);
}

/* ---- making ---- */

static const CUmemLocation card = { .type = CU_MEM_LOCATION_TYPE_DEVICE };

static CUresult map(struct thing *t)
{
	CUmemAccessDesc access = { .location = card, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUresult r = p_cuMemAddressReserve(&t->ptr, t->bytes, 0, 0, 0);

	t->kind = KIND_MAPPED;
	if (!r)
		r = p_cuMemMap(t->ptr, t->bytes, 0, t->handle, 0);
	return r ? r : p_cuMemSetAccess(t->ptr, t->bytes, &access, 1);
}

static void create(uint64_t bytes)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes = FD_TYPE,
				     .location = card };
	struct thing t = { .bytes = size_round_up(bytes, 2 * MIB) };
	CUresult r = p_cuMemCreate(&t.handle, t.bytes, &prop, 0);

	answer_thing(r ? r : map(&t), &t);
}

static void create_pool(uint64_t bytes)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .handleTypes = FD_TYPE,
				 .location = card };
	struct thing t = { .kind = KIND_POOLED, .bytes = bytes };
	CUresult r = p_cuMemPoolCreate(&t.pool, &props);

	if (!r)
		r = p_cuMemAllocFromPoolAsync(&t.ptr, bytes, t.pool, NULL);
	answer_thing(r ? r : p_cuStreamSynchronize(NULL), &t);
}

/* ---- descriptors between processes ---- */

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static bool address_of(const char *path, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(ret->sun_path))
		return false;
	memcpy(ret->sun_path, path, strlen(path) + 1);
	return true;
}

static void bind_inbox(const char *path)
{
	struct sockaddr_un address;

	inbox = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (inbox < 0 || !address_of(path, &address) ||
	    bind(inbox, (struct sockaddr *)&address, sizeof(address)))
		printf("error 304\n");
	else
		printf("ok\n");
}

static bool send_fd(int fd, uint64_t bytes, const char *path)
{
	int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct iovec iov = { &bytes, sizeof(bytes) };
	union control control = { 0 };
	struct sockaddr_un address;
	struct msghdr msg = { .msg_name = &address,
			      .msg_namelen = sizeof(address),
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	bool sent;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	sent = s >= 0 && address_of(path, &address) &&
	       sendmsg(s, &msg, 0) == (ssize_t)sizeof(bytes);
	if (s >= 0)
		close(s);
	return sent;
}

static int receive_fd(uint64_t *ret_bytes)
{
	struct iovec iov = { ret_bytes, sizeof(*ret_bytes) };
	union control control = { 0 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(inbox, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*ret_bytes))
		return -1;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static void send_thing(const struct thing *t, const char *path, uint64_t mark)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	int fd = -1;

	if (t->kind == KIND_MAPPED)
		r = p_cuMemExportToShareableHandle(&fd, t->handle, FD_TYPE, 0);
	else if (t->kind == KIND_POOLED && t->pool)
		r = p_cuMemPoolExportToShareableHandle(&fd, t->pool, FD_TYPE, 0);
	if (!r && mark && fd_mark_set(fd, mark)) {
		printf("no mark\n");
		close(fd);
		return;
	}
	if (!r && !send_fd(fd, t->bytes, path))
		r = CUDA_ERROR_OPERATING_SYSTEM;
	if (fd >= 0)
		close(fd);
	answer(r);
}

static CUresult import_external(struct thing *t, int fd)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC what = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
						  .handle.fd = fd,
						  .size = t->bytes };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC all = { .size = t->bytes };
	CUresult r = p_cuImportExternalMemory(&t->external, &what);

	t->kind = KIND_EXTERNAL;
	if (r)
		close(fd); /* else it is the driver's now */
	return r ? r : p_cuExternalMemoryGetMappedBuffer(&t->ptr, t->external, &all);
}

static CUresult import_pool(int fd)
{
	CUmemAccessDesc access = { .location = card, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUresult r = p_cuMemPoolImportFromShareableHandle(&received_pool, (void *)(intptr_t)fd,
							  FD_TYPE, 0);

	close(fd);
	return r ? r : p_cuMemPoolSetAccess(received_pool, &access, 1);
}

static void receive(const char *what)
{
	struct thing t = { 0 };
	int fd = receive_fd(&t.bytes);
	CUresult r;

	if (fd < 0) {
		printf("error 304\n");
		return;
	}
	if (fd_mark_get(fd, &received_mark))
		received_mark = 0;
	if (strcmp(what, "receive-pool") == 0) {
		answer(import_pool(fd));
	} else if (strcmp(what, "receive-external") == 0) {
		r = import_external(&t, fd);
		answer_thing(r, &t);
	} else {
		r = p_cuMemImportFromShareableHandle(&t.handle, (void *)(intptr_t)fd, FD_TYPE);
		close(fd);
		answer_thing(r ? r : map(&t), &t);
	}
}

static void import_pointer(const char *hex)
{
	struct thing t = { .kind = KIND_POOLED, .bytes = MIB };
	CUmemPoolPtrExportData data;

	if (!from_hex(hex, &data, sizeof(data)))
		printf("what?\n");
	else
		answer_thing(p_cuMemPoolImportPointer(&t.ptr, received_pool, &data), &t);
}

/* ---- legacy IPC ---- */

static void open_ipc(const char *hex)
{
	struct thing t = { .kind = KIND_OPENED, .bytes = MIB };
	CUipcMemHandle handle;

	if (!from_hex(hex, &handle, sizeof(handle)))
		printf("what?\n");
	else
		answer_thing(
			p_cuIpcOpenMemHandle_v2(&t.ptr, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
			&t);
}

/* ---- ending ---- */

static CUresult unmap(struct thing *t)
{
	CUresult r = p_cuMemUnmap(t->ptr, t->bytes);

	if (!r)
		r = p_cuMemAddressFree(t->ptr, t->bytes);
	return r || !t->handle ? r : p_cuMemRelease(t->handle);
}

static CUresult release(struct thing *t)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	switch (t->kind) {
	case KIND_LINEAR:
		r = p_cuMemFree_v2(t->ptr);
		break;
	case KIND_OPENED:
		r = p_cuIpcCloseMemHandle(t->ptr);
		break;
	case KIND_MAPPED:
		r = unmap(t);
		break;
	case KIND_POOLED:
		r = p_cuMemFreeAsync(t->ptr, NULL);
		if (!r)
			r = p_cuStreamSynchronize(NULL);
		if (!r && t->pool)
			r = p_cuMemPoolDestroy(t->pool);
		break;
	case KIND_EXTERNAL:
		r = p_cuMemFree_v2(t->ptr);
		if (!r)
			r = p_cuDestroyExternalMemory(t->external);
		break;
	case KIND_RETAINED:
		r = p_cuMemRelease(t->handle);
		break;
	case KIND_NONE:
		break;
	}
	t->kind = KIND_NONE;
	return r;
}

/* ---- looking ---- */

static void check(const struct thing *t, unsigned char byte)
{
	unsigned char buf[65536];
	uint64_t n = size_min(t->bytes, sizeof(buf));
	CUresult r = p_cuMemcpyDtoH_v2(buf, t->ptr, n);
	bool same = true;

	for (uint64_t i = 0; i < n; i++)
		same &= buf[i] == byte;
	if (r)
		answer(r);
	else
		printf(same ? "ok same\n" : "ok other\n");
}

static void info(void)
{
	size_t free_bytes = 0, total_bytes = 0;
	CUresult r = p_cuMemGetInfo_v2(&free_bytes, &total_bytes);

	if (r)
		answer(r);
	else
		printf("ok %zu %zu\n", free_bytes, total_bytes);
}

static void nvml(void)
{
	void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	pfn_nvmlDeviceGetComputeRunningProcesses_v3 *procs;
	pfn_nvmlDeviceGetMemoryInfo_v2 *memory;
	pfn_nvmlDeviceGetHandleByIndex_v2 *by_index;
	pfn_nvmlInit_v2 *begin;
	static nvmlProcessInfo_t list[1024];
	nvmlMemory_v2_t m = { .version = NVML_MEMORY_V2 };
	unsigned n = sizeof(list) / sizeof(list[0]);
	nvmlDevice_t device;

	if (!lib) {
		printf("error 999\n");
		return;
	}
	begin = (pfn_nvmlInit_v2 *)dlsym(lib, "nvmlInit_v2");
	by_index = (pfn_nvmlDeviceGetHandleByIndex_v2 *)dlsym(lib, "nvmlDeviceGetHandleByIndex_v2");
	memory = (pfn_nvmlDeviceGetMemoryInfo_v2 *)dlsym(lib, "nvmlDeviceGetMemoryInfo_v2");
	procs = (pfn_nvmlDeviceGetComputeRunningProcesses_v3 *)dlsym(
		lib, "nvmlDeviceGetComputeRunningProcesses_v3");
	if (!begin || !by_index || !memory || !procs || begin() || by_index(0, &device) ||
	    memory(device, &m) || procs(device, &n, list)) {
		printf("error 999\n");
		return;
	}
	printf("ok %llu", m.used);
	for (unsigned i = 0; i < n; i++)
		printf(" %u:%llu", list[i].pid, list[i].usedGpuMemory);
	printf("\n");
}

/* ---- obeying ---- */

static void on_thing(char **w, unsigned n)
{
	uint64_t id, byte = 0, mark = 0;
	CUipcMemHandle ipc;
	CUmemPoolPtrExportData data;
	struct thing *t, kept = { .kind = KIND_RETAINED };
	CUresult r;

	if (n_things == 0 || parse_u64(w[1], 0, n_things - 1, &id, NULL) ||
	    (n > 2 && strcmp(w[0], "send") != 0 && parse_u64(w[2], 0, 255, &byte, NULL)) ||
	    (n > 3 && parse_u64(w[3], 1, INT64_MAX, &mark, NULL))) {
		printf("what?\n");
		return;
	}
	t = &things[id];
	if (strcmp(w[0], "free") == 0 || strcmp(w[0], "close") == 0) {
		answer(release(t));
	} else if (strcmp(w[0], "release") == 0) {
		r = p_cuMemRelease(t->handle);
		t->handle = 0;
		answer(r);
	} else if (strcmp(w[0], "retain") == 0) {
		r = p_cuMemRetainAllocationHandle(&kept.handle, (void *)(uintptr_t)t->ptr);
		answer_thing(r, &kept);
	} else if (strcmp(w[0], "ipc") == 0 || strcmp(w[0], "ipc-inside") == 0) {
		r = p_cuIpcGetMemHandle(&ipc, t->ptr + (w[0][3] ? 4096 : 0));
		answer_hex(r, &ipc, sizeof(ipc));
	} else if (strcmp(w[0], "pointer") == 0) {
		r = p_cuMemPoolExportPointer(&data, t->ptr);
		answer_hex(r, &data, sizeof(data));
	} else if (strcmp(w[0], "send") == 0 && n >= 3) {
		send_thing(t, w[2], mark);
	} else if (strcmp(w[0], "fill") == 0) {
		r = p_cuMemsetD8_v2(t->ptr, (unsigned char)byte, t->bytes);
		answer(r ? r : p_cuCtxSynchronize());
	} else if (strcmp(w[0], "check") == 0) {
		check(t, (unsigned char)byte);
	} else {
		printf("what?\n");
	}
}

extern char **environ;

static void start_another(const char *in, const char *out)
{
	char self[] = "/proc/self/exe";
	char *argv[] = { self, NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;
	bool started;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, in, O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 1, out, O_WRONLY, 0);
	/* it opens the pipes, which takes until somebody opens their other ends */
	printf("ok\n");
	(void)fflush(stdout);
	started = posix_spawn(&pid, self, &actions, NULL, argv, environ) == 0;
	posix_spawn_file_actions_destroy(&actions);
	if (!started)
		exit(1);
}

static void allocate(uint64_t bytes)
{
	struct thing t = { .kind = KIND_LINEAR, .bytes = bytes };

	answer_thing(p_cuMemAlloc_v2(&t.ptr, bytes), &t);
}

static void obey(char **w, unsigned n)
{
	uint64_t bytes;

	if (strcmp(w[0], "init") == 0)
		answer(init());
	else if (strcmp(w[0], "pid") == 0)
		printf("ok %d\n", getpid());
	else if (strcmp(w[0], "info") == 0)
		info();
	else if (strcmp(w[0], "nvml") == 0)
		nvml();
	else if (strcmp(w[0], "mark") == 0 && received_mark)
		printf("ok %" PRIu64 "\n", received_mark);
	else if (strcmp(w[0], "mark") == 0)
		printf("none\n");
	else if (strncmp(w[0], "receive", 7) == 0)
		receive(w[0]);
	else if (n < 2)
		printf("what?\n");
	else if (strcmp(w[0], "spawn") == 0 && n == 3)
		start_another(w[1], w[2]);
	else if (strcmp(w[0], "bind") == 0)
		bind_inbox(w[1]);
	else if (strcmp(w[0], "open") == 0)
		open_ipc(w[1]);
	else if (strcmp(w[0], "import-pointer") == 0)
		import_pointer(w[1]);
	else if (strcmp(w[0], "alloc") == 0 && !parse_size(w[1], &bytes, NULL))
		allocate(bytes);
	else if (strcmp(w[0], "create") == 0 && !parse_size(w[1], &bytes, NULL))
		create(bytes);
	else if (strcmp(w[0], "pool") == 0 && !parse_size(w[1], &bytes, NULL))
		create_pool(bytes);
	else
		on_thing(w, n);
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
	while (fgets(line, sizeof(line), stdin)) {
		char *words[MAX_WORDS], *save = NULL;
		unsigned n = 0;

		for (char *w = strtok_r(line, " \n", &save); w && n < MAX_WORDS;
		     w = strtok_r(NULL, " \n", &save))
			words[n++] = w;
		if (n == 0)
			continue;
		if (strcmp(words[0], "quit") == 0)
			break;
		obey(words, n);
		(void)fflush(stdout);
	}
	return 0;
}
