// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_POOL_H
#define SIM_CUDA_POOL_H

/*
 * Stream-ordered pools: between pool.c (the memory), pool_api.c (the entry points) and pool_ipc.c
 * (pools of other processes). A pool is one range of addresses, backed by the card in units of
 * 32 MiB where something is or was allocated; what is backed is what it reserves and is charged. A
 * piece given back may be used again at once by the stream that gave it back, by others when the
 * work that was then queued there is done; its units go back to the card only after the host has
 * waited for that. Needs sim_lock().
 */

#include "sim/cuda/memory.h"

struct sim_pool {
	struct list node;          /* sim_device.pools, or host_pools */
	struct sim_device *device; /* NULL: host memory, never charged */
	CUmemPoolProps props;
	bool is_default, is_destroyed; /* destroyed: ends with its last allocation */
	int reuse[3];                  /* the three CU_MEMPOOL_ATTR_REUSE_… */
	uint64_t release_threshold_bytes;
	uint64_t reserved_bytes, reserved_high_bytes, used_bytes, used_high_bytes;
	uint64_t readers, writers; /* bit n: device n, beside its own */
	char *base;
	uint64_t bytes;         /* of the address range */
	unsigned char *backing; /* one a unit: is it backed? */
	struct list pieces;     /* by address, without gaps */
	int fd;                 /* of a pool that can be exported, or was imported; else -1 */
	uint64_t share_id;      /* sim/state/share.h; 0: neither exported nor opened */
	bool is_imported;       /* the exporter's memory: nothing is charged or backed here */
};

/* a part of the range that is allocated, or free */
struct pool_piece {
	struct list node;
	struct sim_pool *pool;
	char *base;
	uint64_t bytes;
	bool is_used, is_settled;     /* settled: the host has seen that its last use is over */
	uint64_t stream_id, ready_ns; /* of a free piece */
};

/** pool_new - NULL when there is no memory; @device NULL: of host memory */
struct sim_pool *pool_new(struct sim_device *device, const CUmemPoolProps *props);

/** pool_memfd - the memory of a pool that can be exported, or -errno (pool_ipc.c) */
int pool_memfd(const struct sim_pool *pool);

/** pool_import - the pool behind @fd, of another process or our own; NULL when it is none */
struct sim_pool *pool_import(struct sim_device *device, int fd, uint64_t bytes);

/** pool_is_known - a handle that the program may use */
bool pool_is_known(const struct sim_pool *pool);

/** pool_default, pool_host - made at the first use; NULL when there is no memory */
struct sim_pool *pool_default(struct sim_device *device);
struct sim_pool *pool_host(void);

/** pool_alloc - @stream_id: who may take pieces that are not ready */
CUresult pool_alloc(struct sim_pool *pool, size_t bytes, uint64_t stream_id, CUdeviceptr *ret);

/** pool_give_back - @ready_ns: when the work that may use it is done */
void pool_give_back(struct sim_alloc *alloc, uint64_t stream_id, uint64_t ready_ns);

/** pool_trim - release free units while at least @keep_bytes stay reserved */
void pool_trim(struct sim_pool *pool, uint64_t keep_bytes);

/** pool_end - destroy, at once or with the last allocation */
void pool_end(struct sim_pool *pool);

#endif
