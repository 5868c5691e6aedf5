// SPDX-License-Identifier: Apache-2.0
#include "keeper/link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/size.h"
#include "base/str.h"
#include "client/find.h"

#define LINK_MAX_PAGES    4096
#define ENDED_ID          2 /* RESUME and what belongs to it have 1 */
#define UNKNOWN_TRIES     20
#define LINK_FIRST_TRY_NS (50 * NS_PER_MS)
#define LINK_LAST_TRY_NS  (2 * NS_PER_S)
#define LINK_START_NS     (5 * NS_PER_S)
#define LINK_ANSWER_NS    (2 * NS_PER_S)
#define LINK_SEND_NS      (500 * NS_PER_MS)
#define LINK_OTHER_NS     (30 * NS_PER_S) /* an allotd of another version: until it is replaced */

/* it is to outlive this job's tree, also when it hangs below it */
static void note_daemon(struct link *l)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(l->sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid > 0)
		l->daemon = (struct tree_spared){ peer.pid, tree_start_time(peer.pid) };
}

/* a stopped allotd does not read; what cannot be sent in time counts as a lost connection */
static void set_send_limit(int sock)
{
	const struct timeval limit = { .tv_usec = LINK_SEND_NS / NS_PER_US };

	(void)setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit,
			 sizeof(limit)); /* blocks, at worst */
}

int link_init(struct link *l, int sock, const char *socket, uint64_t job_id)
{
	struct client_place place;

	memset(l, 0, sizeof(*l));
	l->sock = sock;
	l->job_id = job_id;
	if (client_find(socket, &place, NULL) < 0)
		return -ENAMETOOLONG;
	(void)str_copy(l->socket, sizeof(l->socket), place.socket);
	note_daemon(l);
	set_send_limit(sock);
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
	l->resume_end_ns = 0;
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

/* false: the connection is of no use */
static bool handle(struct link *l)
{
	const struct wire_message *m = &l->in.msg;
	bool is_refused = false;

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
	} else if (m->type == WIRE_OK) {
		/* a RESUME tells the end as well */
		if (l->has_ended && (m->request_id == ENDED_ID || l->has_resumed_ended))
			l->is_acknowledged = true;
		l->resume_end_ns = 0;
		l->tries = 0;
	} else if (m->type == WIRE_ERROR) {
		const struct wire_error *e = m->payload;

		is_refused = l->resume_end_ns != 0;
		if (!is_refused || !l->has_ended)
			log_warn("%s", e->text);
		else if (e->code == WIRE_CODE_NO_SUCH && l->tries > UNKNOWN_TRIES)
			l->is_acknowledged = true; /* this allotd has lost its memory */
	}
	packet_close_fds(&l->in);
	return !is_refused;
}

/* not this time: again later, and later each time */
static void put_off(struct link *l)
{
	uint64_t pause = LINK_FIRST_TRY_NS;

	if (l->sock >= 0)
		close(l->sock);
	l->sock = -1;
	l->resume_end_ns = 0;
	for (unsigned i = 0; i < l->tries && pause < LINK_LAST_TRY_NS; i++)
		pause *= 2;
	l->tries++;
	l->next_try_ns = clock_now_ns() + size_min(pause, LINK_LAST_TRY_NS);
}

/*
 * After an upgrade: this keeper was begun by another allot than the allotd that answers.  The
 * command goes on inside its fence, which its programs keep by themselves, and allotd sees what
 * they hold through NVML.  From time to time we look whether the right one is back.
 */
static void other_version(struct link *l)
{
	if (!l->is_other_told)
		log_warn("allotd speaks protocol %u now, this job began with protocol %d: it runs "
			 "on, but cannot have more GPU memory until it is started anew",
			 l->in.msg.version, WIRE_VERSION);
	l->is_other_told = true;
	put_off(l);
	l->next_try_ns = clock_now_ns() + LINK_OTHER_NS;
}

