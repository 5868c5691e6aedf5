// SPDX-License-Identifier: Apache-2.0
#include "daemon/sampler.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/size.h"
#include "base/str.h"
#include "daemon/helper.h"

#define SAMPLER_LATE_NS        (1500 * NS_PER_MS) /* then people are told */
#define SAMPLER_DEADLINE_NS    (2 * NS_PER_S)     /* and then the child is given up */
#define SAMPLER_OPENING_NS     (30 * NS_PER_S)    /* its first answer: many cards take a while */
#define SAMPLER_PAUSE_FIRST_NS (250 * NS_PER_MS)
#define SAMPLER_PAUSE_LAST_NS  (30 * NS_PER_S)
#define SAMPLER_MAX_ZOMBIES    4
#define SAMPLER_PACKET_MAX     2048
#define MOST_BYTES             ((uint64_t)1 << 50) /* of a card */

_Static_assert(SAMPLER_FD == HELPER_FD, "the same descriptor");
_Static_assert(sizeof(struct sampler_procs) <= SAMPLER_PACKET_MAX, "fits");
_Static_assert(sizeof(struct sampler_done) <= SAMPLER_PACKET_MAX, "fits");

/* a child, from its start until the kernel has let go of it */
struct child {
	struct sampler *sampler; /* NULL: nobody waits for it any more */
	pid_t pid;
	int pidfd;
	sd_event_source *death;
};

struct sampler {
	sd_event *event;
	const struct sampler_ops *ops;
	void *context;
	char program[PATHS_MAX];
	const char *driver_dir;
	struct child *child;
	struct child *old[SAMPLER_MAX_ZOMBIES]; /* killed, not yet dead */
	int sock;
	sd_event_source *io;
	sd_event_source *deadline;
	bool is_asking;
	bool is_late;   /* the deadline that comes next is the last one */
	bool is_opened; /* this child has answered once */
	uint64_t sequence;
	uint64_t pause_ns; /* grows with every failure */
	uint64_t free_at_ns;
	char trouble[WIRE_TEXT_MAX];
	/* the GPU whose processes are coming in */
	struct sampler_gpu gpu;
	struct sampler_proc *procs;
	unsigned n_procs, room;
	bool has_gpu;
};

static const char no_answer[] = "NVML does not answer";

static struct child *child_free(struct child *c)
{
	if (c) {
		sd_event_source_disable_unref(c->death);
		if (c->pidfd >= 0)
			close(c->pidfd);
		free(c);
	}
	return NULL;
}

static void set_trouble(struct sampler *s, const char *why)
{
	if (strcmp(s->trouble, why) != 0)
		log_warn("%s; NVML's figures are stale until it answers again", why);
	(void)str_copy(s->trouble, sizeof(s->trouble), why);
}

/* the question ends without an answer; the next one after a pause */
static void fail(struct sampler *s, const char *why)
{
	bool was_asking = s->is_asking;

	set_trouble(s, why);
	s->is_asking = false;
	s->has_gpu = false;
	s->pause_ns = s->pause_ns ? size_min(s->pause_ns * 2, SAMPLER_PAUSE_LAST_NS)
				  : SAMPLER_PAUSE_FIRST_NS;
	s->free_at_ns = clock_now_ns() + s->pause_ns;
	(void)sd_event_source_set_enabled(s->deadline, SD_EVENT_OFF); /* cannot fail */
	s->io = sd_event_source_disable_unref(s->io);
	if (s->sock >= 0)
		close(s->sock);
	s->sock = -1;
	if (was_asking)
		s->ops->done(s->context, NULL);
}

static int on_death(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct child *c = userdata;
	struct sampler *s = c->sampler;
	siginfo_t si = { 0 };

	(void)source, (void)revents;
	(void)waitid(P_PIDFD, (id_t)fd, &si,
		     WEXITED | WNOHANG); /* reaps; nothing to be done else */
	if (s->child == c) {
		s->child = child_free(c);
		fail(s, "allot-sampler died");
		return 0;
	}
	for (unsigned i = 0; i < SAMPLER_MAX_ZOMBIES; i++)
		if (s->old[i] == c)
			s->old[i] = child_free(c);
	return 0;
}

/* SIGKILL, and whenever the kernel lets go of it, it is reaped */
static void abandon_child(struct sampler *s)
{
	struct child *c = TAKE(s->child);

	if (!c)
		return;
	(void)kill(c->pid, SIGKILL); /* ours and not yet reaped, so the number is right */
	for (unsigned i = 0; i < SAMPLER_MAX_ZOMBIES; i++) {
		if (!s->old[i]) {
			s->old[i] = c;
			return;
		}
	}
	child_free(c);
}

static int set_deadline(struct sampler *s, uint64_t ns)
{
	int r = sd_event_source_set_time_relative(s->deadline, ns / NS_PER_US);

	return r < 0 ? r : sd_event_source_set_enabled(s->deadline, SD_EVENT_ONESHOT);
}

