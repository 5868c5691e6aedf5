// SPDX-License-Identifier: Apache-2.0
#include "daemon/deaths.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "daemon/registry.h"

#define DEATHS_BURST 64

struct deaths {
	int epoll;
	sd_event_source *ready; /* of the epoll */
	void (*dead)(struct process *p);
};

static int on_ready(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct deaths *deaths = userdata;
	struct epoll_event ready[DEATHS_BURST];
	int n = epoll_wait(fd, ready, DEATHS_BURST, 0);

	(void)source, (void)revents;
	for (int i = 0; i < n; i++) {
		struct process *p = ready[i].data.ptr;

		deaths_unwatch(deaths, p);
		deaths->dead(p);
	}
	return n < 0 && errno != EINTR ? -errno : 0;
}

int deaths_new(sd_event *event, void (*dead)(struct process *p), struct deaths **ret)
{
	struct deaths *deaths = calloc(1, sizeof(*deaths));
	int r;

	if (!deaths)
		return -ENOMEM;
	deaths->dead = dead;
	deaths->epoll = epoll_create1(EPOLL_CLOEXEC);
	r = deaths->epoll < 0 ? -errno
			      : sd_event_add_io(event, &deaths->ready, deaths->epoll, EPOLLIN,
						on_ready, deaths);
	if (r < 0) {
		deaths_free(deaths);
		return r;
	}
	*ret = deaths;
	return 0;
}

struct deaths *deaths_free(struct deaths *deaths)
{
	if (!deaths)
		return NULL;
	sd_event_source_disable_unref(deaths->ready);
	if (deaths->epoll >= 0)
		close(deaths->epoll);
	free(deaths);
	return NULL;
}

int deaths_watch(struct deaths *deaths, struct process *p)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = p };

	if (p->is_watched)
		return 0;
	if (epoll_ctl(deaths->epoll, EPOLL_CTL_ADD, p->pidfd, &e) < 0)
		return -errno;
	p->is_watched = true;
	return 0;
}

void deaths_unwatch(struct deaths *deaths, struct process *p)
{
	if (p->is_watched)
		(void)epoll_ctl(deaths->epoll, EPOLL_CTL_DEL, p->pidfd, NULL); /* it is in there */
	p->is_watched = false;
}
