// SPDX-License-Identifier: Apache-2.0
/*
 * cuIpc*MemHandle: memory of cuMemAlloc opened in another process. At the first request for a
 * handle the memory moves, unseen, into a memfd at the same address; the handle says which
 * descriptor of which process that is, and a random word that must match, so that a handle of a
 * process that is gone is refused. Who opens it is charged nothing until the owner is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sim/cuda/ipc.h"
#include "sim/cuda/ranges.h"
#include "sim/state/share.h"

#define HANDLE_MAGIC UINT64_C(0x637069744f6c6c61)
#define PAGE         ((size_t)4096)

/* the 64 bytes of CUipcMemHandle */
struct wire_handle {
	uint64_t magic, word;
	uint64_t bytes, region_bytes, offset;
	int32_t pid, fd;
	uint32_t device_index, room[3];
};

_Static_assert(sizeof(struct wire_handle) == sizeof(CUipcMemHandle), "a handle has 64 bytes");

struct shared_region {
	struct list node;
	char *base;
	size_t bytes;
	uint64_t word;
	int fd;
};

struct import {
	char *map;
	size_t map_bytes;
	uint64_t word;
	unsigned references;
};

static struct list regions = { &regions, &regions };

static bool name_memfd(uint64_t word, char *ret, size_t size)
{
	return snprintf(ret, size, "allot-sim-ipc:%016llx", (unsigned long long)word) > 0;
}

/* Copy what was ever written; the rest stays sparse. */
static int copy_resident(char *to, const char *from, size_t bytes)
{
	unsigned char resident[512];

	for (size_t at = 0; at < bytes; at += sizeof(resident) * PAGE) {
		size_t part = size_min(bytes - at, sizeof(resident) * PAGE);

		if (mincore((void *)(uintptr_t)(from + at), part, resident))
			return -errno;
		for (size_t i = 0; i < part / PAGE; i++) {
			if (resident[i] & 1)
				memcpy(to + at + i * PAGE, from + at + i * PAGE, PAGE);
		}
	}
	return 0;
}

