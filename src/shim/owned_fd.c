// SPDX-License-Identifier: Apache-2.0
#include "shim/owned_fd.h"

#include <sys/stat.h>
#include <unistd.h>

void owned_fd_set(struct owned_fd *o, int fd)
{
	struct stat st;

	*o = (struct owned_fd){ 0 };
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	o->dev = st.st_dev;
	o->ino = st.st_ino;
	o->fd_plus_1 = fd + 1;
}

int owned_fd_get(struct owned_fd *o)
{
	struct stat st;
	int fd = o->fd_plus_1 - 1;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && st.st_dev == o->dev && st.st_ino == o->ino)
		return fd;
	*o = (struct owned_fd){ 0 }; /* the host closed it, and perhaps reused the number */
	return -1;
}

void owned_fd_close(struct owned_fd *o)
{
	int fd = owned_fd_get(o);

	if (fd >= 0)
		close(fd);
	*o = (struct owned_fd){ 0 };
}
