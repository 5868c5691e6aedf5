// SPDX-License-Identifier: Apache-2.0
#include "client/packet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

union fd_control {
	struct cmsghdr align;
	char buf[CMSG_SPACE(sizeof(int) * PACKET_MAX_FDS)];
};

/*
 * A program with a closed stdin, stdout or stderr would get our descriptors there, and write its
 * own output into them.
 */
static int above_standard(int fd)
{
	int higher;

	if (fd > STDERR_FILENO)
		return fd;
	higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (higher < 0) {
		int e = -errno;

		close(fd);
		return e;
	}
	close(fd);
	return higher;
}

int packet_send(int sock, unsigned type, uint32_t request_id, const void *payload, int fd)
{
	_Alignas(8) unsigned char buf[WIRE_MAX_MESSAGE];
	int len = wire_encode(buf, sizeof(buf), type, request_id, payload);
	struct iovec iov = { .iov_base = buf, .iov_len = (size_t)len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	union fd_control control = { 0 };
	ssize_t n;

	if (len < 0)
		return len;
	if (fd >= 0) {
		struct cmsghdr *c;

		mh.msg_control = control.buf;
		mh.msg_controllen = CMSG_SPACE(sizeof(int));
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	do
		n = sendmsg(sock, &mh, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	return 0;
}

static int wait_readable(int sock, uint64_t timeout_ns)
{
	uint64_t end = timeout_ns == PACKET_FOREVER ? 0 : clock_now_ns() + timeout_ns;
	struct pollfd p = { .fd = sock, .events = POLLIN };

	for (;;) {
		uint64_t now = timeout_ns == PACKET_FOREVER ? 0 : clock_now_ns();
		uint64_t left = end > now ? end - now : 0;
		struct timespec ts = { .tv_sec = (time_t)(left / NS_PER_S),
				       .tv_nsec = (long)(left % NS_PER_S) };
		int n = ppoll(&p, 1, timeout_ns == PACKET_FOREVER ? NULL : &ts, NULL);

		if (n > 0)
			return 0;
		if (n == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

static void take_fds(struct msghdr *mh, struct packet *ret)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			fd = above_standard(fd);
			if (fd < 0)
				continue; /* no room: as if it had been lost on the way */
			if (ret->n_fds < PACKET_MAX_FDS)
				ret->fds[ret->n_fds++] = fd;
			else
				close(fd);
		}
	}
}

int packet_recv(int sock, uint64_t timeout_ns, struct packet *ret, struct err *err)
{
	struct iovec iov = { .iov_base = ret->buf, .iov_len = sizeof(ret->buf) };
	union fd_control control = { 0 };
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf) };
	ssize_t n;
	int r;

	ret->n_fds = 0;
	if (timeout_ns != PACKET_FOREVER) {
		r = wait_readable(sock, timeout_ns);
		if (r < 0)
			return r;
	}
	do
		n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	take_fds(&mh, ret);
	if (n == 0) {
		packet_close_fds(ret);
		return -ECONNRESET;
	}
	r = mh.msg_flags & MSG_TRUNC
		    ? err_set(err, -EBADMSG, "a packet is larger than %d bytes", WIRE_MAX_MESSAGE)
		    : wire_decode(ret->buf, (size_t)n, &ret->msg, err);
	if (r < 0)
		packet_close_fds(ret);
	return r;
}

void packet_close_fds(struct packet *p)
{
	for (unsigned i = 0; i < p->n_fds; i++)
		if (p->fds[i] >= 0)
			close(p->fds[i]);
	p->n_fds = 0;
}

int packet_connect_within(const char *path, uint64_t limit_ns)
{
	const struct timeval limit = { .tv_sec = (time_t)(limit_ns / NS_PER_S),
				       .tv_usec = (suseconds_t)(limit_ns % NS_PER_S / NS_PER_US) };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	AUTO_FD int fd = -1;

	if (!str_copy(sa.sun_path, sizeof(sa.sun_path), path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	fd = above_standard(fd);
	if (fd < 0)
		return fd;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)); /* else it waits */
	while (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		if (errno != EINTR)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
	}
	return TAKE_FD(fd);
}

int packet_connect(const char *path)
{
	return packet_connect_within(path, PACKET_CONNECT_NS);
}