static int move_to_memfd(struct shared_region *region)
{
	char name[64];
	void *map;
	int r;

	name_memfd(region->word, name, sizeof(name));
	region->fd = memfd_create(name, MFD_CLOEXEC);
	if (region->fd < 0 || ftruncate(region->fd, (off_t)region->bytes))
		return -errno;
	map = mmap(NULL, region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		   region->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	r = copy_resident(map, region->base, region->bytes);
	/* one step: the program sees its bytes at the same address before and after */
	if (!r && mremap(map, region->bytes, region->bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
			 region->base) == MAP_FAILED)
		r = -errno;
	if (r)
		munmap(map, region->bytes);
	return r;
}

static struct shared_region *share(char *base, size_t bytes)
{
	struct shared_region *region;

	list_for_each (region, &regions, node) {
		if (region->base == base)
			return region;
	}
	region = calloc(1, sizeof(*region));
	if (!region)
		return NULL;
	region->base = base;
	region->bytes = bytes;
	region->fd = -1;
	if (getrandom(&region->word, sizeof(region->word), 0) != sizeof(region->word) ||
	    move_to_memfd(region)) {
		if (region->fd >= 0)
			close(region->fd);
		free(region);
		return NULL;
	}
	list_append(&regions, &region->node);
	return region;
}

bool ipc_forget(const void *base)
{
	struct shared_region *region, *next;
	bool is_moved = false;

	list_for_each_safe (region, next, &regions, node) {
		if (region->base != base)
			continue;
		is_moved = sim_state_close_share(sim.state, region->word);
		close(region->fd);
		list_del(&region->node);
		free(region);
	}
	return is_moved;
}

static CUresult get_handle(CUipcMemHandle *ret, CUdeviceptr dptr)
{
	const struct sim_alloc *alloc = sim_alloc_find(dptr);
	const struct shared_region *region;
	struct wire_handle wire = { .magic = HANDLE_MAGIC };
	size_t bytes;
	char *base;

	if (!ret || !alloc || alloc->kind != SIM_ALLOC_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	base = sim_alloc_region(alloc, &bytes);
	region = share(base, bytes);
	if (!region)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(void)sim_state_share(sim.state, alloc->device->index, region->word, bytes, false);
	wire.word = region->word;
	wire.bytes = alloc->bytes;
	wire.region_bytes = bytes;
	wire.offset = (uint64_t)((char *)(uintptr_t)alloc->base - base);
	wire.pid = getpid();
	wire.fd = region->fd;
	wire.device_index = alloc->device->index;
	memcpy(ret, &wire, sizeof(wire));
	return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	return SIM_CALL(cuIpcGetMemHandle, SIM_CTX | SIM_LOCK, get_handle(pHandle, dptr),
			"dptr=%#llx", dptr);
}

/* Opening. */

/* another allocation in the same block has a range of its own */
static struct sim_alloc *find_import(CUcontext ctx, const struct wire_handle *wire)
{
	struct sim_alloc *alloc;

	list_for_each (alloc, &ctx->allocs, ctx_node) {
		const struct import *import = alloc->owner;

		if (alloc->kind == SIM_ALLOC_IPC && import->word == wire->word &&
		    alloc->base == (CUdeviceptr)(uintptr_t)import->map + wire->offset)
			return alloc;
	}
	return NULL;
}

/* the owner's descriptor, checked to be what the handle says */
static int open_owner(const struct wire_handle *wire)
{
	char path[64], link[128], name[64], want[80];
	struct stat st;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", wire->pid, wire->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, link, sizeof(link) - 1);
	name_memfd(wire->word, name, sizeof(name));
	snprintf(want, sizeof(want), "/memfd:%s", name);
	if (n <= 0 || strncmp(link, want, strlen(want)) || fstat(fd, &st) ||
	    (uint64_t)st.st_size != wire->region_bytes || wire->offset > wire->region_bytes ||
	    wire->bytes > wire->region_bytes - wire->offset) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

static struct sim_device *device_of(uint32_t index)
{
	for (unsigned i = 0; i < sim.device_count; i++) {
		if (sim.devices[i].index == index)
			return &sim.devices[i];
	}
	return NULL;
}

static bool is_owner_gone(const struct wire_handle *wire)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", wire->pid);
	return stat(path, &st) != 0;
}

static CUresult map_owner(CUcontext ctx, const struct wire_handle *wire, struct sim_alloc **ret)
{
	AUTO_FD int fd = open_owner(wire);
	struct import *import;
	struct sim_alloc *alloc = NULL;
	void *map;

	if (fd < 0)
		return is_owner_gone(wire) ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
	import = calloc(1, sizeof(*import));
	if (!import)
		return CUDA_ERROR_OUT_OF_MEMORY;
	map = mmap(NULL, wire->region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		   0);
	if (map != MAP_FAILED)
		alloc = range_new((CUdeviceptr)(uintptr_t)map + wire->offset, wire->bytes,
				  wire->bytes, SIM_ALLOC_IPC);
	if (!alloc) {
		if (map != MAP_FAILED)
			munmap(map, wire->region_bytes);
		free(import);
		return CUDA_ERROR_MAP_FAILED;
	}
	*import = (struct import){ map, wire->region_bytes, wire->word, 0 };
	(void)sim_state_open_share(sim.state, wire->word, 0);
	alloc->owner = import;
	alloc->device = device_of(wire->device_index);
	range_own(alloc, ctx);
	*ret = alloc;
	return CUDA_SUCCESS;
}

/* only one context of a device may have it open */
static bool is_open_elsewhere(CUcontext ctx, const struct wire_handle *wire)
{
	CUcontext other;

	list_for_each (other, &ctx->device->contexts, node)
		if (other != ctx && find_import(other, wire))
			return true;
	return false;
}

static CUresult open_handle(CUcontext ctx, CUdeviceptr *dptr, const CUipcMemHandle *handle,
			    unsigned flags)
{
	struct wire_handle wire;
	struct sim_alloc *alloc;
	CUresult result = CUDA_SUCCESS;

	memcpy(&wire, handle, sizeof(wire));
	if (!dptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || wire.magic != HANDLE_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (wire.pid == getpid() || !device_of(wire.device_index))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (is_open_elsewhere(ctx, &wire))
		return CUDA_ERROR_INVALID_HANDLE;
	alloc = find_import(ctx, &wire);
	if (!alloc)
		result = map_owner(ctx, &wire, &alloc);
	if (result)
		return result;
	((struct import *)alloc->owner)->references++;
	*dptr = alloc->base;
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	return SIM_CALL(cuIpcOpenMemHandle_v2, SIM_CTX | SIM_LOCK,
			open_handle(call.ctx, pdptr, &handle, Flags), "flags=%u", Flags);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	return cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

void sim_ipc_range_end(struct sim_alloc *alloc)
{
	struct import *import = alloc->owner;

	munmap(import->map, import->map_bytes);
	(void)sim_state_close_share(sim.state, import->word);
	free(import);
	range_free(alloc);
}

static CUresult close_handle(CUdeviceptr dptr)
{
	struct sim_alloc *alloc = sim_alloc_find(dptr);

	if (!alloc || alloc->base != dptr || alloc->kind != SIM_ALLOC_IPC)
		return CUDA_ERROR_INVALID_VALUE;
	if (!--((struct import *)alloc->owner)->references)
		sim_ipc_range_end(alloc);
	return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	return SIM_CALL(cuIpcCloseMemHandle, SIM_CTX | SIM_LOCK, close_handle(dptr), "dptr=%#llx",
			dptr);
}
