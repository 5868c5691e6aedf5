// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/graph.h"
#include "sim/cuda/ranges.h"
#include "sim/cuda/va.h"

/*
 * What the graphs of this process hold of a device.  As measured on the card: it is reserved in
 * chunks of 32 MiB, and what was mapped for a launch counts as used until a trim takes it away, so
 * the two figures that programs can ask for are the same.
 */
struct holding {
	uint64_t live_bytes; /* allocated by launches and not freed */
	uint64_t reserved_bytes;
	uint64_t used_high_bytes, reserved_high_bytes;
};

#define CHUNK_BYTES ((uint64_t)32 << 20)

static struct holding holdings[SIM_DEVICES_MAX]; /* by sim_device.ordinal */
static struct list mems = { &mems, &mems };

static struct holding *holding_of(const struct graph_mem *mem)
{
	return &holdings[mem->alloc->device->ordinal];
}

CUresult graph_mem_new(CUcontext ctx, CUDA_MEM_ALLOC_NODE_PARAMS *params, struct graph_mem **ret)
{
	struct sim_device *device = sim_device(params->poolProps.location.id);
	uint64_t bytes = size_round_up(params->bytesize, SIM_PAGE_BYTES);
	struct graph_mem *mem;
	void *base;

	if (!params->bytesize || params->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE || !device)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > device->info->memory_bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mem = calloc(1, sizeof(*mem));
	base = mem ? va_map(bytes) : NULL;
	if (base)
		mem->alloc = range_new((CUdeviceptr)(uintptr_t)base, params->bytesize, bytes,
				       SIM_ALLOC_GRAPH);
	if (!base || !mem->alloc) {
		if (base)
			va_unmap(base, bytes);
		free(mem);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	mem->refs = 1;
	mem->ctx = ctx;
	mem->bytes = bytes;
	mem->alloc->device = device;
	mem->alloc->owner = mem;
	list_append(&mems, &mem->node);
	params->dptr = mem->alloc->base;
	*ret = mem;
	return CUDA_SUCCESS;
}

struct graph_mem *graph_mem_ref(struct graph_mem *mem)
{
	mem->refs++;
	return mem;
}

static void end_if_unused(struct graph_mem *mem)
{
	if (mem->refs || mem->in_use)
		return;
	va_unmap((void *)(uintptr_t)mem->alloc->base, mem->bytes);
	range_free(mem->alloc);
	list_del(&mem->node);
	free(mem);
}

void graph_mem_unref(struct graph_mem *mem)
{
	if (!mem)
		return;
	mem->refs--;
	end_if_unused(mem);
}

struct graph_mem *graph_mem_find(CUdeviceptr ptr)
{
	struct sim_alloc *alloc = sim_alloc_find(ptr);

	return alloc && alloc->kind == SIM_ALLOC_GRAPH && alloc->base == ptr ? alloc->owner : NULL;
}

void graph_mem_use(struct graph_mem *mem)
{
	struct holding *holding = holding_of(mem);

	if (mem->in_use)
		return;
	mem->in_use = true;
	holding->live_bytes += mem->bytes;
}

static void mem_free(struct graph_mem *mem)
{
	if (!mem->in_use)
		return;
	mem->in_use = false;
	holding_of(mem)->live_bytes -= mem->bytes;
	end_if_unused(mem);
}

void graph_mem_release(CUdeviceptr ptr)
{
	struct graph_mem *mem = graph_mem_find(ptr);

	if (mem)
		mem_free(mem);
}

void graph_mem_mark_free(CUdeviceptr ptr, bool has_free_node)
{
	struct graph_mem *mem = graph_mem_find(ptr);

	if (mem)
		mem->has_free_node = has_free_node;
}

CUresult sim_exec_graph_free(struct sim_alloc *alloc)
{
	struct graph_mem *mem = alloc->owner;

	if (!mem->in_use)
		return CUDA_ERROR_INVALID_VALUE;
	mem_free(mem);
	return CUDA_SUCCESS;
}

bool sim_exec_graph_is_used(const struct sim_alloc *alloc)
{
	return ((const struct graph_mem *)alloc->owner)->in_use;
}

/* let at least @bytes be reserved */
static CUresult reserve(struct sim_device *device, uint64_t bytes)
{
	struct holding *holding = &holdings[device->ordinal];
	CUresult r;

	bytes = size_round_up(bytes, CHUNK_BYTES);
	if (bytes <= holding->reserved_bytes)
		return CUDA_SUCCESS;
	r = sim_charge(device, SIM_USE_GRAPH, bytes - holding->reserved_bytes);
	if (r != CUDA_SUCCESS)
		return r;
	holding->reserved_bytes = bytes;
	holding->used_high_bytes = size_max(holding->used_high_bytes, bytes);
	holding->reserved_high_bytes = size_max(holding->reserved_high_bytes, bytes);
	return CUDA_SUCCESS;
}

/* physical memory on one device for what a launch of @exec has there at most */
static CUresult prepare_on(struct sim_device *device, CUgraphExec exec)
{
	uint64_t now_bytes = holdings[device->ordinal].live_bytes, most_bytes = now_bytes;

	for (unsigned i = 0; i < exec->count; i++) {
		const struct op *op = &exec->nodes[i].op;
		const struct graph_mem *freed;

		if (op->kind == OP_ALLOC && op->alloc.mem->alloc->device == device) {
			now_bytes += op->alloc.mem->bytes;
			most_bytes = size_max(most_bytes, now_bytes);
		} else if (op->kind == OP_FREE) {
			freed = graph_mem_find(op->free);
			if (freed && freed->alloc->device == device)
				now_bytes = size_sat_sub(now_bytes, freed->bytes);
		}
	}
	return reserve(device, most_bytes);
}

CUresult graph_mem_prepare(CUgraphExec exec)
{
	CUresult r = CUDA_SUCCESS;

	if (!exec->has_memory)
		return CUDA_SUCCESS;
	for (unsigned i = 0; i < exec->count; i++) {
		struct op *op = &exec->nodes[i].op;

		if (op->kind != OP_ALLOC || !op->alloc.mem->in_use)
			continue;
		if (!(exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
			return CUDA_ERROR_INVALID_VALUE;
		mem_free(op->alloc.mem);
	}
	for (unsigned i = 0; r == CUDA_SUCCESS && i < sim.device_count; i++)
		r = prepare_on(&sim.devices[i], exec);
	return r;
}

void graph_ctx_fini(CUcontext ctx)
{
	struct graph_mem *mem, *tmp;

	list_for_each_safe (mem, tmp, &mems, node) {
		if (mem->ctx == ctx)
			mem_free(mem);
	}
}

/* give back what is not in use */
static CUresult trim(CUdevice ordinal)
{
	struct sim_device *device = sim_device(ordinal);
	struct holding *holding;
	uint64_t keep_bytes;

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	holding = &holdings[ordinal];
	keep_bytes = size_round_up(holding->live_bytes, CHUNK_BYTES);
	sim_uncharge(device, SIM_USE_GRAPH, size_sat_sub(holding->reserved_bytes, keep_bytes));
	holding->reserved_bytes = size_min(holding->reserved_bytes, keep_bytes);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	return SIM_CALL(cuDeviceGraphMemTrim, SIM_LOCK, trim(device), "%d", device);
}

static CUresult get_attr(CUdevice ordinal, CUgraphMem_attribute attr, void *ret)
{
	const struct holding *holding;
	cuuint64_t value;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	holding = &holdings[ordinal];
	switch (attr) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		value = holding->used_high_bytes;
		break;
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		value = holding->reserved_bytes;
		break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		value = holding->reserved_high_bytes;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	memcpy(ret, &value, sizeof(value));
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	return SIM_CALL(cuDeviceGetGraphMemAttribute, SIM_LOCK, get_attr(device, attr, value),
			"%d, %d, %p", device, (int)attr, value);
}

/* only the high-water marks can be set, and only to zero, which means: start again from now
 */
static CUresult set_attr(CUdevice ordinal, CUgraphMem_attribute attr, const void *value)
{
	struct holding *holding;
	cuuint64_t wanted;

	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	memcpy(&wanted, value, sizeof(wanted));
	holding = &holdings[ordinal];
	if (wanted)
		return CUDA_ERROR_INVALID_VALUE;
	if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		holding->used_high_bytes = holding->reserved_bytes;
	else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		holding->reserved_high_bytes = holding->reserved_bytes;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	return SIM_CALL(cuDeviceSetGraphMemAttribute, SIM_LOCK, set_attr(device, attr, value),
			"%d, %d, %p", device, (int)attr, value);
}
