// SPDX-License-Identifier: Apache-2.0
#include "shim/driver_search.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "shim/ld_cache.h"

#define HWCAPS_MAX 4

/* a search under way */
struct walk {
	struct driver_search *search;
	int (*visit)(const char *path, void *arg);
	void *arg;
	const char *hwcaps[HWCAPS_MAX]; /* glibc-hwcaps folders for this processor, best first */
	char self_dir[PATH_MAX];        /* where our libraries lie, resolved; "" if among others */
	struct stat self;
	bool knows_self;
};

/* the path by which the program asked for the driver; 0 free, 1 being written, 2 there */
static _Atomic int hint_state;
static char hint[PATH_MAX];

#if defined(__x86_64__)
/*
 * The levels of the x86-64 psABI that glibc looks for, by features that only they have together
 * (processors and hypervisors do not leave out the lesser ones). By cpuid itself, and only when
 * the driver is searched: __builtin_cpu_supports brings a constructor along, and in a virtual
 * machine each cpuid costs every program that is started tens of microseconds.
 */
static void find_hwcaps(const char *ret[HWCAPS_MAX])
{
	unsigned a, b, c, d, features = 0, more = 0;
	int n = 0;

	if (__get_cpuid(1, &a, &b, &c, &d))
		features = c;
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
		more = b;
	if (!(features & bit_OSXSAVE)) /* the system does not keep the wide registers */
		more = 0;
	if ((more & bit_AVX512F) && (more & bit_AVX512BW) && (more & bit_AVX512VL))
		ret[n++] = "x86-64-v4";
	if ((more & bit_AVX2) && (more & bit_BMI2) && (features & bit_FMA))
		ret[n++] = "x86-64-v3";
	if ((features & bit_SSE4_2) && (features & bit_POPCNT))
		ret[n++] = "x86-64-v2";
	ret[n] = NULL;
}
#else
static void find_hwcaps(const char *ret[HWCAPS_MAX])
{
	ret[0] = NULL;
}
#endif

static void note_looked(struct walk *walk, const char *where)
{
	char *looked = walk->search->looked;
	size_t len = strlen(looked), room = sizeof(walk->search->looked) - len;

	(void)str_print(looked + len, room, "%s%s", len ? ", " : "", where); /* cut is fine */
}

static bool dir_of(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash)
		return false;
	slash[slash == path ? 1 : 0] = '\0';
	return true;
}

static void know_self(struct walk *walk)
{
	const char *self = walk->search->self, *base;
	char resolved[PATH_MAX];

	if (!self || !self[0] || stat(self, &walk->self) != 0)
		return;
	walk->knows_self = true;
	/* mounted in the driver's place we lie among the system's libraries: those are no strangers
	 */
	if (!realpath(self, resolved))
		return;
	base = strrchr(resolved, '/') + 1;
	if (str_starts_with(base, "liballot-") && dir_of(resolved))
		(void)str_copy(walk->self_dir, sizeof(walk->self_dir), resolved);
}

/* Is @path us, another version of us, or anything else in the folder of our libraries? */
static bool is_ours(const struct walk *walk, const char *path, const struct stat *st)
{
	char resolved[PATH_MAX], *base;

	if (walk->knows_self && st->st_dev == walk->self.st_dev && st->st_ino == walk->self.st_ino)
		return true;
	if (!realpath(path, resolved))
		return false;
	base = strrchr(resolved, '/') + 1;
	if (str_starts_with(base, "liballot-"))
		return true;
	return dir_of(resolved) && walk->self_dir[0] && strcmp(resolved, walk->self_dir) == 0;
}

static int offer(struct walk *walk, const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || is_ours(walk, path, &st))
		return 0;
	return walk->visit(path, walk->arg);
}

static int look_in_dir(struct walk *walk, const char *dir)
{
	char path[PATH_MAX];
	int result;

	for (int i = 0; walk->hwcaps[i]; i++) {
		if (str_print(path, sizeof(path), "%s/glibc-hwcaps/%s/%s", dir, walk->hwcaps[i],
			      walk->search->soname)) {
			result = offer(walk, path);
			if (result)
				return result;
		}
	}
	if (!str_print(path, sizeof(path), "%s/%s", dir, walk->search->soname))
		return 0;
	return offer(walk, path);
}

