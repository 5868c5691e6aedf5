// SPDX-License-Identifier: Apache-2.0
#include "daemon/drops.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct drops {
	pthread_mutex_t lock;
	pthread_cond_t more;
	bool is_ending;
	unsigned n_there; /* threads, idle or not */
	unsigned n_idle;
	unsigned n;
	int queue[DROPS_QUEUE];
};

static void destroy(struct drops *d)
{
	pthread_cond_destroy(&d->more);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

static void *close_on(void *context)
{
	struct drops *d = context;
	bool is_last;

	pthread_mutex_lock(&d->lock);
	for (;;) {
		int fd;

		if (d->n == 0 && d->is_ending)
			break;
		if (d->n == 0) {
			d->n_idle++;
			pthread_cond_wait(&d->more, &d->lock);
			d->n_idle--;
			continue;
		}
		fd = d->queue[--d->n];
		pthread_mutex_unlock(&d->lock);
		close(fd);
		pthread_mutex_lock(&d->lock);
	}
	is_last = --d->n_there == 0;
	pthread_mutex_unlock(&d->lock);
	if (is_last)
		destroy(d);
	return NULL;
}

struct drops *drops_new(void)
{
	struct drops *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	/* neither fails without attributes */
	(void)pthread_mutex_init(&d->lock, NULL);
	(void)pthread_cond_init(&d->more, NULL);
	return d;
}

struct drops *drops_free(struct drops *d)
{
	bool is_alone;

	if (!d)
		return NULL;
	pthread_mutex_lock(&d->lock);
	d->is_ending = true;
	is_alone = d->n_there == 0;
	pthread_cond_broadcast(&d->more);
	pthread_mutex_unlock(&d->lock);
	if (is_alone) /* else the last thread takes it away */
		destroy(d);
	return NULL;
}

/* signals are the loop's; the lock is held */
static void start(struct drops *d)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;

	if (pthread_attr_init(&attr))
		return;
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED); /* it is a valid one */
	sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, &attr, close_on, d) == 0)
		d->n_there++;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
}

/* a memfd is the kernel's own */
static bool is_harmless(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

void drops_close(struct drops *d, int fd)
{
	if (is_harmless(fd)) {
		close(fd);
		return;
	}
	pthread_mutex_lock(&d->lock);
	/* full all the same: it stays open, and is one of few */
	if (d->n < DROPS_QUEUE)
		d->queue[d->n++] = fd;
	if (d->n > d->n_idle && d->n_there < DROPS_THREADS)
		start(d);
	pthread_cond_signal(&d->more);
	pthread_mutex_unlock(&d->lock);
}

bool drops_is_full(struct drops *d)
{
	bool is_full;

	pthread_mutex_lock(&d->lock);
	is_full = d->n >= DROPS_QUEUE / 2; /* one packet brings a few */
	pthread_mutex_unlock(&d->lock);
	return is_full;
}
