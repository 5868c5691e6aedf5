// SPDX-License-Identifier: Apache-2.0
#include "cli/run_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/run_foreign.h"

#define WHEN_FULL_DEFAULT_NS (60 * NS_PER_S)

void run_request_init(struct wire_run *m)
{
	memset(m, 0, sizeof(*m));
	m->job_class = WIRE_CLASS_NORMAL;
	m->fail_policy = WIRE_FAIL_CLOSED;
	m->when_full_wait = 1;
	m->when_full_ns = WHEN_FULL_DEFAULT_NS;
	m->admit_wait_ns = UINT64_MAX;
	m->n_gpus = 1;
	m->compute_max_permille = 1000;
	/* until somebody says something; the values are what a configuration without a word says */
	m->flags = WIRE_RUN_USUAL_VRAM | WIRE_RUN_USUAL_CLASS | WIRE_RUN_USUAL_WHEN_FULL |
		   WIRE_RUN_USUAL_FAIL_POLICY | WIRE_RUN_USUAL_WAIT;
}

int run_request_vram(struct wire_run *m, const char *value, struct err *err)
{
	struct parse_amount request, limit;
	int r = parse_vram(value, &request, &limit, err);

	if (r < 0)
		return r;
	m->request = (struct wire_amount){ .bytes = request.bytes, .permille = request.permille };
	m->limit = (struct wire_amount){ .bytes = limit.bytes, .permille = limit.permille };
	m->flags &= ~WIRE_RUN_USUAL_VRAM;
	return 0;
}

int run_request_class(struct wire_run *m, const char *value, struct err *err)
{
	static const char *const names[] = { "latency", "normal", "batch", NULL };
	const char *near;

	for (unsigned i = 0; names[i]; i++) {
		if (strcmp(value, names[i]) == 0) {
			m->job_class = i;
			m->flags &= ~WIRE_RUN_USUAL_CLASS;
			return 0;
		}
	}
	near = str_nearest(value, names);
	return err_set(err, -EINVAL, "class '%s' is none of latency, normal, batch%s%s%s", value,
		       near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

int run_request_when_full(struct wire_run *m, const char *value, struct err *err)
{
	m->flags &= ~WIRE_RUN_USUAL_WHEN_FULL;
	if (strcmp(value, "fail") == 0) {
		m->when_full_wait = 0;
		m->when_full_ns = 0;
		return 0;
	}
	if (strcmp(value, "wait") == 0) {
		m->when_full_wait = 1;
		m->when_full_ns = WHEN_FULL_DEFAULT_NS;
		return 0;
	}
	if (!str_starts_with(value, "wait="))
		return err_set(err, -EINVAL, "'%s' is neither wait, wait=TIME nor fail", value);
	m->when_full_wait = 1;
	return parse_duration(value + 5, &m->when_full_ns, err);
}

int run_request_fail_policy(struct wire_run *m, const char *value, struct err *err)
{
	m->flags &= ~WIRE_RUN_USUAL_FAIL_POLICY;
	if (strcmp(value, "closed") == 0)
		m->fail_policy = WIRE_FAIL_CLOSED;
	else if (strcmp(value, "open") == 0)
		m->fail_policy = WIRE_FAIL_OPEN;
	else
		return err_set(err, -EINVAL, "fail policy '%s' is neither closed nor open", value);
	return 0;
}

int run_request_wait(struct wire_run *m, const char *value, struct err *err)
{
	m->flags &= ~WIRE_RUN_USUAL_WAIT;
	return parse_duration(value, &m->admit_wait_ns, err);
}

int run_request_env(struct wire_run *m, bool has_vram, bool has_class, struct err *err)
{
	const char *vram = has_vram ? NULL : secure_getenv("ALLOT_VRAM");
	const char *class = has_class ? NULL : secure_getenv("ALLOT_CLASS");
	const char *compute = secure_getenv("ALLOT_COMPUTE");
	int r;

	if (vram && *vram) {
		r = run_request_vram(m, vram, err);
		if (r < 0)
			return err_prefix(err, r, "ALLOT_VRAM");
	} else if (!has_vram) {
		r = run_foreign_vram(m, err);
		if (r < 0)
			return r;
	}
	if (class && *class) {
		r = run_request_class(m, class, err);
		if (r < 0)
			return err_prefix(err, r, "ALLOT_CLASS");
	}
	if (compute && *compute)
		return err_set(err, -ENOTSUP,
			       "ALLOT_COMPUTE: '%.40s' asks for a share of GPU time, which this "
			       "version cannot hold: unset it",
			       compute);
	return 0;
}

int run_request_visible(struct wire_run *m, bool has_gpus, struct err *err)
{
	const char *list = secure_getenv("CUDA_VISIBLE_DEVICES");
	const char *ours = secure_getenv("ALLOT_GPU_UUIDS");

	if (m->gpu[0] || !list || (ours && strcmp(list, ours) == 0))
		return 0;
	if (!str_copy(m->gpu, sizeof(m->gpu), list)) {
		m->gpu[0] = '\0';
		return err_set(
			err, -E2BIG,
			"CUDA_VISIBLE_DEVICES: '%.40s…' has more than %d bytes: name GPUs by "
			"the beginnings of their UUIDs, or by --gpu",
			list, WIRE_TEXT_MAX - 1);
	}
	m->flags |= WIRE_RUN_VISIBLE;
	if (!has_gpus)
		m->n_gpus = 0;
	return 0;
}

void run_request_command(struct wire_run *m, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	size_t len = 0;

	if (!m->name[0])
		(void)str_copy(m->name, sizeof(m->name), slash && slash[1] ? slash + 1 : argv[0]);
	for (; *argv && len + 1 < sizeof(m->command); argv++) {
		if (!str_print(m->command + len, sizeof(m->command) - len, "%s%s", len ? " " : "",
			       *argv))
			break; /* cut: it is for people */
		len = strlen(m->command);
	}
	str_printable(m->command);
	str_printable(m->name);
}
