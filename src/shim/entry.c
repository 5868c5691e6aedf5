// SPDX-License-Identifier: Apache-2.0
#include "shim/entry.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/str.h"
#include "shim/driver_search.h"
#include "shim/elf_find.h"
#include "shim/env.h"
#include "shim/say.h"

/* 0 not tried, 1 open, or what the last attempt ended with, -errno */
static _Atomic int entry_state;

/* this thread is opening the driver */
static _Thread_local bool entry_opening __attribute__((tls_model("initial-exec")));

/* an attempt to open the driver; on the stack of the thread that makes it */
struct attempt {
	struct link_map *map;
	char path[PATH_MAX]; /* the last candidate that could not be opened */
	char reason[256];    /* why */
};

__attribute__((weak)) const char *shim_driver_dir(void)
{
	return NULL;
}

/* Is @map a copy of ours (of another version, or under another name)? Drivers export no dlopen. */
static bool is_one_of_us(const struct link_map *map)
{
	return map == elf_map_of(&entry_lib) || elf_find(map, "dlopen");
}

static int try_open(const char *path, void *arg)
{
	struct attempt *attempt = arg;
	struct link_map *map = NULL;
	const char *text;
	void *handle;

	/* dlmopen and the base namespace: dlopen by full path, past every redirection of dlopen */
	handle = dlmopen(LM_ID_BASE, path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		text = dlerror();
		(void)str_copy(attempt->path, sizeof(attempt->path), path);
		(void)str_copy(attempt->reason, sizeof(attempt->reason), text ? text : "unknown");
		return 0;
	}
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || is_one_of_us(map)) {
		(void)dlclose(handle); /* only a count: it cannot fail for a valid handle */
		return 0;
	}
	say_debug("the driver is %s", path);
	attempt->map = map;
	return 1;
}

/* A symbol the library itself lacks: a wrapper may have it from a library that it needs. */
static void *find_in_needed(struct link_map *map, const char *name, bool *failed)
{
	void *found = dlsym(map, name);

	if (!found)
		*failed = true;
	else if (elf_map_of(found) == elf_map_of(&entry_lib))
		return NULL; /* it needs libcuda.so.1, which is us */
	return found;
}

static void fill(struct link_map *map)
{
	bool failed = false;

	for (unsigned slot = 0; slot < entry_lib.count; slot++) {
		const char *name = entry_lib.name(slot);
		void *function = elf_find(map, name);

		if (!function)
			function = find_in_needed(map, name, &failed);
		if (!function)
			function = entry_lib.missing;
		__atomic_store_n(&entry_real[slot], function, __ATOMIC_RELEASE);
	}
	if (failed)
		(void)dlerror(); /* the host did not ask for these names */
}

static int open_driver(void)
{
	static bool said;
	struct attempt attempt = { 0 };
	struct driver_search search = {
		.soname = entry_lib.soname,
		.dir = shim_driver_dir(),
		.self = env_self(),
		.cache = "/etc/ld.so.cache",
	};

	if (driver_search_run(&search, try_open, &attempt) > 0) {
		fill(attempt.map);
		if (entry_lib.loaded)
			entry_lib.loaded();
		return 0;
	}
	if (attempt.path[0]) {
		say_once(&said, "cannot open the driver %s: %s", attempt.path, attempt.reason);
		return -ELIBBAD;
	}
	say_once(&said, "no NVIDIA driver: %s is not in %s", entry_lib.soname, search.looked);
	return -ENOENT;
}

int entry_load(void)
{
	int saved_errno = errno, cancel, result;

	if (entry_is_loaded())
		return 0;
	if (entry_opening)
		return -EALREADY;
	entry_opening = true;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* cannot fail */
	result = open_driver();
	(void)pthread_setcancelstate(cancel, NULL);
	entry_opening = false;
	if (result == 0)
		atomic_store_explicit(&entry_state, 1, memory_order_release);
	else if (!entry_is_loaded())
		atomic_store_explicit(&entry_state, result, memory_order_release);
	errno = saved_errno;
	return result;
}

bool entry_is_loaded(void)
{
	return atomic_load_explicit(&entry_state, memory_order_acquire) == 1;
}

bool entry_has(unsigned slot)
{
	return entry_is_loaded() && entry_real[slot] != entry_lib.missing;
}

void *entry_resolve(unsigned slot)
{
	int state = atomic_load_explicit(&entry_state, memory_order_acquire);
	void *instead = NULL;
	int result;

	if (state < 0 && slot != entry_lib.retry)
		return entry_lib.no_driver(slot, state);
	result = entry_load();
	if (result < 0)
		return entry_lib.no_driver(slot, result);
	if (entry_lib.gate)
		instead = entry_lib.gate(slot);
	return instead ? instead : __atomic_load_n(&entry_real[slot], __ATOMIC_ACQUIRE);
}
