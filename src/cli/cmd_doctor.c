// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/paths.h"
#include "base/str.h"
#include "cli/fields.h"
#include "cli/names.h"
#include "cli/parts.h"
#include "cli/session.h"
#include "client/find.h"
#include "config/config.h"

/*
 * Every check is a line: ok, warn or fail, what was found, and for what is not ok the fix.  A
 * check that cannot be made says so; it never counts as passed.
 */

enum verdict {
	VERDICT_OK,
	VERDICT_WARN,
	VERDICT_FAIL,
};

struct doctor {
	struct common common;
	struct printer printer;
	unsigned fails, warns;
	struct wire_daemon_info info;
	char without_gpu[64]; /* what to do then, where a daemon runs */
	bool has_daemon;
	bool failed; /* to print */
};

static const char *const verdict_names[] = { "ok", "warn", "fail" };

struct check {
	char name[16], verdict[8], found[1200], fix[2200];
};

#define F(member, json) .kind = FIELD_TEXT, .offset = offsetof(struct check, member), .name = (json)

static const struct field fields[] = {
	{ F(name, "check") },
	{ F(verdict, "verdict") },
	{ F(found, "found") },
	{ F(fix, "fix") },
};

static const struct object check_object = OBJECT("CheckList", fields);

static const struct opt opts[] = {
	OPT_OUTPUT,
	OPT_COMMON,
};

static void print_check(const struct doctor *d, enum verdict v, const struct check *c)
{
	static const enum out_color colors[] = { OUT_GREEN, OUT_YELLOW, OUT_RED };
	bool colored = out_is_colored(d->common.color, stdout);

	if (colored)
		out_color(stdout, colors[v]);
	printf("%-4s", c->verdict);
	if (colored)
		out_color(stdout, OUT_PLAIN);
	printf("  %-12s %s\n", c->name, c->found);
	if (c->fix[0])
		printf("      %-12s fix: %s\n", "", c->fix);
}

