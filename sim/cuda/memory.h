// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_MEMORY_H
#define SIM_CUDA_MEMORY_H

/*
 * Device memory. A device pointer is a real address of this process: the same number serves as
 * CUdeviceptr and as host pointer, so copies and "kernels" simply touch it. Mappings are lazy
 * (NORESERVE), so that a card of 141 GiB needs no more RAM than what is written.
 *
 * Every range that the driver knows is one struct sim_alloc in one tree, ordered by address and
 * not overlapping. VMM reservations are ranges too; what is mapped into one is looked up behind it
 * (sim_ptr_find does both). Everything here needs sim_lock().
 */

#include "sim/cuda/sim.h"

enum sim_alloc_kind {
	SIM_ALLOC_DEVICE, /* cuMemAlloc and the like */
	SIM_ALLOC_MANAGED,
	SIM_ALLOC_HOST, /* cuMemHostAlloc */
	SIM_ALLOC_REGISTERED,
	SIM_ALLOC_POOL,     /* stream-ordered */
	SIM_ALLOC_GRAPH,    /* of a graph's allocation node */
	SIM_ALLOC_IPC,      /* another process's memory, opened here */
	SIM_ALLOC_EXTERNAL, /* a buffer of external memory */
	SIM_ALLOC_RESERVED, /* a VMM address range */
	SIM_ALLOC_MODULE,   /* a module's global */
	SIM_ALLOC_ARRAY,    /* behind a CUarray; no address for the program */
};

struct sim_block; /* the 2-MiB block of a small allocation */

struct sim_alloc {
	CUdeviceptr base;
	size_t bytes;        /* as asked: what cuMemGetAddressRange tells */
	size_t mapped_bytes; /* what lies behind it */
	enum sim_alloc_kind kind;
	unsigned flags;            /* of the call that made it */
	unsigned long long id;     /* BUFFER_ID, never reused */
	struct sim_device *device; /* whose memory; NULL for host memory */
	CUcontext ctx;             /* NULL: of no context (pools, VMM) */
	struct list ctx_node;      /* CUctx_st.allocs */
	uint64_t charged_bytes;    /* in the shared state, by this allocation itself */
	uint8_t *resident;         /* MANAGED: a bit for each page that lies on the card */
	enum sim_use use;
	struct sim_block *block;    /* small allocations */
	struct sim_pool *pool;      /* SIM_ALLOC_POOL */
	void *owner;                /* GRAPH, MODULE, IPC: of whoever made it */
	bool sync_memops, is_freed; /* is_freed: freed in stream order, address not yet reusable */
	struct sim_alloc *left, *right;
	uint32_t weight;
};

/* struct sim_ptr - where a device pointer points */
struct sim_ptr {
	struct sim_alloc *alloc;
	struct sim_device *device; /* NULL: host memory */
	CUcontext ctx;
	void *host;        /* where the bytes are */
	size_t rest_bytes; /* from here to the end of the range that can be used in one go */
	CUdeviceptr base;  /* of that range */
	size_t bytes;
	bool is_readable, is_writable; /* VMM: what cuMemSetAccess granted to anybody */
	uint64_t readers, writers;     /* VMM: … to whom; bit n: device n */
	unsigned handle_types;         /* VMM: what it can be exported as */
};

/** sim_ptr_find - false when @ptr is no address of the driver's, or a hole in a reservation */
bool sim_ptr_find(CUdeviceptr ptr, struct sim_ptr *ret);

/**
 * sim_ptr_check - may @bytes at @ptr be read (and written if @is_write)?
 * CUDA_SUCCESS; INVALID_VALUE when some of it is no memory of the driver's or not mapped or not
 * accessible. VMM ranges may span several mappings.
 */
CUresult sim_ptr_check(CUdeviceptr ptr, size_t bytes, bool is_write);

/**
 * sim_ptr_reach - the same for a kernel of @ctx, which reaches the memory of other devices only
 * where access was given: by cuCtxEnablePeerAccess, to the pool, to the mapping
 */
CUresult sim_ptr_reach(CUcontext ctx, CUdeviceptr ptr, size_t bytes, bool is_write);

/**
 * sim_managed_touch - the GPU touches @bytes at @offset of managed memory: they come to the card
 * As far as there is room; else the GPU reads them over the bus.  They stay when the host touches
 * them (as measured: that moves nothing out of NVML's figure).
 */
void sim_managed_touch(struct sim_alloc *alloc, uint64_t offset, size_t bytes);

/**
 * sim_alloc_new - device memory for @bytes, charged in whole pages
 * @use: how it is counted; @kind: how it may be freed
 * OUT_OF_MEMORY when the card or the process is full.
 */
CUresult sim_alloc_new(CUcontext ctx, size_t bytes, enum sim_alloc_kind kind, enum sim_use use,
		       struct sim_alloc **ret);

/** sim_alloc_free - unmap, uncharge, forget; NULL allowed */
void sim_alloc_free(struct sim_alloc *alloc);

/** sim_alloc_find - the range that contains @ptr, or NULL */
struct sim_alloc *sim_alloc_find(CUdeviceptr ptr);

/** sim_charge, sim_uncharge - account without a mapping (contexts, streams, modules) */
CUresult sim_charge(struct sim_device *device, enum sim_use use, uint64_t bytes);
void sim_uncharge(struct sim_device *device, enum sim_use use, uint64_t bytes);

/** sim_uncharge_moved - it is another process's now (sim/state/share.h) */
void sim_uncharge_moved(struct sim_device *device, enum sim_use use, uint64_t bytes);

/** sim_pool_sync_point - after the host waited for work: pools shrink to their threshold */
void sim_pool_sync_point(struct sim_device *device);

/**
 * sim_array_view - the bytes of an array for copies
 * @ret_pitch, @ret_rows: bytes from row to row, and rows from layer to layer
 */
struct sim_array_view {
	void *host;
	struct sim_device *device;
	size_t pitch_bytes, row_bytes, rows, layers, element_bytes;
};

/** sim_format_bytes - of one channel; for packed formats of the whole element; 0: not simulated */
unsigned sim_format_bytes(CUarray_format format);

CUresult sim_array_view(CUarray array, struct sim_array_view *ret);

#endif
