// SPDX-License-Identifier: Apache-2.0
#include "daemon/commands.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "gpu/proc.h"
#include "wire/wire.h"

/* one thread and its question; the lock guards all but `text`, which is the asker's once it is done
 */
struct reader {
	struct commands *all;
	pthread_t thread;
	bool is_there;    /* the thread was started */
	bool is_asked;    /* … and has something to read, or reads it */
	bool is_given_up; /* nobody waits for this answer */
	const char *root;
	pid_t pid;
	int result;
	char text[WIRE_COMMAND_MAX];
};

struct commands {
	pthread_mutex_t lock;
	pthread_cond_t asked;    /* a reader has a question, or all shall end */
	pthread_cond_t answered; /* on CLOCK_MONOTONIC */
	bool is_ending;
	bool is_left; /* … and nobody waits for that: the last thread takes all away */
	unsigned n_there;
	struct reader readers[COMMANDS_THREADS];
};

static void destroy(struct commands *c)
{
	pthread_cond_destroy(&c->answered);
	pthread_cond_destroy(&c->asked);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void *read_on(void *context)
{
	struct reader *r = context;
	struct commands *c = r->all;
	bool is_last;

	pthread_mutex_lock(&c->lock);
	while (!c->is_ending) {
		if (!r->is_asked) {
			pthread_cond_wait(&c->asked, &c->lock);
			continue;
		}
		pthread_mutex_unlock(&c->lock);
		r->result = proc_command(r->root, r->pid, r->text, sizeof(r->text));
		pthread_mutex_lock(&c->lock);
		r->is_asked = false;
		r->is_given_up = false;
		pthread_cond_signal(&c->answered);
	}
	is_last = --c->n_there == 0 && c->is_left;
	pthread_mutex_unlock(&c->lock);
	if (is_last)
		destroy(c);
	return NULL;
}

int commands_new(struct commands **ret)
{
	struct commands *c = calloc(1, sizeof(*c));
	pthread_condattr_t monotonic;

	if (!c)
		return -ENOMEM;
	/* none of these fails with what they are given here */
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_cond_init(&c->asked, NULL);
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&c->answered, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	*ret = c;
	return 0;
}

struct commands *commands_free(struct commands *c)
{
	pthread_t threads[COMMANDS_THREADS];
	bool hangs = false;
	unsigned n = 0;

	if (!c)
		return NULL;
	pthread_mutex_lock(&c->lock);
	c->is_ending = true;
	pthread_cond_broadcast(&c->asked);
	for (unsigned i = 0; i < COMMANDS_THREADS; i++) {
		hangs = hangs || c->readers[i].is_asked;
		if (c->readers[i].is_there)
			threads[n++] = c->readers[i].thread;
	}
	c->is_left = hangs; /* from now on theirs */
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < n; i++) {
		if (hangs)
			(void)pthread_detach(threads[i]);
		else
			(void)pthread_join(threads[i], NULL);
	}
	if (!hangs)
		destroy(c);
	return NULL;
}

/* signals are the loop's */
static bool start(struct commands *c, struct reader *r)
{
	sigset_t all, before;
	int e;

	r->all = c;
	sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	e = pthread_create(&r->thread, NULL, read_on, r);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	r->is_there = e == 0;
	c->n_there += r->is_there;
	return r->is_there;
}

static struct reader *find_idle(struct commands *c)
{
	for (unsigned i = 0; i < COMMANDS_THREADS; i++) {
		struct reader *r = &c->readers[i];

		if (!r->is_asked && (r->is_there || start(c, r)))
			return r;
	}
	return NULL;
}

/* is somebody stuck with this very process? Then nobody else shall be */
static bool hangs_at(const struct commands *c, pid_t pid)
{
	for (unsigned i = 0; i < COMMANDS_THREADS; i++)
		if (c->readers[i].is_given_up && c->readers[i].pid == pid)
			return true;
	return false;
}

/* true: the answer is there */
static bool ask(struct commands *c, struct reader *r, const char *root, pid_t pid)
{
	uint64_t end = clock_now_ns() + COMMANDS_WAIT_NS;
	const struct timespec until = { .tv_sec = (time_t)(end / NS_PER_S),
					.tv_nsec = (long)(end % NS_PER_S) };

	r->root = root;
	r->pid = pid;
	r->is_asked = true;
	pthread_cond_broadcast(&c->asked);
	while (r->is_asked && pthread_cond_timedwait(&c->answered, &c->lock, &until) != ETIMEDOUT)
		;
	r->is_given_up = r->is_asked;
	return !r->is_asked;
}

int commands_read(struct commands *c, const char *proc_root, pid_t pid, char *buf, size_t size)
{
	struct reader *r;
	int result = -EAGAIN;

	pthread_mutex_lock(&c->lock);
	r = hangs_at(c, pid) ? NULL : find_idle(c);
	if (r && ask(c, r, proc_root, pid)) {
		result = r->result;
		(void)str_copy(buf, size, r->text); /* cut when it is long */
	}
	pthread_mutex_unlock(&c->lock);
	if (result != -EAGAIN)
		return result;
	result = proc_name(proc_root, pid, buf, size);
	return result < 0 ? result : -EAGAIN;
}
