// SPDX-License-Identifier: Apache-2.0
#include "cli/run_foreign.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/run_request.h"

#define NAME "CUDA_DEVICE_MEMORY_LIMIT"

struct foreign {
	const char *text; /* NULL: not said */
	char name[sizeof(NAME) + 4];
	struct wire_run amounts; /* its request and limit */
};

static int read_amount(struct foreign *f, struct err *err)
{
	char sized[48];
	uint64_t bytes;

	if (f->text[0] && f->text[strspn(f->text, "0123456789")] == '\0') {
		/* bytes, as they read it; so few are a forgotten unit */
		if (parse_u64(f->text, MIB, (uint64_t)1 << 60, &bytes, NULL) < 0)
			return err_set(err, -EINVAL,
				       "'%.40s' is that many bytes: write it with its unit, as in "
				       "3000m or 8g",
				       f->text);
		/* whole KiB above: nobody is given less than was meant */
		(void)str_print(sized, sizeof(sized), "%lluK",
				(unsigned long long)((bytes + KIB - 1) / KIB));
		return run_request_vram(&f->amounts, sized, err);
	}
	return run_request_vram(&f->amounts, f->text, err);
}

static int get(struct foreign *f, int index, struct err *err)
{
	int r;

	if (index < 0)
		(void)str_copy(f->name, sizeof(f->name), NAME);
	else
		(void)str_print(f->name, sizeof(f->name), NAME "_%d", index);
	f->text = secure_getenv(f->name);
	if (f->text && !*f->text)
		f->text = NULL;
	r = f->text ? read_amount(f, err) : 0;
	return r < 0 ? err_prefix(err, r, "%s", f->name) : 0;
}

static bool is_same(const struct foreign *a, const struct foreign *b)
{
	if (!a->text || !b->text)
		return a->text == b->text;
	return memcmp(&a->amounts.request, &b->amounts.request, sizeof(a->amounts.request)) == 0 &&
	       memcmp(&a->amounts.limit, &b->amounts.limit, sizeof(a->amounts.limit)) == 0;
}

/* of the GPUs that the job will have; a list that was only named counts by its words */
static unsigned count_gpus(const struct wire_run *m)
{
	unsigned n = 1;

	if (m->n_gpus)
		return m->n_gpus < WIRE_MAX_GPUS ? m->n_gpus : WIRE_MAX_GPUS;
	for (const char *p = m->gpu; *p; p++)
		n += *p == ',';
	return n < WIRE_MAX_GPUS ? n : WIRE_MAX_GPUS;
}

int run_foreign_vram(struct wire_run *m, struct err *err)
{
	struct foreign all = { 0 }, first = { 0 };
	unsigned n = count_gpus(m);
	int r = get(&all, -1, err);

	for (int i = 0; r == 0 && i < WIRE_MAX_GPUS; i++) {
		struct foreign one = { 0 };

		r = get(&one, i, err);
		if (r < 0 || i >= (int)n)
			continue; /* beyond the job's GPUs: it must be readable, no more */
		if (!one.text)
			one = all;
		if (i == 0)
			first = one;
		else if (!is_same(&first, &one))
			return err_set(err, -ENOTSUP,
				       NAME
				       "_0 (%.24s) and " NAME "_%d (%.24s) differ, and a job "
				       "has the same amount on each of its GPUs: say it by --vram",
				       first.text ? first.text : "not said", i,
				       one.text ? one.text : "not said");
	}
	if (r < 0 || !first.text)
		return r;
	m->request = first.amounts.request;
	m->limit = first.amounts.limit;
	m->flags &= ~WIRE_RUN_USUAL_VRAM;
	return 0;
}
