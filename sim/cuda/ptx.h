// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_PTX_H
#define SIM_CUDA_PTX_H

/*
 * What a module image offers: the entries with their parameters and the global variables.  Of PTX
 * text the declarations are read; of an instruction only whether there is one of that name. Machine
 * code (ELF of a GPU, fat binaries) is taken as it comes: its table of names may be compressed, so
 * it is "opaque" and offers any name.
 *
 * An image owns everything it points to.  Pure functions of their arguments; any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_PARAMS_MAX 1024

struct ptx_param {
	uint32_t offset, size;
};

struct ptx_entry {
	char *name;
	struct ptx_param *params;
	unsigned param_count;
	uint32_t param_bytes;
	uint32_t max_threads; /* .maxntid; 0: not stated */
	uint32_t shared_bytes;
};

struct ptx_global {
	char *name;
	uint64_t bytes;
	unsigned char *initial; /* what it begins with; NULL: zeros */
	bool managed;
	bool constant;
};

struct ptx_image {
	bool opaque;
	unsigned ptx_version; /* 70 is 7.0; 0 for machine code */
	unsigned target;      /* 70 is sm_70 */
	struct ptx_entry *entries;
	unsigned entry_count;
	struct ptx_global *globals;
	unsigned global_count;
	uint64_t const_bytes; /* all constants together */
};

/**
 * ptx_image_read - read @code (NUL-terminated text, or bytes that begin with a known magic)
 *
 * Returns 0; -ENOEXEC: neither PTX nor a known binary; -EBADMSG: PTX with an error in it;
 * -EPROTONOSUPPORT: PTX of a later version; -ENOMEM.
 */
int ptx_image_read(const void *code, struct ptx_image *ret);

/** ptx_image_fini - free what it owns; a zeroed one is fine */
void ptx_image_fini(struct ptx_image *image);

#endif