static int look_in_cache(struct walk *walk)
{
	AUTO_FD int fd = open(walk->search->cache, O_RDONLY | O_CLOEXEC);
	const char *path;
	struct stat st;
	void *cache;
	int result = 0;

	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size <= 0)
		return 0;
	cache = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (cache == MAP_FAILED)
		return 0;
	note_looked(walk, walk->search->cache);
	for (unsigned n = 0; result == 0; n++) {
		if (ld_cache_find(cache, (size_t)st.st_size, walk->search->soname, walk->hwcaps, n,
				  &path) < 0)
			break;
		result = offer(walk, path);
	}
	(void)munmap(cache, (size_t)st.st_size);
	return result;
}

static bool is_default_dir(const char *dir)
{
	static const char *const dirs[] = {
		"/lib/x86_64-linux-gnu",
		"/usr/lib/x86_64-linux-gnu",
		"/lib/aarch64-linux-gnu",
		"/usr/lib/aarch64-linux-gnu",
		"/lib64",
		"/usr/lib64",
		"/lib",
		"/usr/lib",
	};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		if (strcmp(dirs[i], dir) == 0)
			return true;
	}
	return false;
}

/*
 * The linker reports its folders in order, the default ones last, but not where those begin; its
 * cache comes just before them. They are the longest tail of known default folders that names
 * none twice (a LD_LIBRARY_PATH may end in one of them too).
 */
static unsigned first_default(const Dl_serinfo *info)
{
	unsigned first = info->dls_cnt;

	for (; first > 0; first--) {
		const char *dir = info->dls_serpath[first - 1].dls_name;

		if (!is_default_dir(dir))
			break;
		for (unsigned i = first; i < info->dls_cnt; i++) {
			if (strcmp(dir, info->dls_serpath[i].dls_name) == 0)
				return first;
		}
	}
	return first;
}

/* The linker's list for the program itself, or NULL. */
static Dl_serinfo *program_folders(void)
{
	void *program = dlmopen(LM_ID_BASE, NULL, RTLD_LAZY);
	Dl_serinfo size, *info = NULL;

	if (!program)
		return NULL;
	if (dlinfo(program, RTLD_DI_SERINFOSIZE, &size) == 0)
		info = malloc(size.dls_size);
	if (info) {
		info->dls_size = size.dls_size;
		info->dls_cnt = size.dls_cnt;
		if (dlinfo(program, RTLD_DI_SERINFO, info) != 0) {
			free(info);
			info = NULL;
		}
	}
	(void)dlclose(program); /* only a count */
	return info;
}

static int look_as_linker(struct walk *walk)
{
	AUTO_FREE Dl_serinfo *info = program_folders();
	unsigned n = info ? info->dls_cnt : 0;
	unsigned cache_at = info ? first_default(info) : 0;
	int result = 0;

	for (unsigned i = 0; i <= n && result == 0; i++) {
		if (i == cache_at)
			result = look_in_cache(walk);
		if (i < n && result == 0) {
			note_looked(walk, info->dls_serpath[i].dls_name);
			result = look_in_dir(walk, info->dls_serpath[i].dls_name);
		}
	}
	return result;
}

int driver_search_run(struct driver_search *search, int (*visit)(const char *path, void *arg),
		      void *arg)
{
	struct walk walk = { .search = search, .visit = visit, .arg = arg };
	int result;

	search->looked[0] = '\0';
	know_self(&walk);
	find_hwcaps(walk.hwcaps);
	if (search->dir && search->dir[0]) {
		walk.hwcaps[0] = NULL; /* exactly the file that was meant */
		note_looked(&walk, search->dir);
		return look_in_dir(&walk, search->dir);
	}
	result = look_as_linker(&walk);
	if (result == 0 && atomic_load_explicit(&hint_state, memory_order_acquire) == 2) {
		note_looked(&walk, hint);
		result = offer(&walk, hint);
	}
	return result;
}

void driver_search_hint(const char *path)
{
	int state = 0;

	if (path[0] != '/' || strlen(path) >= sizeof(hint) ||
	    !atomic_compare_exchange_strong(&hint_state, &state, 1))
		return;
	memcpy(hint, path, strlen(path) + 1);
	atomic_store_explicit(&hint_state, 2, memory_order_release);
}