/* @fix may be NULL when the verdict is ok */
static void report(struct doctor *d, enum verdict v, const char *check, const char *fix,
		   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static void report(struct doctor *d, enum verdict v, const char *check, const char *fix,
		   const char *fmt, ...)
{
	struct check c;
	va_list ap;

	(void)str_copy(c.name, sizeof(c.name), check);
	(void)str_copy(c.verdict, sizeof(c.verdict), verdict_names[v]);
	(void)str_copy(c.fix, sizeof(c.fix), fix ? fix : "");
	va_start(ap, fmt);
	(void)vsnprintf(c.found, sizeof(c.found), fmt, ap);
	va_end(ap);
	str_printable(c.found); /* words of others may stand in it */
	str_printable(c.fix);
	d->fails += v == VERDICT_FAIL;
	d->warns += v == VERDICT_WARN;
	if (d->common.output == OUTPUT_TABLE)
		print_check(d, v, &c);
	else
		d->failed = d->failed || printer_add(&d->printer, &c) < 0;
}

/* the same words without the hint at ourselves */
static const char no_answer[] = "allotd does not answer: is it stopped?";

static void check_daemon(struct doctor *d)
{
	struct wire_daemon ask = { 0 };
	struct client_place place;
	struct err err = { 0 };
	char log[2 * PATHS_MAX], fix[200];
	char pid[40];
	struct client c;
	int r = client_find(d->common.socket, &place, &err);

	if (r == 0)
		r = client_connect_within(&place, SESSION_TIMEOUT_NS, &err);
	if (r == -ENOENT || r == -ECONNREFUSED) {
		report(d, VERDICT_WARN, "daemon",
		       "'allot run' starts one, or: systemctl start allotd", "nobody listens on %s",
		       place.socket);
		return;
	}
	if (r < 0) {
		report(d, VERDICT_FAIL, "daemon",
		       r == -EACCES || r == -EPERM
			       ? "join the group 'allot', or ask the machine's owner"
			       : "restart allotd (jobs go on meanwhile)",
		       "%s", r == -ETIMEDOUT ? no_answer : err.text);
		return;
	}
	client_init(&c, r);
	r = client_call(&c, WIRE_DAEMON, &ask, WIRE_DAEMON_INFO, &d->info, SESSION_TIMEOUT_NS,
			&err);
	client_fini(&c);
	if (r < 0) {
		report(d, VERDICT_FAIL, "daemon", "restart allotd (jobs go on meanwhile)", "%s",
		       r == -ETIMEDOUT ? no_answer : err.text);
		return;
	}
	d->has_daemon = true;
	(void)(d->info.pid ? str_print(pid, sizeof(pid), "pid %d", d->info.pid)
			   : str_copy(pid, sizeof(pid), "outside of this PID namespace"));
	report(d, VERDICT_OK, "daemon", NULL, "allotd %s, %s, %s, %u GPUs, %u jobs%s",
	       d->info.version, pid,
	       d->info.system ? "system service" : "a fence between this user's own programs",
	       d->info.n_gpus, d->info.n_jobs, d->info.simulated ? ", simulated" : "");
	if (strcmp(d->info.version, ALLOT_VERSION) != 0)
		report(d, VERDICT_WARN, "version", "restart allotd after an upgrade",
		       "allot is %s, allotd is %s", ALLOT_VERSION, d->info.version);
	(void)str_print(log, sizeof(log), "read %s/allotd.log, or what allotd writes to stderr",
			d->info.state_dir);
	(void)str_print(d->without_gpu, sizeof(d->without_gpu),
			"without a GPU: kill %d, then allotd --sim", d->info.pid);
	if (d->info.trouble[0] && d->info.nvml_ok)
		report(d, VERDICT_FAIL, "daemon", log, "%s", d->info.trouble);
	if (d->info.claim[0])
		report(d, VERDICT_WARN, "claim",
		       "end that program, or let it use the system's socket", "%s", d->info.claim);
	(void)str_print(fix, sizeof(fix),
			"run nvidia-smi: if it fails or hangs too, repair the driver first; %s",
			d->without_gpu);
	if (!d->info.nvml_ok)
		report(d, VERDICT_FAIL, "nvml", fix, "%s",
		       d->info.trouble[0] ? d->info.trouble : "NVML has not answered yet");
	else
		report(d, VERDICT_OK, "nvml", NULL, "answers, driver %s",
		       d->info.driver_version[0] ? d->info.driver_version : "of unknown version");
}

static int on_gpu(const void *item, void *arg)
{
	struct wire_status_item it = *(const struct wire_status_item *)item;
	struct doctor *d = arg;
	struct fmt_buf total;
	char place[24];

	str_printable(it.model);
	name_place(it.gpu_index, (it.flags & WIRE_STATUS_MIG) != 0, it.mig_index, place,
		   sizeof(place));
	if ((it.flags & WIRE_STATUS_LOST) && (it.flags & WIRE_STATUS_MIG))
		report(d, VERDICT_WARN, "gpu", "nothing, when its card was divided anew on purpose",
		       "MIG instance %s (%s) is gone", place, it.model);
	else if (it.flags & WIRE_STATUS_LOST)
		report(d, VERDICT_FAIL, "gpu",
		       "dmesg tells why (Xid); reset the GPU (nvidia-smi -r) or boot again",
		       "GPU %s (%s) is lost: it does not answer", place, it.model);
	else
		report(d, VERDICT_OK, "gpu", NULL, "GPU %s is %s, %s%s", place, it.model,
		       fmt_size(&total, it.vram_total_bytes),
		       it.flags & WIRE_STATUS_MIG_MODE ? ", in MIG mode" : "");
	return 0;
}

static void check_gpus(struct doctor *d)
{
	struct wire_status ask = { 0 };
	struct client c;
	struct err err = { 0 };
	struct client_place place;
	int r = client_find(d->common.socket, &place, &err);

	if (!d->has_daemon)
		return; /* said already */
	if (r == 0)
		r = client_connect_within(&place, SESSION_TIMEOUT_NS, &err);
	if (r >= 0) {
		client_init(&c, r);
		r = client_list(&c, WIRE_STATUS, &ask, WIRE_STATUS_ITEM, on_gpu, d,
				SESSION_TIMEOUT_NS, &err);
		client_fini(&c);
	}
	if (r < 0)
		report(d, VERDICT_FAIL, "gpu", "restart allotd (jobs go on meanwhile)", "%s",
		       err.text);
	else if (d->info.n_gpus == 0)
		report(d, VERDICT_FAIL, "gpu", d->without_gpu, "allotd has no GPU to share out");
}

#define UNMANAGED_SHOWN 3 /* of which a word is said; ps has them all */

struct strangers {
	unsigned n;
	char text[800];
};

static int on_stranger(const void *item, void *arg)
{
	struct wire_ps_item it = *(const struct wire_ps_item *)item;
	struct strangers *s = arg;
	size_t len = strlen(s->text);
	char user[64];

	if (it.state != WIRE_STATE_UNMANAGED || (it.flags & WIRE_PS_GRAPHICS) ||
	    s->n++ >= UNMANAGED_SHOWN)
		return 0;
	name_user(it.uid, user, sizeof(user));
	(void)str_print(s->text + len, sizeof(s->text) - len, "; pid %d of %s (%.60s): %.120s",
			it.pid, user[0] ? user : "somebody", it.command,
			it.reason[0] ? it.reason : "not looked at yet");
	return 0;
}

/* who came past allot, and what the policy of their GPU says of each */
static void check_unmanaged(struct doctor *d)
{
	struct strangers s = { 0 };
	struct wire_ps ask = { 0 };
	struct client_place place;
	struct client c;
	int r = d->has_daemon ? client_find(d->common.socket, &place, NULL) : -ENOENT;

	if (r == 0)
		r = client_connect_within(&place, SESSION_TIMEOUT_NS, NULL);
	if (r < 0)
		return; /* said already */
	client_init(&c, r);
	r = client_list(&c, WIRE_PS, &ask, WIRE_PS_ITEM, on_stranger, &s, SESSION_TIMEOUT_NS, NULL);
	client_fini(&c);
	if (r < 0)
		return; /* whatever it is, the checks before said it */
	if (s.n)
		report(d, VERDICT_WARN, "unmanaged",
		       "start them with 'allot run', or make them jobs with 'allot adopt --pid "
		       "PID'",
		       "%u processes use a GPU past allot%s", s.n, s.text);
	else
		report(d, VERDICT_OK, "unmanaged", NULL, "no program computes past allot");
}

/* the programs that allot consists of; the libraries have their own check */
static void check_programs(struct doctor *d)
{
	static const enum part all[] = { PART_KEEPER, PART_DAEMON, PART_SAMPLER, PART_PROBE };

	for (unsigned i = 0; i < ARRAY_SIZE(all); i++) {
		char path[PATHS_MAX];

		if (part_find(all[i], path, sizeof(path)) < 0)
			report(d, VERDICT_FAIL, "program", "install allot whole",
			       "%s is missing beside this program", part_name(all[i]));
		else if (access(path, X_OK) < 0)
			report(d, VERDICT_FAIL, "program", "chmod a+x it, or install allot whole",
			       "%s may not be executed: %s", path, strerror(errno));
		else
			report(d, VERDICT_OK, "program", NULL, "%s is %s", part_name(all[i]), path);
	}
}

/* what a bare program would load: in a child, since it runs the driver's constructors */
static void check_library(struct doctor *d, const char *check, const char *soname)
{
	char path[PATHS_MAX] = "";
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0) {
		report(d, VERDICT_WARN, check, "raise the limit of open files (ulimit -n)",
		       "%s was not looked at: no pipe can be made (%s)", soname, strerror(errno));
		return;
	}
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0) {
		char name[2 * PATHS_MAX];
		const char *dir = d->has_daemon ? d->info.driver_dir : "";
		struct link_map *map = NULL;
		void *lib;

		(void)str_print(name, sizeof(name), "%s%s%s", dir, *dir ? "/" : "", soname);
		lib = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
		if (lib && dlinfo(lib, RTLD_DI_LINKMAP, &map) == 0 && map->l_name)
			(void)fd_write_all(ends[1], map->l_name, strlen(map->l_name));
		_exit(lib ? 0 : 1);
	}
	close(ends[1]);
	n = read(ends[0], path, sizeof(path) - 1);
	close(ends[0]);
	path[n > 0 ? n : 0] = '\0';
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0 || !path[0])
		report(d, d->has_daemon && d->info.simulated ? VERDICT_WARN : VERDICT_FAIL, check,
		       d->without_gpu[0] ? "install NVIDIA's driver"
					 : "install NVIDIA's driver; without a GPU: allotd --sim",
		       "%s cannot be loaded", soname);
	else
		report(d, VERDICT_OK, check, NULL, "%s is %s", soname, path);
}

