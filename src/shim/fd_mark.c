// SPDX-License-Identifier: Apache-2.0
#include "shim/fd_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

#define MARK_BYTES 2577 /* of the locked range: by this odd length we know our own */
#define LINE_MAX_  160

int fd_mark_set(int fd, uint64_t mark)
{
	struct flock lock = {
		.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = (off_t)mark, .l_len = MARK_BYTES
	};

	if (!mark || mark > INT64_MAX - 4096)
		return -EINVAL;
	return fcntl(fd, F_OFD_SETLK, &lock) ? -errno : 0;
}

static const char *read_number(const char *at, uint64_t *ret)
{
	*ret = 0;
	if (*at < '0' || *at > '9')
		return NULL;
	for (; *at >= '0' && *at <= '9'; at++) {
		if (*ret > INT64_MAX / 10)
			return NULL;
		*ret = *ret * 10 + (uint64_t)(*at - '0');
	}
	return at;
}

/* "lock:  1: OFDLCK ADVISORY  READ -1 00:05:4 FIRST LAST": the two last words of such a line */
static bool read_line(const char *line, uint64_t *ret_mark)
{
	const char *last = strrchr(line, ' '), *first = last;
	uint64_t a, b;

	if (strncmp(line, "lock:", 5) != 0 || !strstr(line, " OFDLCK ") || !last)
		return false;
	while (first > line && first[-1] != ' ')
		first--;
	first = read_number(first, &a);
	last = read_number(last + 1, &b);
	if (!first || *first != ' ' || !last || *last != '\0' || b < a || b - a + 1 != MARK_BYTES ||
	    !a)
		return false;
	*ret_mark = a;
	return true;
}

/* line by line through a small buffer; a line that does not fit is none of ours */
static int scan(int info, uint64_t *ret_mark)
{
	char buf[512], line[LINE_MAX_];
	size_t n = 0;
	ssize_t got;

	while ((got = read(info, buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < got; i++) {
			if (buf[i] != '\n') {
				if (n < sizeof(line))
					line[n++] = buf[i];
				continue;
			}
			if (n < sizeof(line)) {
				line[n] = '\0';
				if (read_line(line, ret_mark))
					return 0;
			}
			n = 0;
		}
	}
	return got < 0 ? -errno : -ENODATA;
}

int fd_mark_get(int fd, uint64_t *ret_mark)
{
	int saved_errno = errno, info, r;
	char path[64];

	if (!str_print(path, sizeof(path), "/proc/self/fdinfo/%d", fd))
		return -EINVAL;
	info = open(path, O_RDONLY | O_CLOEXEC);
	if (info < 0) {
		r = -errno;
	} else {
		r = scan(info, ret_mark);
		(void)close(info);
	}
	errno = saved_errno;
	return r;
}
