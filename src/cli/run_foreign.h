// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_RUN_FOREIGN_H
#define CLI_RUN_FOREIGN_H

/*
 * Limits in the words of HAMi and KAI, taken as --vram: CUDA_DEVICE_MEMORY_LIMIT for every GPU of
 * the job, CUDA_DEVICE_MEMORY_LIMIT_0, _1, … for its first, second, …  They write "3000m" or "8g",
 * powers of 1024; a bare number is bytes.  A job has one amount on all its GPUs: where they differ
 * it is refused, as is what cannot be read.
 */

#include "wire/wire.h"

struct err;

/**
 * run_foreign_vram - what these variables ask for
 * @m: its n_gpus and gpu are known; its request and limit are set when there is such a variable
 * Returns 0, or -errno with the variable and its value in @err.
 */
int run_foreign_vram(struct wire_run *m, struct err *err);

#endif