static void check_shims(struct doctor *d)
{
	static const struct {
		enum part part;
		const char *probe;
	} all[] = { { PART_CUDA_SHIM, "cuInit" }, { PART_NVML_SHIM, "nvmlInit_v2" } };

	for (unsigned i = 0; i < ARRAY_SIZE(all); i++) {
		char path[PATHS_MAX];
		void *lib;

		if (part_find(all[i].part, path, sizeof(path)) < 0) {
			report(d, VERDICT_FAIL, "shim", "install allot whole", "%s is missing",
			       part_name(all[i].part));
			continue;
		}
		if (part_is_cut(path)) {
			report(d, VERDICT_FAIL, "shim", "install allot whole", "%s is cut short",
			       path);
			continue;
		}
		/* loading it does nothing by itself: no driver, no thread, no connection */
		lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
		if (!lib || !dlsym(lib, all[i].probe))
			report(d, VERDICT_FAIL, "shim", "install allot whole", "%s: %s", path,
			       lib ? "does not export the driver's calls" : dlerror());
		else
			report(d, VERDICT_OK, "shim", NULL,
			       "%s loads and exports the driver's calls", path);
	}
}

static void check_devices(struct doctor *d)
{
	static const char *const nodes[] = { "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm" };

	if (d->has_daemon && d->info.simulated)
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(nodes); i++) {
		if (access(nodes[i], R_OK | W_OK) == 0)
			report(d, VERDICT_OK, "permission", NULL, "%s can be opened", nodes[i]);
		else if (errno == ENOENT)
			report(d, VERDICT_WARN, "permission",
			       "load the driver (modprobe nvidia-uvm), or run 'nvidia-smi' once as "
			       "root",
			       "%s is not there", nodes[i]);
		else
			report(d, VERDICT_FAIL, "permission", "join the group that owns it (ls -l)",
			       "%s may not be opened: %s", nodes[i], strerror(errno));
	}
}