void link_read(struct link *l, uint64_t now_ns)
{
	while (l->sock >= 0) {
		struct err err;
		int r = packet_recv(l->sock, 0, &l->in, &err);

		if (r == -ETIMEDOUT)
			return;
		if (r == -EPROTONOSUPPORT)
			other_version(l);
		else if (r < 0 && l->resume_end_ns) /* each time at once: not so often */
			put_off(l);
		else if (r < 0)
			lost(l, now_ns);
		else if (!handle(l))
			put_off(l);
	}
}

/* "I am the keeper of this job, and these are the pages of its processes"; link_read sees OK */
static int resume(struct link *l)
{
	struct wire_resume m = { .job_id = l->job_id,
				 .n_pages = l->n_pages,
				 .ended = l->has_ended,
				 .status = (uint32_t)l->status };
	struct wire_end end = { .count = l->n_pages };
	int r = packet_send(l->sock, WIRE_RESUME, 1, &m, -1);

	l->has_resumed_ended = l->has_ended;

	for (unsigned i = 0; r == 0 && i < l->n_pages; i++) {
		struct wire_kept k = { .process = l->pages[i].process };

		r = packet_send(l->sock, WIRE_KEPT, 1, &k, l->pages[i].fd);
	}
	if (r == 0)
		r = packet_send(l->sock, WIRE_END, 1, &end, -1);
	return r;
}

/* waits in a child for as long as the start takes */
static void begin_start(struct link *l)
{
	struct err err = { 0 };

	l->starter = fork();
	if (l->starter == 0) {
		/* allotd puts itself into the background: it then hangs below us, not beside us */
		if (l->is_quiet) {
			int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

			if (null >= 0)
				(void)dup2(null, STDERR_FILENO);
		}
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* else a cancel right now takes it along */
		if (daemon_start(&l->command, l->socket, LINK_START_NS, &err) == 0)
			_exit(0);
		if (l->tries == 0)
			log_warn("allotd died and does not start again: %s", err.text);
		_exit(1);
	}
	if (l->starter < 0) {
		l->starter = 0;
		put_off(l);
	}
}

bool link_reaped(struct link *l, pid_t pid, int status)
{
	if (pid != l->starter)
		return false;
	l->starter = 0;
	if (status == 0)
		l->next_try_ns = 0;
	else
		put_off(l);
	return true;
}

uint64_t link_tick(struct link *l, uint64_t now_ns)
{
	bool was_started;

	if (l->sock >= 0 && l->resume_end_ns && now_ns >= l->resume_end_ns)
		put_off(l);
	if (l->sock >= 0)
		return l->resume_end_ns ? l->resume_end_ns : UINT64_MAX;
	if (l->starter)
		return UINT64_MAX; /* its end wakes us */
	if (now_ns < l->next_try_ns)
		return l->next_try_ns;
	was_started = l->next_try_ns == 0;
	l->sock = packet_connect_within(l->socket, LINK_SEND_NS);
	if (l->sock < 0) {
		if (l->may_start && !was_started)
			begin_start(l);
		else
			put_off(l);
		return l->starter ? UINT64_MAX : l->next_try_ns;
	}
	note_daemon(l);
	set_send_limit(l->sock);
	if (resume(l) < 0) {
		put_off(l);
		return l->next_try_ns;
	}
	l->resume_end_ns = clock_now_ns() + LINK_ANSWER_NS;
	return l->resume_end_ns;
}

void link_started(struct link *l, pid_t pid)
{
	struct wire_started m = { .pid = pid };

	if (l->sock >= 0)
		(void)packet_send(l->sock, WIRE_STARTED, 0, &m, -1); /* a loss shows on reading */
}

void link_ended(struct link *l, int status, bool wants_answer)
{
	struct wire_ended m = { .status = (uint32_t)status };

	l->has_ended = true;
	l->status = status;
	if (l->sock >= 0)
		(void)packet_send(l->sock, WIRE_ENDED, wants_answer ? ENDED_ID : 0, &m,
				  -1); /* its death says the same */
}
