// SPDX-License-Identifier: Apache-2.0
/*
 * A library of a program's own: it has a function named like one of the driver's, looks things up
 * from where it stands, and opens libraries by its own RUNPATH. With -DSECOND: what it opens.
 * With -DEAGER: a library that calls the driver from its constructor.
 */
#include <dlfcn.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

#ifdef SECOND
EXPORT int second_answer(void);
EXPORT int second_answer(void)
{
	return 22;
}
#elif defined(EAGER)
static int answer = -1;

/* calls the driver while the dynamic linker, which opens us, holds its lock */
__attribute__((constructor)) static void call_driver(void)
{
	int (*get_version)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "cuDriverGetVersion");

	if (!get_version || get_version(&answer) != 0)
		answer = -2;
}

EXPORT int eager_answer(void);
EXPORT int eager_answer(void)
{
	return answer;
}
#else
EXPORT int cuMemCreate(void);
EXPORT int cuMemCreate(void)
{
	return 4242;
}

/* cudnn's and cublas's names begin with cu as well */
EXPORT int cudnnCreate(void);
EXPORT int cudnnCreate(void)
{
	return 9;
}

EXPORT void *plugin_open(const char *name, int flags);
EXPORT void *plugin_open(const char *name, int flags)
{
	void *volatile handle = dlopen(name, flags); /* not a tail call: we are the caller */

	return handle;
}

EXPORT void *plugin_next(const char *name);
EXPORT void *plugin_next(const char *name)
{
	void *volatile found = dlsym(RTLD_NEXT, name);

	return found;
}

EXPORT void *plugin_default(const char *name);
EXPORT void *plugin_default(const char *name)
{
	void *volatile found = dlsym(RTLD_DEFAULT, name);

	return found;
}
#endif
