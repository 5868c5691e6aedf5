// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into a program of this build it makes one of another build of it: what it sends says
 * protocol WIRE_VERSION + OTHER_VERSION, and what it hears is moved by the same step the other
 * way, so that it judges as such a program would.  OTHER_VERSION stands in the environment, by
 * default 1 (newer); without a number nothing is changed.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "wire/wire.h"

static int step(void)
{
	const char *text = getenv("OTHER_VERSION");

	return !text ? 0 : text[0] == '-' ? -1 : 1;
}

static void move(void *packet, size_t len, int by)
{
	struct wire_header h;

	if (len < sizeof(h))
		return;
	memcpy(&h, packet, sizeof(h));
	if (h.magic != WIRE_MAGIC)
		return;
	h.version = (uint16_t)(h.version + by);
	memcpy(packet, &h, sizeof(h));
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	static ssize_t (*real)(int, const struct msghdr *, int);
	unsigned char copy[WIRE_MAX_MESSAGE];
	struct msghdr moved = *m;
	struct iovec iov = { .iov_base = copy };

	if (!real)
		real = (ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
	if (m->msg_iovlen != 1 || m->msg_iov[0].iov_len > sizeof(copy))
		return real(fd, m, flags);
	iov.iov_len = m->msg_iov[0].iov_len;
	memcpy(copy, m->msg_iov[0].iov_base, iov.iov_len);
	move(copy, iov.iov_len, step());
	moved.msg_iov = &iov;
	return real(fd, &moved, flags);
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	static ssize_t (*real)(int, struct msghdr *, int);
	ssize_t n;

	if (!real)
		real = (ssize_t(*)(int, struct msghdr *, int))dlsym(RTLD_NEXT, "recvmsg");
	n = real(fd, m, flags);
	if (n > 0 && m->msg_iovlen == 1 && (size_t)n <= m->msg_iov[0].iov_len)
		move(m->msg_iov[0].iov_base, (size_t)n, -step());
	return n;
}
