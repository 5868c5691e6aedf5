// SPDX-License-Identifier: Apache-2.0
#include "cli/job_watch.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/size.h"
#include "cli/session.h"
#include "client/find.h"

#define ASK_AGAIN_NS   (30 * NS_PER_S)
#define COMES_AGAIN_NS (30 * NS_PER_S) /* an allotd that is away */
#define LOOK_AGAIN_NS  (100 * NS_PER_MS)

int parse_job(const char *verb, const char *word, uint64_t *ret)
{
	struct err err = { 0 };

	if (parse_u64(word, 1, INT64_MAX, ret, &err) == 0)
		return 0;
	complain(verb, "job %s", err.text);
	return WIRE_CODE_USAGE;
}

bool job_watch_has_ended(const struct job_watch *w)
{
	return w->job.state == WIRE_JOB_ENDED || w->job.state == WIRE_JOB_ENDING;
}

/* a new connection, and the first answer; 0 or -errno with @err filled */
static int ask(struct job_watch *w, struct err *err)
{
	struct wire_wait m = { .job_id = w->job_id };
	struct client_place place;
	int r = client_find(w->common->socket, &place, err);

	client_fini(&w->c);
	if (r == 0)
		r = client_connect_within(&place, SESSION_TIMEOUT_NS, err);
	if (r < 0)
		return r;
	client_init(&w->c, r);
	w->asked_ns = clock_now_ns();
	return client_call(&w->c, WIRE_WAIT, &m, WIRE_JOB, &w->job, SESSION_TIMEOUT_NS, err);
}

int job_watch_begin(struct job_watch *w, const char *verb, const struct common *common,
		    uint64_t job_id)
{
	struct err err = { 0 };
	int r;

	memset(w, 0, sizeof(*w));
	w->verb = verb;
	w->common = common;
	w->job_id = job_id;
	w->c.sock = -1;
	r = ask(w, &err);
	return r < 0 ? session_failed(verb, &w->c, r, &err) : 0;
}

/* allotd went away: ask again, for a while */
static int come_back(struct job_watch *w, uint64_t timeout_ns)
{
	uint64_t now = clock_now_ns();
	struct err err = { 0 };
	int r;

	if (!w->lost_ns)
		w->lost_ns = now;
	r = ask(w, &err);
	if (r == 0) {
		w->lost_ns = 0;
		return job_watch_has_ended(w);
	}
	if (r == -EREMOTEIO || now - w->lost_ns > COMES_AGAIN_NS)
		return -session_failed(w->verb, &w->c, r, &err);
	(void)poll(NULL, 0, (int)(size_min(LOOK_AGAIN_NS, timeout_ns) / NS_PER_MS));
	return 0;
}

int job_watch_wait(struct job_watch *w, uint64_t timeout_ns)
{
	struct err err = { 0 };
	int r;

	if (job_watch_has_ended(w))
		return 1;
	if (w->lost_ns || clock_now_ns() - w->asked_ns > ASK_AGAIN_NS)
		return come_back(w, timeout_ns);
	r = client_answer(&w->c, size_min(timeout_ns, ASK_AGAIN_NS), &err);
	packet_close_fds(&w->c.in);
	if (r == -ETIMEDOUT)
		return 0;
	if (r != WIRE_JOB)
		return come_back(w, timeout_ns);
	w->job = *(const struct wire_job *)w->c.in.msg.payload;
	return job_watch_has_ended(w);
}

void job_watch_fini(struct job_watch *w)
{
	client_fini(&w->c);
}
