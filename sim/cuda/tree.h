// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_TREE_H
#define SIM_CUDA_TREE_H

/* Ranges of addresses that do not overlap, ordered: a treap over struct sim_alloc. */

#include "sim/cuda/memory.h"

void tree_insert(struct sim_alloc **root, struct sim_alloc *alloc);
void tree_remove(struct sim_alloc **root, struct sim_alloc *alloc);

/** tree_find - the range that contains @at (its mapped bytes), or NULL */
struct sim_alloc *tree_find(struct sim_alloc *root, CUdeviceptr at);

/** tree_next - the first range that begins at @at or behind it, or NULL */
struct sim_alloc *tree_next(struct sim_alloc *root, CUdeviceptr at);

#endif
