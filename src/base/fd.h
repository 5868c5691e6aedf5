// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_FD_H
#define BASE_FD_H

/*
 * Descriptors and small files.  Everything is born close-on-exec; EINTR is retried; what is read
 * has a bound.  Any thread.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/**
 * fd_guard_standard - see to it that 0, 1 and 2 are taken, for a main function's first line
 *
 * A program started with one of them closed would else get a socket or a file there, and write its
 * messages into it.  What fills the gap can be neither read nor written usefully (an error tells)
 * and is close-on-exec: a command started from here finds the descriptor closed, as it was.
 */
void fd_guard_standard(void);

/** fd_write_all - the whole buffer; 0 or -errno */
int fd_write_all(int fd, const void *buf, size_t len);

/**
 * fd_read_file - a whole small file into @buf, NUL-terminated
 * @dirfd: directory, or AT_FDCWD
 * Returns the length without the NUL; -EFBIG when it does not fit; other -errno.
 */
ssize_t fd_read_file(int dirfd, const char *path, char *buf, size_t size);

/** fd_memfd_sealed - an anonymous file of @size bytes that can be neither grown nor shrunk */
int fd_memfd_sealed(const char *name, size_t size);

/** fd_is_sealed_memfd - is @fd a memfd of exactly @size bytes, sealed against resizing? */
int fd_is_sealed_memfd(int fd, size_t size);

/** fd_pidfd_open - a pidfd of @pid; -errno (-ESRCH: gone) */
int fd_pidfd_open(pid_t pid);

/** fd_mkdir_private - make @path of mode 0700, or check that it is ours and private */
int fd_mkdir_private(const char *path, struct err *err);

/** fd_mkdir_parents - every missing folder of @path, with mode @mode; 0 or -errno */
int fd_mkdir_parents(const char *path, mode_t mode);

#endif
