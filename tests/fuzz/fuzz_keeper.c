// SPDX-License-Identifier: Apache-2.0
/*
 * What a keeper hears, from an allotd that has lost its mind: any message, with any number of
 * descriptors.  It keeps no more pages than it may, leaks no descriptor, takes no number for a
 * signal that is none, and its connection ends or goes on.
 * Input: for each message its type, a byte for the descriptors and the resume that may be awaited,
 * the payload's length, the payload's beginning (the rest is zero).
 */
#include <dirent.h>

#include "fuzz.h"
#include "fuzz_text.h"
#include "keeper/link.c" /* the reader, with our own connection under it */

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	if (!dir)
		abort();
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void send_one(int sock, const void *packet, size_t len, unsigned n_fds)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)packet, .iov_len = len };
	union {
		char buf[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds) {
		struct cmsghdr *c = &control.align;

		m.msg_control = control.buf;
		m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		for (unsigned i = 0; i < n_fds; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &sock, sizeof(sock));
	}
	(void)sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL); /* it may have hung up */
}

static void check(const struct link *l)
{
	if (l->n_pages > LINK_MAX_PAGES || l->n_pages > l->room)
		abort();
	if (l->signal < 0 || l->signal > SIGRTMAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned before;
	struct link l = { .sock = -1, .job_id = 1 };
	int ends[2];

	log_setup("fuzz", LOG_LEVEL_ERROR);
	if (!before)
		before = count_fds();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	l.sock = ends[0];
	while (size >= 3 && l.sock >= 0) {
		_Alignas(8) unsigned char packet[WIRE_MAX_MESSAGE] = { 0 };
		unsigned type = data[0], n_fds = data[1] & 7, len = data[2];
		int room = wire_size(type);
		struct wire_header h = { .magic = WIRE_MAGIC,
					 .version = data[1] & 64 ? 99 : WIRE_VERSION,
					 .type = (uint16_t)type,
					 .length = (uint32_t)(room < 0 ? 8 : room) };

		l.resume_end_ns = data[1] & 128 ? 1 : 0;
		data += 3;
		size -= 3;
		len = len < size ? len : (unsigned)size;
		memcpy(packet, &h, sizeof(h));
		memcpy(packet + sizeof(h), data, len < h.length ? len : h.length);
		data += len;
		size -= len;
		send_one(ends[1], packet, sizeof(h) + h.length, n_fds);
		link_read(&l, 1);
		check(&l);
	}
	link_fini(&l);
	close(ends[1]);
	if (count_fds() != before)
		abort();
	return 0;
}