/*
 * Late: whoever asks is told.  The child that has still to open NVML, which takes seconds where no
 * one else keeps many cards awake, gets more time than one that has answered before.
 */
static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct sampler *s = userdata;

	(void)source, (void)usec;
	if (!s->is_late) {
		s->is_late = true;
		set_trouble(s, no_answer);
		s->ops->done(s->context, NULL);
		return set_deadline(s, (s->is_opened ? SAMPLER_DEADLINE_NS : SAMPLER_OPENING_NS) -
					       SAMPLER_LATE_NS);
	}
	abandon_child(s);
	fail(s, no_answer);
	return 0;
}

/* it reads what the driver writes: what it says is judged like anybody's word */
static void begin_gpu(struct sampler *s, const struct sampler_gpu *m)
{
	struct sampler_gpu *gpu = &s->gpu;

	*gpu = *m;
	gpu->pci_bus_id[sizeof(gpu->pci_bus_id) - 1] = '\0';
	gpu->model[sizeof(gpu->model) - 1] = '\0';
	gpu->driver_version[sizeof(gpu->driver_version) - 1] = '\0';
	str_printable(gpu->pci_bus_id);
	str_printable(gpu->model);
	str_printable(gpu->driver_version);
	if (!gpu->total_bytes || gpu->total_bytes > MOST_BYTES ||
	    gpu->reserved_bytes > gpu->total_bytes || gpu->used_bytes > gpu->total_bytes)
		gpu->known &= ~(uint32_t)SAMPLER_MEMORY;
	s->n_procs = 0;
	s->has_gpu = gpu->index < SAMPLER_MAX_GPUS;
}

/* nobody holds more than there is */
static void judge_proc(const struct sampler_gpu *gpu, struct sampler_proc *p)
{
	if (p->bytes <= (gpu->known & SAMPLER_MEMORY ? gpu->total_bytes : MOST_BYTES))
		return;
	p->is_known = 0;
	p->bytes = 0;
}

static void take_gpu(struct sampler *s)
{
	if (s->n_procs != s->gpu.n_processes) /* something is missing */
		s->gpu.known &= ~(uint32_t)SAMPLER_PROCESSES;
	if (s->has_gpu)
		s->ops->gpu(s->context, &s->gpu, s->procs, s->n_procs);
	s->has_gpu = false;
}

static void take_procs(struct sampler *s, const struct sampler_procs *m)
{
	unsigned n = m->n <= SAMPLER_PROCS ? m->n : SAMPLER_PROCS;

	if (!s->has_gpu || s->n_procs + n > SAMPLER_MAX_PROCS)
		return;
	if (s->n_procs + n > s->room) {
		unsigned room = s->room + 4 * SAMPLER_PROCS;
		struct sampler_proc *grown = reallocarray(s->procs, room, sizeof(*grown));

		if (!grown) { /* an incomplete list must not count as complete */
			s->gpu.known &= ~(uint32_t)SAMPLER_PROCESSES;
			return;
		}
		s->procs = grown;
		s->room = room;
	}
	memcpy(s->procs + s->n_procs, m->procs, n * sizeof(m->procs[0]));
	for (unsigned i = 0; i < n; i++)
		judge_proc(&s->gpu, &s->procs[s->n_procs + i]);
	s->n_procs += n;
}

static void take_done(struct sampler *s, const struct sampler_done *m)
{
	take_gpu(s);
	s->is_asking = false;
	s->is_opened = true;
	s->pause_ns = 0;
	s->free_at_ns = 0;
	(void)sd_event_source_set_enabled(s->deadline, SD_EVENT_OFF); /* cannot fail */
	if (m->is_ok) {
		if (s->trouble[0])
			log_info("NVML answers");
		s->trouble[0] = '\0';
	} else {
		if (strcmp(s->trouble, m->text) != 0)
			log_warn("%s", m->text);
		(void)str_copy(s->trouble, sizeof(s->trouble), m->text);
		s->free_at_ns = clock_now_ns() + NS_PER_S;
	}
	s->ops->done(s->context, m);
}

static int on_answer(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	_Alignas(8) unsigned char buf[SAMPLER_PACKET_MAX];
	const struct sampler_head *head = (const void *)buf;
	struct sampler *s = userdata;

	(void)source, (void)revents;
	for (;;) {
		ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n <= 0) {
			abandon_child(s);
			fail(s, "allot-sampler ended");
			return 0;
		}
		if ((size_t)n < sizeof(*head) || !s->is_asking || head->sequence != s->sequence)
			continue; /* the late answer to a question given up */
		if (head->kind == SAMPLER_GPU && n == sizeof(struct sampler_gpu)) {
			take_gpu(s);
			begin_gpu(s, (const void *)buf);
		} else if (head->kind == SAMPLER_PROCS_OF_GPU &&
			   n == sizeof(struct sampler_procs)) {
			take_procs(s, (const void *)buf);
		} else if (head->kind == SAMPLER_DONE && n == sizeof(struct sampler_done)) {
			struct sampler_done *done = (void *)buf;

			done->text[sizeof(done->text) - 1] = '\0';
			take_done(s, done);
		}
	}
}

