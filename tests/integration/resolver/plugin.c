// SPDX-License-Identifier: Apache-2.0
/*
 * A library of a program's own: it has a function named like one of the driver's, looks things up
 * from where it stands, and opens libraries by its own RUNPATH. With -DSECOND: what it opens.
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
