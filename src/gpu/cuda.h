// SPDX-License-Identifier: Apache-2.0
#ifndef GPU_CUDA_H
#define GPU_CUDA_H

/*
 * The little of CUDA that allot itself calls: a context on one GPU, for as long as the process
 * lives.  Only a small program that may hang or die with the driver does that (allot-probe).
 */

#include <stdint.h>

struct err;

/**
 * gpu_cuda_context - make the primary context of a GPU, as a program's first call does
 * @driver_dir: the folder of libcuda.so.1; "" = the loader's choice
 * @uuid:       as nvidia-smi writes it: "GPU-…", "MIG-…"
 *
 * Sets CUDA_VISIBLE_DEVICES of this process.  Returns 0; -ENODEV, -ELIBBAD, -EBUSY when the GPU's
 * compute mode is not for everybody, -EIO when the driver refuses.  Once a process; may block for
 * as long as the driver does.
 */
int gpu_cuda_context(const char *driver_dir, const char *uuid, struct err *err);

#endif
