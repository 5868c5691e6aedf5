// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

/*
 * Scope-bound ownership: AUTO_FREE for heap memory, AUTO_FD for descriptors.  The resource leaves
 * the scope only by TAKE/TAKE_FD, which empty the variable.  errno survives the clean-up.
 */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *p)
{
	int saved = errno;

	free(*(void **)p);
	errno = saved;
}

static inline void cleanup_fd(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

static inline int cleanup_take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define AUTO_FREE __attribute__((cleanup(cleanup_free)))
#define AUTO_FD   __attribute__((cleanup(cleanup_fd)))
#define TAKE(p)                           \
	__extension__({                   \
		__auto_type taken_ = (p); \
		(p) = NULL;               \
		taken_;                   \
	})
#define TAKE_FD(fd) cleanup_take_fd(&(fd))

/* on the path of every allocation: such functions stand together, on few pages */
#define HOT __attribute__((hot))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
