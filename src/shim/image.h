// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_IMAGE_H
#define SHIM_IMAGE_H

/*
 * How much of the card do the variables of a module image take?  (__device__ arrays; code is small)
 *
 * The forms: a cubin (ELF: sections .nv.global*), a fat binary (0xBA55ED50, or its wrapper
 * 0x466243B1) of such, and PTX text (.global declarations).  Compressed parts of a fat binary are
 * not looked into: they count as nothing, and what they take is seen afterwards.  Of several parts
 * the driver loads one, so the largest counts.  Variables below 1 MiB together are left to NVML.
 *
 * The image is the program's, without a length and perhaps not there: it is read through
 * process_vm_readv, which fails where a load would crash.  Bounded: 64 MiB of text, 65 535
 * sections, 256 parts.  What cannot be read counts as nothing; the driver says what is wrong with
 * it.  Facts about the fat binary: NVIDIA's fatbinary_section.h for the wrapper, and the headers of
 * files that nvcc 13.0 writes.
 *
 * Any thread, no malloc, errno is kept.
 */

#include <stdint.h>

/** image_bytes - of the variables of the image at @image; saturates */
uint64_t image_bytes(const void *image);

/** image_file_bytes - of the image in the file @path; 0 when it cannot be read */
uint64_t image_file_bytes(const char *path);

#endif
