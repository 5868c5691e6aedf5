// SPDX-License-Identifier: Apache-2.0
#include "daemon/pages.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "daemon/credit.h"

#define PAGES_AT_ONCE 4 /* made in one turn of the loop */
#define PAGES_LOOK_US ((uint64_t)60 * 1000000)
#define PAGES_FD_PART 8 /* the stock holds at most one of so many descriptors */

struct ready {
	struct credit_page *page;
	int fd;
	uint64_t inode;
};

struct pages {
	sd_event_source *fill;
	sd_event_source *look; /* is less enough? */
	unsigned n;
	unsigned target;
	unsigned max;
	unsigned missed; /* taken from an empty stock since it was last full */
	unsigned lowest; /* the fewest there were since the last look */
	struct ready ready[PAGES_STOCK_MAX];
};

static void drop_to(struct pages *pages, unsigned n)
{
	while (pages->n > n) {
		struct ready *last = &pages->ready[--pages->n];

		credit_page_unmap(last->page);
		close(last->fd);
	}
	pages->lowest = pages->n < pages->lowest ? pages->n : pages->lowest;
}

static unsigned at_most(unsigned n, unsigned max)
{
	return n < max ? n : max;
}

static int look_again(struct pages *pages)
{
	int r = sd_event_source_set_time_relative(pages->look, PAGES_LOOK_US);

	return r < 0 ? r : sd_event_source_set_enabled(pages->look, SD_EVENT_ONESHOT);
}

/* nothing else to do */
static int on_fill(sd_event_source *source, void *userdata)
{
	struct pages *pages = userdata;

	if (pages->missed > 0) {
		pages->target = at_most(pages->target + pages->missed, pages->max);
		pages->missed = 0;
		pages->lowest = 0;
		if (pages->target > PAGES_STOCK && look_again(pages) < 0)
			pages->target = at_most(PAGES_STOCK, pages->max);
	}
	for (unsigned i = 0; i < PAGES_AT_ONCE && pages->n < pages->target; i++) {
		struct ready *next = &pages->ready[pages->n];

		if (credit_page_make(&next->page, &next->fd, &next->inode) < 0)
			return 0; /* no descriptors, no memory: after the next one that is taken */
		pages->n++;
	}
	return pages->n < pages->target ? sd_event_source_set_enabled(source, SD_EVENT_ONESHOT) : 0;
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct pages *pages = userdata;
	unsigned least = at_most(PAGES_STOCK, pages->max);

	(void)source, (void)usec;
	pages->target = (unsigned)size_max(size_sat_sub(pages->target, pages->lowest), least);
	drop_to(pages, pages->target);
	pages->lowest = pages->n;
	return pages->target > least ? look_again(pages) : 0;
}

static unsigned stock_allowed(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 0;
	return (unsigned)size_min(limit.rlim_cur / PAGES_FD_PART, PAGES_STOCK_MAX);
}

int pages_new(sd_event *event, struct pages **ret)
{
	struct pages *pages = calloc(1, sizeof(*pages));
	int r;

	if (!pages)
		return -ENOMEM;
	pages->max = stock_allowed();
	pages->target = at_most(PAGES_STOCK, pages->max);
	r = sd_event_add_defer(event, &pages->fill, on_fill, pages); /* fills once by itself */
	if (r >= 0)
		r = sd_event_source_set_priority(pages->fill, SD_EVENT_PRIORITY_IDLE);
	if (r >= 0)
		r = sd_event_add_time_relative(event, &pages->look, CLOCK_MONOTONIC, 0,
					       PAGES_LOOK_US / 10, on_look, pages);
	if (r >= 0)
		r = sd_event_source_set_enabled(pages->look, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_source_set_priority(pages->look, SD_EVENT_PRIORITY_IDLE);
	if (r < 0) {
		pages_free(pages);
		return r;
	}
	*ret = pages;
	return 0;
}

struct pages *pages_free(struct pages *pages)
{
	if (!pages)
		return NULL;
	drop_to(pages, 0);
	sd_event_source_disable_unref(pages->fill);
	sd_event_source_disable_unref(pages->look);
	free(pages);
	return NULL;
}

int pages_take(struct pages *pages, struct credit_page **ret, int *ret_fd, uint64_t *ret_inode)
{
	struct ready *r;

	(void)sd_event_source_set_enabled(pages->fill, SD_EVENT_ONESHOT); /* cannot fail */
	if (pages->n == 0) {
		pages->missed++;
		return credit_page_make(ret, ret_fd, ret_inode);
	}
	r = &pages->ready[--pages->n];
	pages->lowest = at_most(pages->n, pages->lowest);
	*ret = r->page;
	*ret_fd = r->fd;
	*ret_inode = r->inode;
	return 0;
}

void pages_drop(struct pages *pages)
{
	drop_to(pages, 0);
}

unsigned pages_ready(const struct pages *pages)
{
	return pages->n;
}
