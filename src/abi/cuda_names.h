// SPDX-License-Identifier: Apache-2.0
#ifndef ABI_CUDA_NAMES_H
#define ABI_CUDA_NAMES_H

/*
 * The table of driver symbols as data: look-ups by exported name, by API name and version, and the
 * names of results. Everything here is constant: any thread may call at any time, also before
 * main() and in a signal handler; nothing allocates and nothing is freed.
 */

#include <stdbool.h>

#include "abi/cuda_proto.h"

enum cuda_stream_kind {
	CUDA_STREAM_LEGACY,
	CUDA_STREAM_PER_THREAD,
};

/*
 * Arrays and not pointers: a pointer in constant data is work for the dynamic linker at the start
 * of every program that is to meet the library, and a page of memory that it cannot share.
 */
#define CUDA_NAME_MAX 56

struct cuda_symbol {
	char name[CUDA_NAME_MAX];
	char api[CUDA_NAME_MAX]; /* what cuGetProcAddress takes */
	int since;               /* CUDA version of this variant, 3020 = 3.2; 0: not known */
	enum cuda_stream_kind stream;
};

/* indexed by enum cuda_sym */
extern const struct cuda_symbol cuda_symbols[CU_SYM_COUNT];

/** cuda_symbol_find - the slot of the exported symbol @name, or -1 */
int cuda_symbol_find(const char *name);

/**
 * cuda_symbol_for - the slot that cuGetProcAddress would choose for @api: its newest variant not
 * newer than CUDA @version, per-thread if @stream asks for that and there is one; or -1.
 */
int cuda_symbol_for(const char *api, int version, enum cuda_stream_kind stream);

/** cuda_api_is_known - whether any symbol has this API name, whatever its version */
bool cuda_api_is_known(const char *api);

/** cuda_result_name - "CUDA_ERROR_OUT_OF_MEMORY" and so on; NULL for a number that is none */
const char *cuda_result_name(CUresult result);

#endif
