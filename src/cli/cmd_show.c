// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/gpu_row.h"
#include "cli/job_row.h"
#include "cli/job_watch.h"
#include "cli/names.h"
#include "cli/ps_row.h"
#include "cli/session.h"

static const struct opt opts[] = {
	OPT_OUTPUT,
	OPT_COMMON,
};

struct show {
	struct common common;
	struct client c;
	struct printer processes; /* under a job's sheet */
	unsigned n_processes;
	json_t *items; /* the same for programs */
	const char *gpu;
	struct wire_status_item found[2]; /* more than one is too many */
	unsigned n_found;
};

/* ---- the node ---- */

struct node_row {
	struct wire_daemon_info info; /* texts printable */
	char host[80], kernel[80], allot[32], user[64], mode[32], driver_dir[WIRE_PATH_MAX];
	bool is_simulated, is_nvml_ok;
	uint64_t total_bytes, used_bytes, grantable_bytes;
};

#define F(field, member, json) \
	.kind = FIELD_##field, .offset = offsetof(struct node_row, member), .name = (json)

static const struct field node_fields[] = {
	{ F(TEXT, host, "host"), .title = "Host" },
	{ F(TEXT, kernel, "kernel"), .title = "Kernel" },
	{ F(TEXT, allot, "allot"), .title = "allot" },
	{ F(TEXT, info.version, "allotd"), .title = "allotd" },
	{ F(PID, info.pid, "pid"), .title = "Process" },
	{ F(TEXT, user, "user"), .title = "Runs as" },
	{ F(TEXT, mode, "mode"), .title = "Mode" },
	{ F(NS, info.uptime_ns, "uptime_s"), .title = "Up for" },
	{ F(TEXT, info.socket, "socket"), .title = "Socket" },
	{ F(TEXT, info.state_dir, "state_dir"), .title = "State" },
	{ F(TEXT, info.driver_version, "driver"), .title = "Driver" },
	{ F(TEXT, driver_dir, "driver_dir"), .title = "Driver folder" },
	{ F(BOOL, is_simulated, "simulated"), .title = "Simulated" },
	{ F(BOOL, is_nvml_ok, "nvml_ok"), .title = "NVML answers" },
	{ F(U32, info.n_gpus, "gpus_count"), .title = "GPUs" },
	{ F(U32, info.n_jobs, "jobs_count"), .title = "Jobs" },
	{ F(U32, info.n_clients, "processes_count"), .title = "Processes" },
	{ F(BYTES, total_bytes, "vram_total_bytes"), .title = "VRAM" },
	{ F(BYTES, used_bytes, "vram_used_bytes"), .title = "VRAM used" },
	{ F(BYTES, grantable_bytes, "vram_grantable_bytes"), .title = "Free to promise" },
	{ F(TEXT, info.trouble, "trouble"), .title = "Trouble" },
};

static const struct object node_object = OBJECT("Node", node_fields);

static int sum_gpu(const void *item, void *arg)
{
	const struct wire_status_item *it = item;
	struct node_row *row = arg;

	row->grantable_bytes = size_sat_add(row->grantable_bytes, it->vram_grantable_bytes);
	if (it->flags & WIRE_STATUS_MIG)
		return 0; /* its card is in the sum */
	row->total_bytes = size_sat_add(row->total_bytes, it->vram_total_bytes);
	row->used_bytes = it->vram_used_bytes == WIRE_UNKNOWN_U64
				  ? WIRE_UNKNOWN_U64
				  : size_sat_add(row->used_bytes, it->vram_used_bytes);
	return 0;
}

static void fill_node(struct node_row *row)
{
	struct wire_daemon_info *info = &row->info;
	struct utsname u;

	str_printable(info->version);
	str_printable(info->driver_version);
	str_printable(info->driver_dir);
	str_printable(info->state_dir);
	str_printable(info->socket);
	str_printable(info->trouble);
	if (uname(&u) == 0) {
		(void)str_copy(row->host, sizeof(row->host), u.nodename);
		(void)str_print(row->kernel, sizeof(row->kernel), "%s %s %s", u.sysname, u.release,
				u.machine);
	}
	(void)str_copy(row->allot, sizeof(row->allot), ALLOT_VERSION);
	(void)str_copy(row->mode, sizeof(row->mode), info->system ? "system" : "user");
	(void)str_copy(row->driver_dir, sizeof(row->driver_dir), info->driver_dir);
	name_user(info->uid, row->user, sizeof(row->user));
	row->is_simulated = info->simulated != 0;
	row->is_nvml_ok = info->nvml_ok != 0;
}

