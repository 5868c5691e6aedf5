// SPDX-License-Identifier: Apache-2.0
/* Error texts, version, limits, profiler, export tables: what needs no memory. */
#include "conform.h"

#include <string.h>

static void error_names(void)
{
	char text[40];
	for (int e = 0; e <= 1000; e++) {
		POISONED(const char *, name);
		CUresult r = QUIET(cuGetErrorName, (CUresult)e, &name);
		if (r == CUDA_ERROR_INVALID_VALUE && !name)
			continue; /* the many that are none */
		out_flush();
		out_append("%d → %s", e, result_text(r, text));
		STR(name);
	}
}

static void error_strings(void)
{
	char text[40];
	for (int e = 0; e <= 1000; e++) {
		POISONED(const char *, string);
		CUresult r = QUIET(cuGetErrorString, (CUresult)e, &string);
		if (r == CUDA_ERROR_INVALID_VALUE && !string)
			continue;
		out_flush();
		out_append("%d → %s", e, result_text(r, text));
		STR(string);
	}
}

static void error_edges(void)
{
	POISONED(const char *, text);
	CALL(cuGetErrorName, (CUresult)12345, &text);
	STR(text);
	text = (const char *)(uintptr_t)POISON_64;
	CALL(cuGetErrorName, (CUresult)-1, &text);
	STR(text);
	CALL(cuGetErrorName, CUDA_SUCCESS, NULL);
	text = (const char *)(uintptr_t)POISON_64;
	CALL(cuGetErrorString, (CUresult)12345, &text);
	STR(text);
	CALL(cuGetErrorString, CUDA_SUCCESS, NULL);
}

static void version(void)
{
	POISONED_INT(v);
	CALL(cuDriverGetVersion, &v);
	INT(v);
	CALL(cuDriverGetVersion, NULL);
}

static void export_table(void)
{
	POISONED(const void *, table);
	CUuuid unknown;
	memset(&unknown, 0x77, sizeof(unknown));
	CALL(cuGetExportTable, &table, &unknown);
	PTR(table);
	CALL(cuGetExportTable, NULL, &unknown);
	CALL(cuGetExportTable, &table, NULL);
}

static void limits_get(void)
{
	char text[40];
	for (int limit = 0; limit <= 12; limit++) {
		POISONED_SIZE(value);
		CUresult r = QUIET(cuCtxGetLimit, &value, (CUlimit)limit);
		out_flush();
		out_append("limit %d → %s", limit, result_text(r, text));
		SIZE(value);
	}
	CALL(cuCtxGetLimit, NULL, CU_LIMIT_STACK_SIZE);
}

static void limits_set(void)
{
	POISONED_SIZE(value);
	CALL(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 2048);
	CALL(cuCtxGetLimit, &value, CU_LIMIT_STACK_SIZE);
	SIZE(value);
	CALL(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 1000);
	CALL(cuCtxGetLimit, &value, CU_LIMIT_STACK_SIZE);
	SIZE(value);
	CALL(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 1024);
	CALL(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, (size_t)1 << 40);
	CALL(cuCtxGetLimit, &value, CU_LIMIT_STACK_SIZE);
	SIZE(value);
	CALL(cuCtxSetLimit, CU_LIMIT_PRINTF_FIFO_SIZE, 2 * MIB);
	CALL(cuCtxGetLimit, &value, CU_LIMIT_PRINTF_FIFO_SIZE);
	SIZE(value);
	CALL(cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB);
	CALL(cuCtxGetLimit, &value, CU_LIMIT_MALLOC_HEAP_SIZE);
	SIZE(value);
	CALL(cuCtxSetLimit, (CUlimit)99, 1);
	CALL(cuCtxSetLimit, (CUlimit)-1, 1);
}

static void cache_config(void)
{
	CUfunc_cache cache = (CUfunc_cache)POISON_32;
	CUsharedconfig shared = (CUsharedconfig)POISON_32;
	CALL(cuCtxGetCacheConfig, &cache);
	INT(cache);
	CALL(cuCtxGetCacheConfig, NULL);
	CALL(cuCtxSetCacheConfig, CU_FUNC_CACHE_PREFER_L1);
	CALL(cuCtxGetCacheConfig, &cache);
	INT(cache);
	CALL(cuCtxSetCacheConfig, (CUfunc_cache)9);
	CALL(cuCtxSetCacheConfig, CU_FUNC_CACHE_PREFER_NONE);
	CALL(cuCtxGetSharedMemConfig, &shared);
	INT(shared);
	CALL(cuCtxGetSharedMemConfig, NULL);
	CALL(cuCtxSetSharedMemConfig, CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE);
	CALL(cuCtxResetPersistingL2Cache);
}

static void coredump(void)
{
	char text[256] = "";
	bool enabled = true;
	size_t size = sizeof(enabled);
	CALL(cuCoredumpGetAttribute, CU_COREDUMP_ENABLE_ON_EXCEPTION, &enabled, &size);
	INT(enabled);
	SIZE(size);
	CALL(cuCoredumpGetAttributeGlobal, CU_COREDUMP_ENABLE_ON_EXCEPTION, &enabled, &size);
	CALL(cuCoredumpGetAttribute, CU_COREDUMP_ENABLE_ON_EXCEPTION, NULL, NULL);
	size = sizeof(text);
	CALL(cuCoredumpGetAttributeGlobal, CU_COREDUMP_FILE, text, &size);
}

static void user_object(void)
{
	POISONED(CUuserObject, object);
	static int target;
	CALL(cuUserObjectCreate, &object, &target, NULL, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	HANDLE(object);
	CALL(cuUserObjectCreate, NULL, &target, NULL, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	CALL(cuUserObjectRetain, NULL, 1);
	CALL(cuUserObjectRelease, NULL, 1);
}

static int destroyed;

static void on_destroy(void *arg)
{
	*(int *)arg += 1;
}

static void user_object_life(void)
{
	POISONED(CUuserObject, object);
	CALL(cuUserObjectCreate, &object, &destroyed, on_destroy, 1,
	     CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	NEWHANDLE(object);
	CALL(cuUserObjectRetain, object, 2);
	CALL(cuUserObjectRetain, object, 0);
	CALL(cuUserObjectRelease, object, 2);
	INT(destroyed);
	CALL(cuUserObjectRelease, object, 0);
	CALL(cuUserObjectRelease, object, 1);
	INT(destroyed);
	CALL(cuUserObjectCreate, &object, &destroyed, on_destroy, 1, 0);
	CALL(cuUserObjectCreate, &object, &destroyed, on_destroy, 0,
	     CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
}

FAMILY(misc, { "misc", "misc.error-names", 0, error_names },
       { "misc", "misc.error-strings", 0, error_strings },
       { "misc", "misc.error-edges", 0, error_edges }, { "misc", "misc.version", 0, version },
       { "misc", "misc.export-table", INIT, export_table },
       { "misc", "misc.user-object-errors", INIT, user_object },
       { "misc", "misc.user-object-life", INIT, user_object_life },
       { "misc", "misc.limits-get", CTX, limits_get },
       { "misc", "misc.limits-set", CTX, limits_set },
       { "misc", "misc.cache-config", CTX, cache_config },
       { "misc", "misc.coredump", CTX, coredump }, );
