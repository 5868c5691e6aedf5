// SPDX-License-Identifier: Apache-2.0
#include "conform.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/cuda_names.h"

struct driver drv;

static void *handle;
static void *addresses[CU_SYM_COUNT];

void driver_open(const char *path)
{
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		fprintf(stderr, "conform: %s\n", dlerror());
		exit(3);
	}
	for (int i = 0; i < CU_SYM_COUNT; i++)
		addresses[i] = dlsym(handle, cuda_symbols[i].name);
#define CU_CALL(symbol, api, since, stream, params) \
	drv.symbol = (pfn_##symbol *)addresses[CU_SYM_##symbol];
#include "abi/cuda.def"
}

void *driver_symbol(const char *name)
{
	return dlsym(handle, name);
}

const char *driver_name_of(const void *address)
{
	if (!address)
		return "NULL";
	/* of two names of one address, the later: _v2 rather than the bare one */
	for (int i = CU_SYM_COUNT - 1; i >= 0; i--)
		if (addresses[i] == address)
			return cuda_symbols[i].name;
	return "?";
}

void driver_for_each(void (*each)(const char *name, const void *address))
{
	for (int i = 0; i < CU_SYM_COUNT; i++)
		each(cuda_symbols[i].name, addresses[i]);
}