/* ---- one item, in the form that was asked for ---- */

static int print_item(const struct show *s, const struct object *object, const void *row)
{
	struct printer printer;

	if (s->common.output == OUTPUT_TABLE) {
		sheet_print(object, row, stdout);
		return 0;
	}
	printer_begin(&printer, &s->common, object);
	if (printer_add(&printer, row) < 0) {
		complain("show", "out of memory");
		printer_drop(&printer);
		return WIRE_CODE_FAILED;
	}
	return printer_end(&printer);
}

static int show_node(struct show *s)
{
	struct wire_daemon ask = { 0 };
	struct wire_status status = { 0 };
	struct node_row row = { .total_bytes = 0 };
	struct err err = { 0 };
	int r = client_call(&s->c, WIRE_DAEMON, &ask, WIRE_DAEMON_INFO, &row.info,
			    SESSION_TIMEOUT_NS / 2, &err);

	if (r == 0)
		r = client_list(&s->c, WIRE_STATUS, &status, WIRE_STATUS_ITEM, sum_gpu, &row,
				SESSION_TIMEOUT_NS / 2, &err);
	if (r < 0)
		return session_failed("show", &s->c, r, &err);
	fill_node(&row);
	return print_item(s, &node_object, &row);
}

/* ---- a job ---- */

static int add_process(struct show *s, const struct wire_ps_item *item)
{
	struct ps_row row;

	if (item->flags & WIRE_PS_NO_GPU)
		return 0; /* a line for a job that holds nothing */
	ps_row_fill(&row, item);
	s->n_processes++;
	if (s->common.output == OUTPUT_TABLE)
		return printer_add(&s->processes, &row);
	return json_array_append_new(s->items, fields_json(&ps_object, &row));
}

static int read_job(struct show *s, uint64_t id, struct wire_job *ret, struct err *err)
{
	struct wire_show ask = { .job_id = id };
	int r = client_ask(&s->c, WIRE_SHOW, &ask, err);

	while (r >= 0) {
		r = client_answer(&s->c, SESSION_TIMEOUT_NS, err);
		if (r == WIRE_END)
			return 0;
		if (r == WIRE_JOB)
			*ret = *(const struct wire_job *)s->c.in.msg.payload;
		else if (r == WIRE_PS_ITEM)
			(void)add_process(s, s->c.in.msg.payload); /* no memory: a shorter list */
		else if (r >= 0)
			return err_set(err, -EBADMSG, "allotd answered with an unexpected %s",
				       wire_name((unsigned)r));
	}
	return r;
}

static int show_job(struct show *s, const char *word)
{
	struct wire_job job = { 0 };
	struct err err = { 0 };
	struct job_row row;
	uint64_t id;
	int r = parse_job("show", word, &id);

	if (r)
		return r;
	s->items = json_array();
	if (s->common.output == OUTPUT_TABLE)
		printer_begin(&s->processes, &s->common, &ps_object);
	r = read_job(s, id, &job, &err);
	if (r < 0) {
		r = session_failed("show", &s->c, r, &err);
	} else {
		job_row_fill(&row, &job);
		row.processes = json_incref(s->items);
		r = print_item(s, &job_object, &row);
		job_row_fini(&row);
	}
	if (r == 0 && s->common.output == OUTPUT_TABLE && s->n_processes) {
		putchar('\n');
		r = printer_end(&s->processes);
	}
	printer_drop(&s->processes);
	json_decref(s->items);
	return r;
}

/* ---- a GPU ---- */

