// SPDX-License-Identifier: Apache-2.0
#include "shim/env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "shim/elf_find.h"

#define LINE_MAX_BYTES 8192 /* a longer variable is cut: it is none that we look for */

/* what env_get publishes, with the room that reading needs (not on a stranger's stack) */
struct env_page {
	struct shim_env env;
	bool clobbered; /* what the kernel shows is no environment any more */
	char chunk[4096];
	char line[LINE_MAX_BYTES];
};

static struct env_page *_Atomic env_published;

/* for a process that has not a page of memory left: nothing known */
static const struct shim_env env_unknown;

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The entries of ours in a value of LD_PRELOAD, as written. */
static void take_preload(struct shim_env *env, const char *value)
{
	static const char *const ours[2] = { "liballot-cuda", "liballot-nvml" };
	char entry[ENV_PATH_MAX];

	for (const char *at = value; *at; at += strspn(at, ": ")) {
		size_t len = strcspn(at, ": ");

		if (len > 0 && len < sizeof(entry)) {
			memcpy(entry, at, len);
			entry[len] = '\0';
			for (int i = 0; i < 2; i++) {
				if (str_starts_with(base_of(entry), ours[i]))
					memcpy(env->preload[i], entry, len + 1);
			}
		}
		at += len;
	}
}

static void take_line(struct env_page *page, const char *line)
{
	struct shim_env *env = &page->env;

	if (!strchr(line, '='))
		page->clobbered = true;
	else if (str_starts_with(line, "ALLOT_SOCKET=") && !env->in_job) {
		/* one too long for a socket address names none: in a job, and not to be reached */
		env->in_job = line[13] != '\0';
		if (!str_copy(env->socket, sizeof(env->socket), line + 13))
			env->socket[0] = '\0';
	} else if (str_starts_with(line, "ALLOT_LOG=")) {
		(void)log_level_parse(line + 10, &env->log); /* unreadable: stays silent */
	} else if (str_starts_with(line, "LD_PRELOAD=")) {
		take_preload(env, line + 11);
	}
}

static void take_getenv(struct env_page *page, const char *name)
{
	const char *value = secure_getenv(name);

	if (value && str_print(page->line, LINE_MAX_BYTES, "%s=%s", name, value))
		take_line(page, page->line);
}

static int read_environ(struct env_page *page)
{
	int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while ((n = read(fd, page->chunk, sizeof(page->chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		for (ssize_t i = 0; i < n; i++) {
			char c = page->chunk[i];

			if (used < LINE_MAX_BYTES - 1)
				page->line[used++] = c;
			if (c == '\0') {
				page->line[used - 1] = '\0';
				take_line(page, page->line);
				used = 0;
			}
		}
	}
	if (used) {
		page->line[used] = '\0';
		take_line(page, page->line);
	}
	(void)close(fd); /* read only: nothing to lose */
	return 0;
}

/* liballot-cuda<rest> -> liballot-nvml<rest>, or the other way round, if that file exists */
static void find_sibling(struct shim_env *env)
{
	char *base;

	(void)str_copy(env->sibling, sizeof(env->sibling), env->self);
	base = env->sibling + (base_of(env->sibling) - env->sibling);
	if (str_starts_with(base, "liballot-cuda"))
		memcpy(base + 9, "nvml", 4);
	else if (str_starts_with(base, "liballot-nvml"))
		memcpy(base + 9, "cuda", 4);
	else
		env->sibling[0] = '\0';
	if (env->sibling[0] && access(env->sibling, F_OK) != 0)
		env->sibling[0] = '\0';
}

static void env_fill(struct env_page *page)
{
	struct shim_env *env = &page->env;

	env->log = LOG_LEVEL_ERROR;
	if (!str_copy(env->self, sizeof(env->self), env_self()))
		env->self[0] = '\0';
	find_sibling(env);
	if (read_environ(page) < 0 || (page->clobbered && !env->in_job)) {
		take_getenv(page, "ALLOT_SOCKET");
		take_getenv(page, "ALLOT_LOG");
		take_getenv(page, "LD_PRELOAD");
	}
}

const struct shim_env *env_get(void)
{
	struct env_page *page = atomic_load_explicit(&env_published, memory_order_acquire);
	struct env_page *mine;
	int saved_errno = errno;

	if (page)
		return &page->env;
	mine = mmap(NULL, sizeof(*mine), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (mine == MAP_FAILED) {
		errno = saved_errno;
		return &env_unknown;
	}
	env_fill(mine);
	if (!atomic_compare_exchange_strong(&env_published, &page, mine)) {
		(void)munmap(mine, sizeof(*mine)); /* another thread was first, with the same */
		mine = page;
	}
	errno = saved_errno;
	return &mine->env;
}

const char *env_self(void)
{
	const struct link_map *map = elf_map_of(&env_published);

	return map && map->l_name ? map->l_name : "";
}
