// SPDX-License-Identifier: Apache-2.0
#include "shim/redirect_dlopen.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "shim/driver_search.h"
#include "shim/env.h"
#include "shim/redirect.h"

/* Would this path be found? $ORIGIN and its like are the linker's to expand: taken for yes. */
static bool may_exist(const char *path)
{
	return strchr(path, '$') || access(path, F_OK) == 0;
}

static const char *choose(const char *name)
{
	const char *base = name ? strrchr(name, '/') : NULL;
	const char *ours;

	if (!name)
		return name;
	base = base ? base + 1 : name;
	if (str_starts_with(base, "libcuda.so"))
		ours = env_self();
	else if (str_starts_with(base, "libnvidia-ml.so"))
		ours = env_get()->sibling;
	else
		return name;
	if (!ours[0] || (base != name && !may_exist(name)))
		return name;
	if (str_starts_with(base, "libcuda.so"))
		driver_search_hint(name); /* where to look if there is none elsewhere */
	return ours;
}

static void *no_next(const char *name, int flags)
{
	(void)name;
	(void)flags;
	return NULL;
}

struct redirect_dlopen redirect_dlopen(const char *name)
{
	struct redirect_dlopen result;
	int saved_errno = errno;

	result.name = choose(name);
	result.next = redirect_next(REDIRECT_dlopen);
	if (!result.next)
		result.next = (void *)no_next;
	errno = saved_errno;
	return result;
}
