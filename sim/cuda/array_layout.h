// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_ARRAY_LAYOUT_H
#define SIM_CUDA_ARRAY_LAYOUT_H

/* What a descriptor of an array means: whether it may be, and how many bytes it takes. Pure. */

#include "sim/cuda/memory.h"

bool array_is_valid(const CUDA_ARRAY3D_DESCRIPTOR *d);

uint64_t array_element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d);

/** array_pitch_bytes - from row to row, as kept here */
uint64_t array_pitch_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d);

/** array_kept_bytes - of the rows as kept here; array_card_bytes - what the card would need */
uint64_t array_kept_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d);
uint64_t array_card_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d);

#endif
