// SPDX-License-Identifier: Apache-2.0
/*
 * Pools of other processes. A pool that was created to be exported lies in a memfd, whose name says
 * which device it is of; an importer maps all of it, and allocations travel as offsets. Importers
 * are charged nothing; what they have open stays on the card when its owner is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/ranges.h"
#include "sim/state/share.h"

#define NAME_PREFIX   "allot-sim-pool:"
#define POINTER_MAGIC UINT64_C(0x6c6f6f704f6c6c61)

/* the 64 bytes of CUmemPoolPtrExportData */
struct wire_pointer {
	uint64_t magic, offset, bytes, inode, room[4];
};

_Static_assert(sizeof(struct wire_pointer) == sizeof(CUmemPoolPtrExportData), "64 bytes");

int pool_memfd(const struct sim_pool *pool)
{
	AUTO_FD int fd = -1;
	char name[64];

	snprintf(name, sizeof(name), NAME_PREFIX "%d",
		 pool->device ? (int)pool->device->index : -1);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)pool->bytes))
		return -errno;
	return TAKE_FD(fd);
}

static struct sim_pool *from_handle(CUmemoryPool handle)
{
	struct sim_pool *pool = (struct sim_pool *)(void *)handle;

	return pool && pool_is_known(pool) ? pool : NULL;
}

static uint64_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* each export is an open file of its own, as the driver's are */
static int reopen(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

static CUresult export_pool(int *ret, CUmemoryPool handle, CUmemAllocationHandleType type,
			    unsigned long long flags)
{
	struct sim_pool *pool = from_handle(handle);
	int fd;

	if (!ret || !pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool->fd < 0 || pool->is_imported)
		return CUDA_ERROR_INVALID_VALUE;
	fd = reopen(pool->fd);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (pool->device && !pool->share_id &&
	    sim_state_share(sim.state, pool->device->index, inode_of(fd), 0, true) == 0)
		pool->share_id = inode_of(fd);
	*ret = fd;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
					  CUmemAllocationHandleType handleType,
					  unsigned long long flags)
{
	return SIM_CALL(cuMemPoolExportToShareableHandle, SIM_LOCK,
			export_pool(handle_out, pool, handleType, flags), "type=%d",
			(int)handleType);
}

/* whose pool @fd is; NULL when it is none of a simulator's */
static struct sim_device *identify(int fd)
{
	char path[64], target[128];
	const char *at;
	int index;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return NULL;
	target[n] = '\0';
	at = strstr(target, NAME_PREFIX);
	if (!at || sscanf(at + strlen(NAME_PREFIX), "%d", &index) != 1)
		return NULL;
	for (unsigned i = 0; i < sim.device_count; i++) {
		if ((int)sim.devices[i].index == index)
			return &sim.devices[i];
	}
	return NULL;
}

static CUresult import_pool(CUmemoryPool *ret, int fd, CUmemAllocationHandleType type,
			    unsigned long long flags)
{
	struct sim_device *device = identify(fd);
	struct sim_pool *pool;
	struct stat st;
	int own;

	if (!ret || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!device || fstat(fd, &st))
		return CUDA_ERROR_UNKNOWN;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (own < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	pool = pool_import(device, own, (uint64_t)st.st_size);
	if (!pool) {
		close(own);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = (CUmemoryPool)(void *)pool;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
					    CUmemAllocationHandleType handleType,
					    unsigned long long flags)
{
	return SIM_CALL(cuMemPoolImportFromShareableHandle, SIM_LOCK,
			import_pool(pool_out, (int)(intptr_t)handle, handleType, flags),
			"fd=%d type=%d", (int)(intptr_t)handle, (int)handleType);
}

/* Pointers. */

static CUresult export_pointer(CUmemPoolPtrExportData *ret, CUdeviceptr ptr)
{
	const struct sim_alloc *alloc = sim_alloc_find(ptr);
	struct wire_pointer wire = { .magic = POINTER_MAGIC };

	if (!ret || !alloc || alloc->base != ptr || alloc->kind != SIM_ALLOC_POOL)
		return CUDA_ERROR_INVALID_VALUE;
	if (alloc->pool->fd < 0 || alloc->pool->is_imported)
		return CUDA_ERROR_INVALID_VALUE;
	wire.offset = (uint64_t)((char *)(uintptr_t)alloc->base - alloc->pool->base);
	wire.bytes = alloc->bytes;
	wire.inode = inode_of(alloc->pool->fd);
	memcpy(ret, &wire, sizeof(wire));
	return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	return SIM_CALL(cuMemPoolExportPointer, SIM_LOCK, export_pointer(shareData_out, ptr),
			"ptr=%#llx", ptr);
}

static CUresult import_pointer(CUdeviceptr *ret, CUmemoryPool handle,
			       const CUmemPoolPtrExportData *data)
{
	struct sim_pool *pool = from_handle(handle);
	struct wire_pointer wire;
	struct sim_alloc *alloc;
	CUdeviceptr base;

	if (!ret || !pool || !data || !pool->is_imported)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&wire, data, sizeof(wire));
	if (wire.magic != POINTER_MAGIC || wire.inode != inode_of(pool->fd) || !wire.bytes ||
	    wire.offset > pool->bytes || wire.bytes > pool->bytes - wire.offset)
		return CUDA_ERROR_INVALID_VALUE;
	base = (CUdeviceptr)(uintptr_t)pool->base + wire.offset;
	alloc = sim_alloc_find(base);
	if (alloc && alloc->base == base && alloc->pool == pool && !alloc->is_freed) {
		*ret = base; /* once more */
		return CUDA_SUCCESS;
	}
	if (!range_is_free(base, wire.bytes))
		return CUDA_ERROR_INVALID_VALUE;
	alloc = range_new(base, wire.bytes, wire.bytes, SIM_ALLOC_POOL);
	if (!alloc)
		return CUDA_ERROR_OUT_OF_MEMORY;
	alloc->pool = pool;
	alloc->device = pool->device;
	if (sim_state_open_share(sim.state, wire.inode,
				 size_round_up(wire.bytes, SIM_PAGE_BYTES)) == 0)
		pool->share_id = wire.inode;
	pool->used_bytes += wire.bytes;
	*ret = base;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
				CUmemPoolPtrExportData *shareData)
{
	return SIM_CALL(cuMemPoolImportPointer, SIM_LOCK, import_pointer(ptr_out, pool, shareData),
			"pool=%p", (void *)pool);
}