static int spawn_sampler(struct sampler *s)
{
	char *argv[] = { (char *)"allot-sampler", (char *)"--driver", (char *)s->driver_dir, NULL };
	struct child *c = calloc(1, sizeof(*c));
	AUTO_FD int ours = -1;
	int r;

	if (!c)
		return -ENOMEM;
	c->sampler = s;
	c->pidfd = -1;
	if (!s->driver_dir[0])
		argv[1] = NULL;
	r = helper_spawn(s->program, argv, &ours, &c->pid, &c->pidfd);
	if (r < 0) {
		child_free(c);
		return r;
	}
	r = sd_event_add_io(s->event, &c->death, c->pidfd, EPOLLIN, on_death, c);
	if (r >= 0)
		r = sd_event_add_io(s->event, &s->io, ours, EPOLLIN, on_answer, s);
	if (r < 0) {
		(void)kill(c->pid, SIGKILL);
		(void)waitpid(c->pid, NULL, 0); /* a fresh child: it cannot hang yet */
		child_free(c);
		return r;
	}
	s->child = c;
	s->sock = TAKE_FD(ours);
	s->is_opened = false;
	return 0;
}

bool sampler_is_free(const struct sampler *s)
{
	return !s->is_asking && (!s->free_at_ns || clock_now_ns() >= s->free_at_ns);
}

uint64_t sampler_free_at_ns(const struct sampler *s)
{
	return s->is_asking ? 0 : s->free_at_ns;
}

int sampler_ask(struct sampler *s, uint64_t gpus)
{
	struct sampler_request m = { .gpus = gpus };
	int r;

	if (!sampler_is_free(s))
		return -EBUSY;
	if (s->sock < 0) {
		unsigned n_old = 0;

		for (unsigned i = 0; i < SAMPLER_MAX_ZOMBIES; i++)
			n_old += s->old[i] != NULL;
		r = n_old == SAMPLER_MAX_ZOMBIES ? -EAGAIN : spawn_sampler(s);
		if (r < 0) {
			if (r != -EAGAIN)
				log_error("cannot start '%s': %s", s->program, strerror(-r));
			fail(s,
			     r == -EAGAIN ? "the driver hangs" : "allot-sampler cannot be started");
			return r;
		}
	}
	m.sequence = ++s->sequence;
	if (send(s->sock, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		r = -errno;
		abandon_child(s);
		fail(s, "allot-sampler does not listen");
		return r;
	}
	s->is_asking = true;
	s->is_late = false;
	return set_deadline(s, SAMPLER_LATE_NS);
}

bool sampler_is_opening(const struct sampler *s)
{
	return s->is_asking && !s->is_opened;
}

const char *sampler_trouble(const struct sampler *s)
{
	return s->trouble;
}

int sampler_new(sd_event *event, const char *driver_dir, const struct sampler_ops *ops,
		void *context, struct sampler **ret, struct err *err)
{
	static const char *const places[] = { "allot-sampler", "../libexec/allot/allot-sampler",
					      "../daemon/allot-sampler", NULL };
	struct sampler *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "no memory");
	s->event = event;
	s->ops = ops;
	s->context = context;
	s->driver_dir = driver_dir;
	s->sock = -1;
	r = paths_beside(places, s->program, sizeof(s->program));
	if (r < 0) {
		free(s);
		return err_set(err, r,
			       "allot-sampler is missing beside allotd: install allot whole");
	}
	r = sd_event_add_time_relative(event, &s->deadline, CLOCK_MONOTONIC, 0, 50000, on_deadline,
				       s);
	if (r >= 0)
		r = sd_event_source_set_enabled(s->deadline, SD_EVENT_OFF);
	if (r < 0) {
		sampler_free(s);
		return err_set(err, r, "cannot make a timer: %s", strerror(-r));
	}
	*ret = s;
	return 0;
}

struct sampler *sampler_free(struct sampler *s)
{
	if (!s)
		return NULL;
	if (s->child)
		(void)kill(s->child->pid, SIGKILL); /* init reaps it */
	child_free(s->child);
	for (unsigned i = 0; i < SAMPLER_MAX_ZOMBIES; i++)
		child_free(s->old[i]);
	sd_event_source_disable_unref(s->io);
	sd_event_source_disable_unref(s->deadline);
	if (s->sock >= 0)
		close(s->sock);
	free(s->procs);
	free(s);
	return NULL;
}
