// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

void fd_guard_standard(void)
{
	int fd;

	/* the lowest free number is taken; a path that allows neither reading nor writing */
	do
		fd = open("/", O_PATH | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int fd_write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

ssize_t fd_read_file(int dirfd, const char *path, char *buf, size_t size)
{
	AUTO_FD int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t len = 0;

	if (fd < 0)
		return -errno;
	while (len < size) {
		ssize_t n = read(fd, buf + len, size - len);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0) {
			buf[len] = '\0';
			return (ssize_t)len;
		}
		len += (size_t)n;
	}
	return -EFBIG;
}

#define MEMFD_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

int fd_memfd_sealed(const char *name, size_t size)
{
	AUTO_FD int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) < 0)
		return -errno;
	if (fcntl(fd, F_ADD_SEALS, MEMFD_SEALS | F_SEAL_SEAL) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int fd_is_sealed_memfd(int fd, size_t size)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || fstat(fd, &st) < 0)
		return -errno;
	return (seals & MEMFD_SEALS) == MEMFD_SEALS && st.st_size == (off_t)size;
}

int fd_pidfd_open(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd; /* close-on-exec by definition */
}

int fd_mkdir_private(const char *path, struct err *err)
{
	struct stat st;

	if (mkdir(path, 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return err_set(err, -errno, "cannot make folder '%s': %s", path, strerror(errno));
	if (lstat(path, &st) < 0)
		return err_set(err, -errno, "cannot look at '%s': %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, -ENOTDIR, "'%s' is not a folder", path);
	if (st.st_uid != geteuid())
		return err_set(err, -EPERM, "folder '%s' belongs to uid %u, not to us", path,
			       st.st_uid);
	if (st.st_mode & 0022)
		return err_set(err, -EPERM, "folder '%s' can be written by others: chmod go-w it",
			       path);
	return 0;
}

int fd_mkdir_parents(const char *path, mode_t mode)
{
	char part[PATH_MAX];
	size_t len = strlen(path);

	if (len >= sizeof(part))
		return -ENAMETOOLONG;
	memcpy(part, path, len + 1);
	for (size_t i = 1; i <= len; i++) {
		if (part[i] != '/' && part[i] != '\0')
			continue;
		part[i] = '\0';
		if (mkdir(part, mode) < 0 && errno != EEXIST)
			return -errno;
		if (i < len)
			part[i] = '/';
	}
	return 0;
}
