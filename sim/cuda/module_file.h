// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_MODULE_FILE_H
#define SIM_CUDA_MODULE_FILE_H

/* Module images in files. */

#include "abi/cuda_types.h"

/**
 * module_file_read - the whole file, on the heap, with zeros behind it
 * FILE_NOT_FOUND; INVALID_IMAGE for what is no regular file or absurdly large.  Any thread.
 */
CUresult module_file_read(const char *path, void **ret);

#endif