/* allotd knows whether jobs get one; our own place tells nothing about that */
static void check_cgroup(struct doctor *d)
{
	if (!d->has_daemon)
		return; /* said already */
	if (d->info.has_cgroups)
		report(d, VERDICT_OK, "cgroup", NULL, "jobs have a cgroup: %s", d->info.cgroups);
	else
		report(d, VERDICT_WARN, "cgroup",
		       "run allotd where cgroups of version 2 are mounted and may be written, or "
		       "under systemd",
		       "jobs have no cgroup of their own (%s): they are known by their keeper; "
		       "when that is killed, only what uses the GPU by then still counts as "
		       "theirs, and 'allot cancel' ends no more than that",
		       d->info.cgroups);
}

static void check_preload(struct doctor *d)
{
	if (access("/etc/ld.so.preload", R_OK) == 0)
		report(d, VERDICT_WARN, "preload",
		       "make sure that it does not name another GPU shim",
		       "/etc/ld.so.preload exists");
	else
		report(d, VERDICT_OK, "preload", NULL, "no library is preloaded machine-wide");
}

/* the file that an allotd started by us would read */
static void check_config(struct doctor *d)
{
	static struct config c;
	static struct config_report found;
	bool is_system = geteuid() == 0;
	char path[PATHS_MAX], text[PATHS_MAX + 320];
	int r = config_default_path(is_system, path, sizeof(path));

	if (r < 0)
		return; /* nothing of ours works with such a path, and says so */
	r = config_read_file(path, is_system ? CONFIG_MODE_SYSTEM : CONFIG_MODE_USER, &c, &found);
	if (r == -ENOENT) {
		report(d, VERDICT_OK, "config", NULL, "%s is not there: all by default", path);
	} else if (r == 0) {
		report(d, VERDICT_OK, "config", NULL, "%s has no mistakes", path);
	} else {
		config_mistake_text(path, &found.at[0], text, sizeof(text));
		report(d, VERDICT_FAIL, "config",
		       "'allot config check' shows all mistakes; no allotd starts with one", "%s",
		       text);
	}
}

static int run(int argc, char **argv)
{
	struct doctor d = { 0 };
	int r = opts_parse(&cmd_doctor, argc, argv, &d.common, NULL, NULL);

	if (r < 0)
		return opts_exit(r, WIRE_CODE_USAGE);
	if (r < argc) {
		complain("doctor", "unexpected word '%s'", argv[r]);
		return WIRE_CODE_USAGE;
	}
	printer_begin(&d.printer, &d.common, &check_object);
	check_daemon(&d);
	check_library(&d, "libcuda", "libcuda.so.1");
	check_library(&d, "libnvidia-ml", "libnvidia-ml.so.1");
	check_gpus(&d);
	check_unmanaged(&d);
	check_programs(&d);
	check_config(&d);
	check_shims(&d);
	check_devices(&d);
	check_cgroup(&d);
	check_preload(&d);
	if (d.common.output == OUTPUT_TABLE) {
		printer_drop(&d.printer);
		printf("%u failed, %u warnings\n", d.fails, d.warns);
	} else if (printer_end(&d.printer) || d.failed) {
		return WIRE_CODE_FAILED;
	}
	return d.fails ? WIRE_CODE_FAILED : 0;
}

const struct cmd cmd_doctor = {
	.name = "doctor",
	.args = "[options]",
	.summary = "Check driver, libraries, daemon and permissions, with a fix for each failure",
	.opts = opts,
	.run = run,
};