/* index, "card:instance", UUID or its beginning, PCI address */
static bool is_meant(const struct wire_status_item *it, const char *word)
{
	bool is_mig = (it->flags & WIRE_STATUS_MIG) != 0;
	size_t len = strlen(word), pci = strlen(it->pci_bus_id);
	char uuid[48], place[24];

	name_gpu(&it->gpu, is_mig, uuid, sizeof(uuid));
	name_place(it->gpu_index, is_mig, it->mig_index, place, sizeof(place));
	if (strcmp(word, place) == 0)
		return true;
	if (strncasecmp(word, "GPU-", 4) == 0 || strncasecmp(word, "MIG-", 4) == 0)
		return len > 4 && strncasecmp(uuid, word, len) == 0;
	if (!is_mig && len <= pci && strchr(word, '.') &&
	    strcasecmp(it->pci_bus_id + pci - len, word) == 0)
		return true;
	return len >= 4 && strspn(word, "0123456789") != len &&
	       strncasecmp(uuid + 4, word, len) == 0;
}

static int on_gpu(const void *item, void *arg)
{
	struct show *s = arg;

	if (!is_meant(item, s->gpu))
		return 0;
	if (s->n_found < ARRAY_SIZE(s->found))
		s->found[s->n_found] = *(const struct wire_status_item *)item;
	s->n_found++;
	return 0;
}

static int show_gpu(struct show *s, const char *word)
{
	struct wire_status ask = { 0 };
	struct err err = { 0 };
	struct gpu_row row;
	int r;

	s->gpu = word;
	r = client_list(&s->c, WIRE_STATUS, &ask, WIRE_STATUS_ITEM, on_gpu, s, SESSION_TIMEOUT_NS,
			&err);
	if (r < 0)
		return session_failed("show", &s->c, r, &err);
	if (s->n_found != 1) {
		complain("show",
			 s->n_found ? "'%s' is the beginning of more than one GPU's UUID"
				    : "no GPU '%s': 'allot status' lists them",
			 word);
		return s->n_found ? WIRE_CODE_USAGE : WIRE_CODE_NO_SUCH;
	}
	gpu_row_fill(&row, &s->found[0]);
	r = print_item(s, &gpu_object, &row);
	gpu_row_fini(&row);
	return r;
}

/* ---- which of them ---- */

static int show(struct show *s, const char *kind, const char *word)
{
	uint64_t n;

	if (!kind)
		return show_node(s);
	if (strcmp(kind, "job") == 0 && word)
		return show_job(s, word);
	if (strcmp(kind, "gpu") == 0 && word)
		return show_gpu(s, word);
	if (word) {
		complain("show", "'%s' is none of job, gpu, node", kind);
		return WIRE_CODE_USAGE;
	}
	if (strcmp(kind, "node") == 0)
		return show_node(s);
	if (strcmp(kind, "job") == 0 || strcmp(kind, "gpu") == 0) {
		complain("show", "which %s?", kind);
		return WIRE_CODE_USAGE;
	}
	/* a number is a job; whatever else, a GPU */
	return parse_u64(kind, 0, UINT64_MAX, &n, NULL) == 0 ? show_job(s, kind)
							     : show_gpu(s, kind);
}

static int run(int argc, char **argv)
{
	struct show s = { .n_found = 0 };
	int r = opts_parse(&cmd_show, argc, argv, &s.common, NULL, NULL);

	if (r < 0)
		return opts_exit(r, WIRE_CODE_USAGE);
	if (argc - r > 2) {
		complain("show", "unexpected word '%s'", argv[r + 2]);
		return WIRE_CODE_USAGE;
	}
	argv += r;
	r = session_open("show", &s.common, &s.c);
	if (r)
		return r;
	r = show(&s, argv[0], argv[0] ? argv[1] : NULL);
	client_fini(&s.c);
	return r;
}

const struct cmd cmd_show = {
	.name = "show",
	.args = "[options] [JOB | GPU | job JOB | gpu GPU | node]",
	.summary = "Everything of one job, one GPU or this node",
	.text = "A bare number is a job; a GPU is its index after 'gpu', its UUID or the beginning "
		"of "
		"it,\n"
		"or its PCI address. Without a word: the node. Of a job that has ended, how it "
		"ended "
		"is\n"
		"known for 7 days, of the last 1000.\n",
	.opts = opts,
	.complete = "job gpu node @jobs @gpus",
	.run = run,
};
