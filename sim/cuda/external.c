// SPDX-License-Identifier: Apache-2.0
/*
 * External memory: of another API, or, as here, of a handle that was exported by descriptor. A
 * buffer of it is a mapping of its own, freed by cuMemFree; the object may end before or after.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/cuda/ranges.h"
#include "sim/cuda/vmm.h"
#include "sim/state/share.h"

struct CUextMemory_st {
	struct list node;
	struct sim_device *device;
	uint64_t bytes, share_id;
	int fd; /* the driver's from the import on */
};

static struct list memories = { &memories, &memories };

static struct CUextMemory_st *find(CUexternalMemory memory)
{
	struct CUextMemory_st *it;

	list_for_each (it, &memories, node)
		if (it == memory)
			return it;
	return NULL;
}

static CUresult check_type(const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	if (desc->type < CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ||
	    desc->type > CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD)
		return CUDA_ERROR_INVALID_VALUE;
	return desc->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ? CUDA_SUCCESS
								      : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult import(CUexternalMemory *ret, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	struct CUextMemory_st *memory;
	CUmemLocation location;
	struct stat st;
	size_t bytes;
	CUresult r;

	if (!ret || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	r = check_type(desc);
	if (r || !desc->size)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	if (!vmm_identify_fd(desc->handle.fd, &location, &bytes) || desc->size > bytes ||
	    location.type != CU_MEM_LOCATION_TYPE_DEVICE || fstat(desc->handle.fd, &st))
		return CUDA_ERROR_UNKNOWN;
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memory->device = sim_device(location.id);
	memory->bytes = desc->size;
	memory->fd = desc->handle.fd;
	if (sim_state_open_share(sim.state, st.st_ino, 0) == 0)
		memory->share_id = st.st_ino;
	list_append(&memories, &memory->node);
	*ret = memory;
	return CUDA_SUCCESS;
}

CUresult cuImportExternalMemory(CUexternalMemory *extMem_out,
				const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
	return SIM_CALL(cuImportExternalMemory, SIM_CTX | SIM_LOCK,
			import(extMem_out, memHandleDesc), "type=%d",
			memHandleDesc ? (int)memHandleDesc->type : -1);
}

static CUresult get_buffer(CUcontext ctx, CUdeviceptr *ret, CUexternalMemory handle,
			   const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	const struct CUextMemory_st *memory = find(handle);
	struct sim_alloc *alloc;
	void *map;

	if (!ret || !memory || !desc || desc->flags || !desc->size ||
	    desc->offset > memory->bytes || desc->size > memory->bytes - desc->offset)
		return CUDA_ERROR_INVALID_VALUE;
	map = mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		   memory->fd, 0);
	if (map == MAP_FAILED)
		return CUDA_ERROR_MAP_FAILED;
	alloc = range_new((CUdeviceptr)(uintptr_t)map + desc->offset, desc->size, memory->bytes,
			  SIM_ALLOC_EXTERNAL);
	if (!alloc) {
		munmap(map, memory->bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	alloc->owner = map;
	alloc->device = memory->device;
	range_own(alloc, ctx);
	*ret = alloc->base;
	return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
					 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
	return SIM_CALL(cuExternalMemoryGetMappedBuffer, SIM_CTX | SIM_LOCK,
			get_buffer(call.ctx, devPtr, extMem, bufferDesc), "%p", (void *)extMem);
}

void sim_external_range_end(struct sim_alloc *alloc)
{
	munmap(alloc->owner, alloc->mapped_bytes);
	range_free(alloc);
}

static CUresult destroy(CUexternalMemory handle)
{
	struct CUextMemory_st *memory = find(handle);

	if (!memory)
		return CUDA_ERROR_INVALID_HANDLE;
	if (memory->share_id)
		(void)sim_state_close_share(sim.state, memory->share_id);
	list_del(&memory->node);
	close(memory->fd);
	free(memory);
	return CUDA_SUCCESS;
}

CUresult cuDestroyExternalMemory(CUexternalMemory extMem)
{
	return SIM_CALL(cuDestroyExternalMemory, SIM_CTX | SIM_LOCK, destroy(extMem), "%p",
			(void *)extMem);
}

/* Semaphores are made by graphics APIs, of which there is none. */

static CUresult import_semaphore(CUexternalSemaphore *ret,
				 const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc)
{
	if (!ret || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	return desc->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD ? CUDA_ERROR_UNKNOWN
									 : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuImportExternalSemaphore(CUexternalSemaphore *extSem_out,
				   const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *semHandleDesc)
{
	return SIM_CALL(cuImportExternalSemaphore, SIM_CTX | SIM_LOCK,
			import_semaphore(extSem_out, semHandleDesc), "type=%d",
			semHandleDesc ? (int)semHandleDesc->type : -1);
}
