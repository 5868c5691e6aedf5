// SPDX-License-Identifier: Apache-2.0
#include "daemon/change.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "policy/ledger.h"

#define CHANGE_WAIT_DEFAULT_NS (60 * NS_PER_S)

static enum wire_code refuse(struct err *err, enum wire_code code, const char *why,
			     const char *value)
{
	(void)err_set(err, -EINVAL, "%s '%s'", why, value); /* the code goes back */
	return code;
}

/* an amount in bytes on one card */
static uint64_t bytes_on(const struct ledger_amount *a, uint64_t total)
{
	return a->bytes ? a->bytes : total / 1000 * a->permille;
}

/* would this give the job more on any of its cards? */
static bool is_wider(const struct daemon *d, const struct job *job,
		     const struct ledger_job_change *c)
{
	unsigned numbers[LEDGER_MAX_SLOTS];
	unsigned n = ledger_job_slots(job->lease, numbers);

	for (unsigned i = 0; i < n; i++) {
		uint64_t total = gpus_at(d->gpus, numbers[i])->last.total_bytes;
		struct ledger_job_figures f;

		if (ledger_job_figures(d->ledger, job->lease, i, &f) < 0)
			return true;
		if (bytes_on(&c->request, total) > f.request_bytes)
			return true;
		if (!c->limit.bytes && !c->limit.permille
			    ? f.has_limit
			    : bytes_on(&c->limit, total) > f.limit_bytes)
			return true;
	}
	return false;
}

static int read_vram(const char *value, struct ledger_job_change *c, struct err *err)
{
	struct parse_amount request, limit;
	int r = parse_vram(value, &request, &limit, err);

	if (r < 0)
		return r;
	c->has_request = c->has_limit = true;
	c->request = (struct ledger_amount){ request.bytes, request.permille };
	c->limit = (struct ledger_amount){ limit.bytes, limit.permille };
	return 0;
}

static int read_class(const char *value, struct ledger_job_change *c, struct err *err)
{
	static const char *const names[] = { "latency", "normal", "batch" };

	for (unsigned i = 0; i < LEDGER_CLASS_COUNT; i++) {
		if (strcmp(value, names[i]) == 0) {
			c->has_class = true;
			c->job_class = (enum ledger_class)i;
			return 0;
		}
	}
	return err_set(err, -EINVAL, "class '%s' is none of latency, normal, batch", value);
}

static int read_when_full(const char *value, struct ledger_job_change *c, struct err *err)
{
	c->has_when_full = true;
	c->may_wait = true;
	c->when_full_ns = CHANGE_WAIT_DEFAULT_NS;
	if (strcmp(value, "fail") == 0)
		c->may_wait = false;
	else if (str_starts_with(value, "wait="))
		return parse_duration(value + 5, &c->when_full_ns, err);
	else if (strcmp(value, "wait") != 0)
		return err_set(err, -EINVAL, "when-full '%s' is neither wait[=TIME] nor fail",
			       value);
	return 0;
}

static enum wire_code change_name(struct job *job, const char *value, struct err *err)
{
	char name[WIRE_NAME_MAX];

	if (!*value || !str_copy(name, sizeof(name), value))
		return refuse(err, WIRE_CODE_USAGE, "a name has 1 to 63 bytes, not", value);
	str_printable(name);
	memcpy(job->spec.name, name, sizeof(name));
	return 0;
}

/* the stored specification follows what the ledger took */
static void note(struct job *job, const struct ledger_job_change *c)
{
	if (c->has_request)
		job->spec.request =
			(struct wire_amount){ c->request.bytes, c->request.permille, 0 };
	if (c->has_limit)
		job->spec.limit = (struct wire_amount){ c->limit.bytes, c->limit.permille, 0 };
	if (c->has_class)
		job->spec.job_class = (uint32_t)c->job_class;
	if (c->has_when_full) {
		job->spec.may_wait = c->may_wait;
		job->spec.when_full_ns = c->when_full_ns;
	}
}

enum wire_code change_job(struct daemon *d, struct job *job, const char *key, const char *value,
			  bool only_narrower, struct err *err)
{
	struct ledger_job_change c = { 0 };
	char why[LEDGER_TEXT_MAX] = "";
	int r;

	if (strcmp(key, "name") == 0)
		return change_name(job, value, err);
	if (strcmp(key, "vram") == 0)
		r = read_vram(value, &c, err);
	else if (strcmp(key, "class") == 0)
		r = read_class(value, &c, err);
	else if (strcmp(key, "when-full") == 0)
		r = read_when_full(value, &c, err);
	else
		return refuse(err, WIRE_CODE_USAGE, "vram, class, when-full, name can be set, not",
			      key);
	if (r < 0)
		return WIRE_CODE_USAGE;
	if (!job->is_admitted)
		return refuse(err, WIRE_CODE_FAILED,
			      "the job still waits for its place; cannot set", key);
	if (only_narrower && ((c.has_limit && is_wider(d, job, &c)) ||
			      (c.has_class && (uint32_t)c.job_class < job->spec.job_class)))
		return refuse(err, WIRE_CODE_NOT_PERMITTED,
			      "from inside a job its part can only be made smaller, not", value);
	r = ledger_job_set(d->ledger, job->lease, &c, clock_now_ns(), why);
	if (r < 0) {
		(void)err_set(err, r, "%s", why[0] ? why : strerror(-r)); /* the code goes back */
		return r == -EINVAL   ? WIRE_CODE_USAGE
		       : r == -EDQUOT ? WIRE_CODE_NEVER_FITS
				      : WIRE_CODE_FAILED;
	}
	note(job, &c);
	return 0;
}
