// SPDX-License-Identifier: Apache-2.0
/* Between processes: legacy IPC, VMM handles, fork. */
#include "conform.h"
#include "partner.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

void run_helper(const char *what, const char *arg)
{
	const char *argv[] = { "conform",  "--lib", conf_lib_path, "--nvml", conf_nvml_path,
			       "--helper", what,    "--",          arg,      NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int status = 0;
	out_line("# another process: %s", what);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out_fd(), 1);
	if (posix_spawn(&pid, "/proc/self/exe", &actions, NULL, (char *const *)argv, environ) == 0)
		waitpid(pid, &status, 0);
	posix_spawn_file_actions_destroy(&actions);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		out_line("!! it ended with %d", status);
	out_line("# back");
}

static void to_hex(const void *bytes, size_t n, char *text)
{
	for (size_t i = 0; i < n; i++)
		sprintf(text + 2 * i, "%02x", ((const unsigned char *)bytes)[i]);
}

static void from_hex(const char *text, void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned int byte = 0;
		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			return;
		((unsigned char *)bytes)[i] = (unsigned char)byte;
	}
}

static int helper_ipc_open(const char *arg)
{
	CUipcMemHandle handle;
	POISONED_PTR(p);
	POISONED_PTR(q);
	memset(&handle, 0, sizeof(handle));
	from_hex(arg, &handle, sizeof(handle));
	CALL(cuIpcOpenMemHandle_v2, &p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	NEWPTR(p, 2 * MIB);
	if (p == POISON_64)
		return 0;
	data_u32(p, 4096);
	CALL(cuIpcOpenMemHandle_v2, &q, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	YES(p == q);
	CALL(cuMemsetD32_v2, p, 0x99, 1024);
	CALL(cuCtxSynchronize);
	CALL(cuMemFree_v2, p);
	CALL(cuIpcCloseMemHandle, p);
	CALL(cuIpcCloseMemHandle, p);
	CALL(cuIpcCloseMemHandle, p);
	CALL(cuIpcOpenMemHandle_v2, &q, handle, 0);
	CALL(cuIpcOpenMemHandle_v2, NULL, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	return 0;
}

static int helper_ipc_event(const char *arg)
{
	CUipcEventHandle handle;
	POISONED(CUevent, e);
	memset(&handle, 0, sizeof(handle));
	from_hex(arg, &handle, sizeof(handle));
	CALL(cuIpcOpenEventHandle, &e, handle);
	if ((uintptr_t)e == POISON_64)
		return 0;
	CALL(cuEventQuery, e);
	CALL(cuEventSynchronize, e);
	CALL(cuStreamWaitEvent, NULL, e, 0);
	CALL(cuEventDestroy_v2, e);
	return 0;
}

static int helper_vmm_import(const char *arg)
{
	CUmemGenericAllocationHandle h = POISON_64;
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	POISONED_PTR(p);
	CALL(cuMemImportFromShareableHandle, &h, (void *)(intptr_t)atoi(arg),
	     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (h == POISON_64)
		return 0;
	CALL(cuMemAddressReserve, &p, 2 * MIB, 0, 0, 0);
	CALL(cuMemMap, p, 2 * MIB, 0, h, 0);
	CALL(cuMemSetAccess, p, 2 * MIB, &access, 1);
	data_u32(p, 4096);
	CALL(cuMemsetD32_v2, p, 0x98, 1024);
	CALL(cuCtxSynchronize);
	CALL(cuMemUnmap, p, 2 * MIB);
	CALL(cuMemRelease, h);
	return 0;
}

int helper_main(const char *what, const char *arg)
{
	int rc = 2;
	if (strcmp(what, "visible") == 0) {
		rc = helper_visible(arg);
		out_flush();
		_exit(rc);
	}
	if (QUIET(cuInit, 0) != CUDA_SUCCESS ||
	    QUIET(cuDevicePrimaryCtxRetain, &conf_ctx, 0) != CUDA_SUCCESS ||
	    QUIET(cuCtxSetCurrent, conf_ctx) != CUDA_SUCCESS)
		return 3;
	if (strcmp(what, "ipc-open") == 0)
		rc = helper_ipc_open(arg);
	else if (strcmp(what, "ipc-event") == 0)
		rc = helper_ipc_event(arg);
	else if (strcmp(what, "vmm-import") == 0)
		rc = helper_vmm_import(arg);
	else if (strcmp(what, "partner") == 0)
		rc = partner_main();
	out_flush();
	_exit(rc);
}

static void ipc_open(void)
{
	CUipcMemHandle handle;
	char text[2 * sizeof(handle) + 1] = "";
	POISONED_PTR(q);
	CUdeviceptr p = alloc_quiet(2 * MIB, 0x44);
	CALL(cuIpcGetMemHandle, &handle, p);
	to_hex(&handle, sizeof(handle), text);
	CALL(cuIpcOpenMemHandle_v2, &q, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	PTR(q);
	run_helper("ipc-open", text);
	data_u32(p, 4096);
	CALL(cuMemFree_v2, p);
}

static void ipc_get(void)
{
	CUipcMemHandle a, b;
	POISONED_PTR(async);
	POISONED_PTR(managed);
	POISONED(void *, host);
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuIpcGetMemHandle, &a, p);
	CALL(cuIpcGetMemHandle, &b, p);
	YES(memcmp(&a, &b, sizeof(a)) == 0);
	CALL(cuIpcGetMemHandle, &a, p + 512);
	CALL(cuIpcGetMemHandle, NULL, p);
	CALL(cuIpcGetMemHandle, &a, 0);
	CALL(cuIpcGetMemHandle, &a, 0x1000);
	CALL(cuMemAllocAsync, &async, 4096, NULL);
	CALL(cuIpcGetMemHandle, &a, async);
	CALL(cuMemFreeAsync, async, NULL);
	CALL(cuMemAllocManaged, &managed, 4096, CU_MEM_ATTACH_GLOBAL);
	CALL(cuIpcGetMemHandle, &a, managed);
	CALL(cuMemFree_v2, managed);
	CALL(cuMemHostAlloc, &host, 4096, 0);
	CALL(cuIpcGetMemHandle, &a, (CUdeviceptr)(uintptr_t)host);
	CALL(cuMemFreeHost, host);
	CALL(cuMemFree_v2, p);
	CALL(cuIpcCloseMemHandle, 0);
	CALL(cuIpcCloseMemHandle, 0x1000);
}

static void ipc_vmm(void)
{
	CUipcMemHandle handle;
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemAccessDesc access = { .location = prop.location,
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h = POISON_64;
	POISONED_PTR(p);
	CALL(cuMemAddressReserve, &p, 2 * MIB, 0, 0, 0);
	CALL(cuIpcGetMemHandle, &handle, p);
	CALL(cuMemCreate, &h, 2 * MIB, &prop, 0);
	CALL(cuMemMap, p, 2 * MIB, 0, h, 0);
	CALL(cuMemSetAccess, p, 2 * MIB, &access, 1);
	CALL(cuIpcGetMemHandle, &handle, p);
	CALL(cuMemUnmap, p, 2 * MIB);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, 2 * MIB);
}

static void ipc_garbage(void)
{
	CUipcMemHandle handle;
	POISONED_PTR(p);
	memset(&handle, 0, sizeof(handle));
	CALL(cuIpcOpenMemHandle_v2, &p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	PTR(p);
	memset(&handle, 0xee, sizeof(handle));
	CALL(cuIpcOpenMemHandle_v2, &p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	PTR(p);
	CALL(cuIpcOpenMemHandle, &p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	PTR(p);
}

static void ipc_event(void)
{
	CUipcEventHandle handle;
	char text[2 * sizeof(handle) + 1] = "";
	POISONED(CUevent, e);
	CALL(cuEventCreate, &e, 0);
	CALL(cuIpcGetEventHandle, &handle, e);
	CALL(cuEventDestroy_v2, e);
	CALL(cuEventCreate, &e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
	CALL(cuIpcGetEventHandle, &handle, e);
	CALL(cuEventRecord, e, NULL);
	to_hex(&handle, sizeof(handle), text);
	run_helper("ipc-event", text);
	CALL(cuIpcGetEventHandle, NULL, e);
	CALL(cuIpcGetEventHandle, &handle, NULL);
	CALL(cuEventDestroy_v2, e);
}

static void vmm_import(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes =
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemAccessDesc access = { .location = prop.location,
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h = POISON_64;
	POISONED_PTR(p);
	POISONED_INT(fd);
	char text[16];
	CALL(cuMemAddressReserve, &p, 2 * MIB, 0, 0, 0);
	CALL(cuMemCreate, &h, 2 * MIB, &prop, 0);
	CALL(cuMemMap, p, 2 * MIB, 0, h, 0);
	CALL(cuMemSetAccess, p, 2 * MIB, &access, 1);
	CALL(cuMemsetD32_v2, p, 0x43, 1024);
	CALL(cuCtxSynchronize);
	if (CALL(cuMemExportToShareableHandle, &fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		 0) == CUDA_SUCCESS) {
		int plain = dup(fd); /* without close-on-exec */
		snprintf(text, sizeof(text), "%d", plain);
		run_helper("vmm-import", text);
		close(plain);
		close(fd);
	}
	data_u32(p, 4096);
	CALL(cuMemUnmap, p, 2 * MIB);
	CALL(cuMemRelease, h);
	CALL(cuMemAddressFree, p, 2 * MIB);
}

/* runs in the fork's child: everything is dead there */
static void use_after_fork(void)
{
	POISONED_PTR(p);
	POISONED_INT(n);
	POISONED(CUcontext, ctx);
	CALL(cuInit, 0);
	CALL(cuDeviceGetCount, &n);
	INT(n);
	CALL(cuCtxGetCurrent, &ctx);
	CALL(cuMemAlloc_v2, &p, 4096);
	PTR(p);
	CALL(cuMemFree_v2, 0);
	CALL(cuDevicePrimaryCtxRetain, &ctx, 0);
	CALL(cuCtxSynchronize);
}

static void fork_use(void)
{
	pid_t pid;
	int status = 0;
	POISONED_PTR(p);
	out_flush();
	pid = fork();
	if (pid == 0) {
		alarm(6);
		NOTE("in the child");
		use_after_fork();
		out_flush();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	NOTE("in the parent, the child's status %d", status);
	CALL(cuMemAlloc_v2, &p, 4096);
	CALL(cuMemFree_v2, p);
}

static void fork_first(void)
{
	pid_t pid;
	int status = 0;
	POISONED_INT(n);
	out_flush();
	pid = fork();
	if (pid == 0) {
		POISONED_PTR(p);
		POISONED(CUcontext, ctx);
		alarm(6);
		NOTE("in the child");
		CALL(cuInit, 0);
		CALL(cuDevicePrimaryCtxRetain, &ctx, 0);
		CALL(cuCtxSetCurrent, ctx);
		CALL(cuMemAlloc_v2, &p, 4096);
		CALL(cuMemFree_v2, p);
		out_flush();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	NOTE("in the parent, the child's status %d", status);
	CALL(cuInit, 0);
	CALL(cuDeviceGetCount, &n);
	YES(n >= 1);
}

FAMILY(process, { "process.fork-first", "process.fork-before-init", 0, fork_first },
       { "process", "process.ipc-get", CTX, ipc_get },
       { "process", "process.ipc-vmm", CTX, ipc_vmm },
       { "process", "process.ipc-garbage", CTX, ipc_garbage },
       { "process", "process.ipc-open", CTX, ipc_open },
       { "process", "process.ipc-event", CTX, ipc_event },
       { "process", "process.vmm-import", CTX, vmm_import },
       { "process", "process.fork-use", CTX, fork_use }, );
