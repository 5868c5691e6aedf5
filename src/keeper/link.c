// SPDX-License-Identifier: Apache-2.0
#include "keeper/link.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/size.h"
#include "base/str.h"
#include "client/find.h"

#define LINK_MAX_PAGES    4096
#define LINK_FIRST_TRY_NS (50 * NS_PER_MS)
#define LINK_LAST_TRY_NS  (2 * NS_PER_S)
#define LINK_START_NS     (5 * NS_PER_S)
#define LINK_ANSWER_NS    (2 * NS_PER_S)

int link_init(struct link *l, int sock, const char *socket, uint64_t job_id)
{
	struct client_place place;

	memset(l, 0, sizeof(*l));
	l->sock = sock;
	l->job_id = job_id;
	if (client_find(socket, &place, NULL) < 0)
		return -ENAMETOOLONG;
	(void)str_copy(l->socket, sizeof(l->socket), place.socket);
	l->may_start = !place.is_system && daemon_command_of_peer(sock, &l->command) == 0;
	return 0;
}

void link_fini(struct link *l)
{
	for (unsigned i = 0; i < l->n_pages; i++)
		close(l->pages[i].fd);
	free(l->pages);
	l->pages = NULL;
	l->n_pages = l->room = 0;
	if (l->sock >= 0)
		close(l->sock);
	l->sock = -1;
}

static void lost(struct link *l, uint64_t now_ns)
{
	close(l->sock);
	l->sock = -1;
	l->tries = 0;
	l->next_try_ns = now_ns + LINK_FIRST_TRY_NS;
}

static void keep_page(struct link *l, uint64_t process, int fd)
{
	if (l->n_pages == l->room) {
		unsigned room = l->room ? l->room * 2 : 8;
		struct link_page *grown = l->n_pages >= LINK_MAX_PAGES
						  ? NULL
						  : reallocarray(l->pages, room, sizeof(*grown));

		if (!grown) { /* that process is then charged by NVML after a restart */
			close(fd);
			return;
		}
		l->pages = grown;
		l->room = room;
	}
	l->pages[l->n_pages++] = (struct link_page){ .process = process, .fd = fd };
}

static void drop_page(struct link *l, uint64_t process)
{
	for (unsigned i = 0; i < l->n_pages; i++) {
		if (l->pages[i].process != process)
			continue;
		close(l->pages[i].fd);
		l->pages[i] = l->pages[--l->n_pages];
		return;
	}
}

static void handle(struct link *l)
{
	const struct wire_message *m = &l->in.msg;

	if (m->type == WIRE_KEEP && l->in.n_fds == 1) {
		const struct wire_keep *k = m->payload;

		drop_page(l, k->process);
		keep_page(l, k->process, l->in.fds[0]);
		l->in.n_fds = 0;
	} else if (m->type == WIRE_DROP) {
		drop_page(l, ((const struct wire_drop *)m->payload)->process);
	} else if (m->type == WIRE_SIGNAL) {
		const struct wire_signal *s = m->payload;

		l->signal =
			s->signal > 0 && s->signal < (uint32_t)SIGRTMAX ? (int)s->signal : SIGTERM;
		l->signal_grace_ns = s->grace_ns;
	} else if (m->type == WIRE_ERROR) {
		log_warn("%s", ((const struct wire_error *)m->payload)->text);
	}
	packet_close_fds(&l->in);
}

void link_read(struct link *l, uint64_t now_ns)
{
	while (l->sock >= 0) {
		struct err err;
		int r = packet_recv(l->sock, 0, &l->in, &err);

		if (r == -ETIMEDOUT)
			return;
		if (r == 0)
			handle(l);
		else
			lost(l, now_ns);
	}
}

/* "I am the keeper of this job, and these are the pages of its processes" */
static int resume(struct link *l)
{
	struct wire_resume m = { .job_id = l->job_id, .n_pages = l->n_pages };
	struct wire_end end = { .count = l->n_pages };
	struct err err;
	int r = packet_send(l->sock, WIRE_RESUME, 1, &m, -1);

	for (unsigned i = 0; r == 0 && i < l->n_pages; i++) {
		struct wire_kept k = { .process = l->pages[i].process };

		r = packet_send(l->sock, WIRE_KEPT, 1, &k, l->pages[i].fd);
	}
	if (r == 0)
		r = packet_send(l->sock, WIRE_END, 1, &end, -1);
	/* what comes before the answer (KEEP, SIGNAL) counts too */
	while (r == 0) {
		r = packet_recv(l->sock, LINK_ANSWER_NS, &l->in, &err);
		if (r < 0 || l->in.msg.type == WIRE_OK)
			break;
		if (l->in.msg.type == WIRE_ERROR)
			r = -EREMOTEIO;
		handle(l);
	}
	return r;
}

uint64_t link_tick(struct link *l, uint64_t now_ns)
{
	uint64_t pause = LINK_FIRST_TRY_NS;
	struct err err;
	int r;

	if (l->sock >= 0)
		return UINT64_MAX;
	if (now_ns < l->next_try_ns)
		return l->next_try_ns;
	l->sock = packet_connect(l->socket);
	if (l->sock < 0 && l->may_start) {
		r = daemon_start(&l->command, l->socket, LINK_START_NS, &err);
		if (r < 0 && l->tries == 0)
			log_warn("allotd died and does not start again: %s", err.text);
		if (r == 0)
			l->sock = packet_connect(l->socket);
	}
	if (l->sock >= 0) {
		r = resume(l);
		if (r == 0)
			return UINT64_MAX;
		close(l->sock);
		l->sock = -1;
	}
	for (unsigned i = 0; i < l->tries && pause < LINK_LAST_TRY_NS; i++)
		pause *= 2;
	l->tries++;
	l->next_try_ns = clock_now_ns() + size_min(pause, LINK_LAST_TRY_NS);
	return l->next_try_ns;
}

void link_started(struct link *l, pid_t pid)
{
	struct wire_started m = { .pid = pid };

	if (l->sock >= 0)
		(void)packet_send(l->sock, WIRE_STARTED, 0, &m, -1); /* a loss shows on reading */
}

void link_ended(struct link *l, int status)
{
	struct wire_ended m = { .status = (uint32_t)status };

	if (l->sock >= 0)
		(void)packet_send(l->sock, WIRE_ENDED, 0, &m, -1); /* its death says the same */
}
