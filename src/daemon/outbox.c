// SPDX-License-Identifier: Apache-2.0
#include "daemon/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct packet_kept {
	struct list node;
	int fds[OUTBOX_FDS_MAX];
	unsigned n_fds;
	size_t len;
	unsigned char bytes[];
};

void outbox_init(struct outbox *o, size_t *total)
{
	list_init(&o->packets);
	o->bytes = 0;
	o->total = total;
}

bool outbox_is_empty(const struct outbox *o)
{
	return list_is_empty(&o->packets);
}

static void packet_free(struct outbox *o, struct packet_kept *p)
{
	list_del(&p->node);
	for (unsigned i = 0; i < p->n_fds; i++)
		close(p->fds[i]);
	o->bytes -= p->len;
	*o->total -= p->len;
	free(p);
}

void outbox_fini(struct outbox *o)
{
	struct packet_kept *p, *tmp;

	list_for_each_safe (p, tmp, &o->packets, node)
		packet_free(o, p);
}

int outbox_send(int sock, const void *buf, size_t len, const int *fds, unsigned n_fds)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len };
	union {
		char buf[CMSG_SPACE(OUTBOX_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds > 0) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	for (;;) {
		if (sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return 1;
		if (errno == EINTR)
			continue;
		/* ETOOMANYREFS: too many descriptors in flight; they drain as peers read */
		if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)
			return 0;
		return -errno;
	}
}

int outbox_put(struct outbox *o, const void *buf, size_t len, const int *fds, unsigned n_fds)
{
	struct packet_kept *p = calloc(1, sizeof(*p) + len);

	if (!p)
		return -ENOMEM;
	for (; p->n_fds < n_fds; p->n_fds++) {
		p->fds[p->n_fds] = fcntl(fds[p->n_fds], F_DUPFD_CLOEXEC, 3);
		if (p->fds[p->n_fds] < 0) {
			int r = -errno;

			while (p->n_fds > 0)
				close(p->fds[--p->n_fds]);
			free(p);
			return r;
		}
	}
	memcpy(p->bytes, buf, len);
	p->len = len;
	o->bytes += len;
	*o->total += len;
	list_append(&o->packets, &p->node);
	return 0;
}

int outbox_flush(struct outbox *o, int sock)
{
	struct packet_kept *p, *tmp;

	list_for_each_safe (p, tmp, &o->packets, node) {
		int r = outbox_send(sock, p->bytes, p->len, p->fds, p->n_fds);

		if (r != 1)
			return r;
		packet_free(o, p);
	}
	return 1;
}
