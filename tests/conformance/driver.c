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

/* what allot's shim replaces: such a function must never be handed out behind its back */
static bool is_hooked(int i)
{
	switch (i) {
#define CU_PASS(symbol, api, since, stream)
#define CU_CALL(symbol, api, since, stream, params)
#define CU_HOOK(symbol, api, since, stream, params) \
	case CU_SYM_##symbol:                       \
		return true;
#include "abi/cuda.def"
	default:
		return false;
	}
}

/* the library that the one under test stands in front of, if it does: the other mapped libcuda */
static void *library_behind(void)
{
	static void *behind;
	FILE *maps = behind ? NULL : fopen("/proc/self/maps", "re");
	char line[4096];

	while (maps && !behind && fgets(line, sizeof(line), maps)) {
		char *path = strchr(line, '/'), *name = path ? strrchr(path, '/') + 1 : NULL;
		void *lib;

		if (!name || strncmp(name, "libcuda.so", 10) != 0)
			continue;
		path[strcspn(path, "\n")] = '\0';
		lib = dlmopen(LM_ID_BASE, path, RTLD_NOW | RTLD_LOCAL);
		if (lib && dlsym(lib, "cuInit") != addresses[CU_SYM_cuInit])
			behind = lib;
	}
	if (maps)
		(void)fclose(maps);
	return behind;
}

/* through a shim, what it does not replace is the driver's own function: the same name */
static const char *name_behind(const void *address)
{
	static char unhooked[96];
	void *lib = library_behind();

	for (int i = CU_SYM_COUNT - 1; lib && i >= 0; i--) {
		if (dlsym(lib, cuda_symbols[i].name) != address)
			continue;
		if (!is_hooked(i))
			return cuda_symbols[i].name;
		(void)snprintf(unhooked, sizeof(unhooked), "%s-UNHOOKED", cuda_symbols[i].name);
		return unhooked;
	}
	return "?";
}

const char *driver_name_of(const void *address)
{
	if (!address)
		return "NULL";
	/* of two names of one address, the later: _v2 rather than the bare one */
	for (int i = CU_SYM_COUNT - 1; i >= 0; i--)
		if (addresses[i] == address)
			return cuda_symbols[i].name;
	return name_behind(address);
}

void driver_for_each(void (*each)(const char *name, const void *address))
{
	for (int i = 0; i < CU_SYM_COUNT; i++)
		each(cuda_symbols[i].name, addresses[i]);
}
