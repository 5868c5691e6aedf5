// SPDX-License-Identifier: Apache-2.0
/*
 * conform --lib libcuda.so.1 --nvml libnvidia-ml.so.1 --out DIR [--only PATTERN] [--jobs N]
 * conform --list
 *
 * --pair: the sequences that need two GPUs instead of those that need one.
 *
 * Writes DIR/<group>.txt, one transcript per group. The parent never loads the library: each group
 * is this program started again with --group, so that no state is inherited. A group that dies or
 * hangs is noted in its transcript and started again after the sequence that did it.
 */
#include "conform.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <getopt.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GROUPS_MAX 128
#define RUNS_MAX   128

extern char **environ;

struct options {
	const char *lib;
	const char *nvml;
	const char *out;
	const char *only;
	const char *group; /* the child's: which group */
	const char *after; /* the child's: go on after this sequence */
	const char *helper;
	int jobs;
	int hang_s;
	bool list;
	bool pair; /* what needs two GPUs, and only that */
};

struct group {
	const char *name;
	bool alone;
	int sequences;
	pid_t pid;
	int died;
	bool broken; /* it ended outside of any sequence */
	off_t last_size;
	double last_growth_s;
	char restart_after[128];
};

static const struct family *const families[] = {
#define POINT_TO(name) &name##_family,
	FAMILIES(POINT_TO)
#undef POINT_TO
};
#define FAMILY_COUNT (sizeof(families) / sizeof(families[0]))

CUcontext conf_ctx;
const char *conf_lib_path;
const char *conf_nvml_path;

static double now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static bool wanted(const struct sequence *s, const struct options *o)
{
	if (((s->needs & PAIR) != 0) != o->pair)
		return false;
	return !o->only || fnmatch(o->only, s->name, 0) == 0 || fnmatch(o->only, s->group, 0) == 0;
}

/* -- the child: one group ------------------------------------------------------------------- */

/* a kernel's first launch may load it, and wait for that: not in the middle of a sequence */
static CUresult warm_up(void)
{
	CUdeviceptr p = 0;
	uint64_t none = 0;
	unsigned int value = 0;
	float a = 0;
	void *words[] = { &p, &value, &none }, *saxpy[] = { &p, &p, &a, &none };
	CUresult r = QUIET(cuMemAlloc_v2, &p, 8);
	void *sum[] = { &p, &none, &p }, *spin[] = { &none };
	const struct {
		CUfunction f;
		void **args;
	} all[] = { { kern.fill, words }, { kern.add, words }, { kern.saxpy, saxpy },
		    { kern.sum, sum },    { kern.spin, spin }, { kern.empty, NULL } };
	for (size_t i = 0; r == CUDA_SUCCESS && i < sizeof(all) / sizeof(all[0]); i++)
		r = QUIET(cuLaunchKernel, all[i].f, 1, 1, 1, 1, 1, 1, 0, NULL, all[i].args, NULL);
	if (r == CUDA_SUCCESS)
		r = QUIET(cuCtxSynchronize);
	return r == CUDA_SUCCESS ? QUIET(cuMemFree_v2, p) : r;
}

static bool provide(unsigned int needs)
{
	static unsigned int have;
	char buf[40];
	CUresult r = CUDA_SUCCESS;
	if ((needs & (INIT | CTX | KERNELS)) && !(have & INIT)) {
		r = QUIET(cuInit, 0);
		have |= INIT;
	}
	if (r == CUDA_SUCCESS && (needs & (CTX | KERNELS)) && !(have & CTX)) {
		r = QUIET(cuDevicePrimaryCtxRetain, &conf_ctx, 0);
		have |= CTX;
	}
	if (r == CUDA_SUCCESS && (needs & (CTX | KERNELS)))
		r = QUIET(cuCtxSetCurrent, conf_ctx);
	if (r == CUDA_SUCCESS && (needs & KERNELS) && !(have & KERNELS)) {
		r = QUIET(cuModuleLoadData, &kern.module, kernels_ptx);
		const struct {
			CUfunction *f;
			const char *name;
		} wants[] = {
			{ &kern.fill, "allot_fill_u32" },   { &kern.add, "allot_add_u32" },
			{ &kern.saxpy, "allot_saxpy_f32" }, { &kern.sum, "allot_sum_u64" },
			{ &kern.spin, "allot_spin_ns" },    { &kern.empty, "allot_empty" },
		};
		for (size_t i = 0; r == CUDA_SUCCESS && i < sizeof(wants) / sizeof(wants[0]); i++)
			r = QUIET(cuModuleGetFunction, wants[i].f, kern.module, wants[i].name);
		if (r == CUDA_SUCCESS)
			r = warm_up();
		have |= KERNELS;
	}
	if (r != CUDA_SUCCESS)
		out_line("!! no ground to stand on: %s", result_text(r, buf));
	return r == CUDA_SUCCESS;
}

static int run_group(const struct options *o)
{
	char path[4096];
	struct rlimit no_core = { 0, 0 };
	bool skipping = o->after != NULL;
	setrlimit(RLIMIT_CORE, &no_core);
	snprintf(path, sizeof(path), "%s/%s.txt", o->out, o->group);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0) {
		fprintf(stderr, "conform: %s: %s\n", path, strerror(errno));
		return 3;
	}
	out_open(fd);
	driver_open(o->lib);
	conf_lib_path = o->lib;
	conf_nvml_path = o->nvml;
	for (size_t f = 0; f < FAMILY_COUNT; f++) {
		for (size_t i = 0; i < families[f]->count; i++) {
			const struct sequence *s = &families[f]->sequences[i];
			if (strcmp(s->group, o->group) != 0 || !wanted(s, o))
				continue;
			if (skipping) {
				skipping = strcmp(s->name, o->after) != 0;
				continue;
			}
			out_line("== %s", s->name);
			out_forget_labels();
			if (provide(s->needs))
				s->run();
			out_flush();
			out_line("--");
		}
	}
	/* no exit handlers: what the driver does at exit is not the subject here */
	_exit(0);
}

/* -- the parent ----------------------------------------------------------------------------- */

static int collect_groups(struct group *groups, const struct options *o)
{
	int count = 0;
	for (size_t f = 0; f < FAMILY_COUNT; f++) {
		for (size_t i = 0; i < families[f]->count; i++) {
			const struct sequence *s = &families[f]->sequences[i];
			int g = 0;
			if (!wanted(s, o))
				continue;
			while (g < count && strcmp(groups[g].name, s->group) != 0)
				g++;
			if (g == GROUPS_MAX) {
				fprintf(stderr, "conform: more than %d groups\n", GROUPS_MAX);
				exit(2);
			}
			if (g == count)
				groups[count++] = (struct group){ .name = s->group };
			groups[g].sequences++;
			groups[g].alone |= (s->needs & ALONE) != 0;
		}
	}
	return count;
}

static bool start_group(struct group *g, const struct options *o, const char *after)
{
	const char *argv[20];
	int n = 0;
	argv[n++] = "conform";
	argv[n++] = "--lib";
	argv[n++] = o->lib;
	argv[n++] = "--nvml";
	argv[n++] = o->nvml;
	argv[n++] = "--out";
	argv[n++] = o->out;
	argv[n++] = "--group";
	argv[n++] = g->name;
	if (o->pair)
		argv[n++] = "--pair";
	if (o->only) {
		argv[n++] = "--only";
		argv[n++] = o->only;
	}
	if (after) {
		argv[n++] = "--after";
		argv[n++] = after;
	}
	argv[n] = NULL;
	int err = posix_spawn(&g->pid, "/proc/self/exe", NULL, NULL, (char *const *)argv, environ);
	if (err)
		fprintf(stderr, "conform: cannot start %s: %s\n", g->name, strerror(err));
	g->last_growth_s = now_s();
	g->last_size = 0;
	return err == 0;
}

/* the sequence that was under way when the group ended: the last "== " without a "--" */
static bool unfinished(const char *path, char *name, size_t size)
{
	char line[8192];
	bool inside = false;
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "== ", 3) == 0) {
			line[strcspn(line, "\n")] = 0;
			snprintf(name, size, "%.120s", line + 3);
			inside = true;
		} else if (strcmp(line, "--\n") == 0) {
			inside = false;
		}
	}
	fclose(f);
	return inside;
}

static bool note_death(struct group *g, const char *path, int status)
{
	FILE *f;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return false;
	g->died++;
	if (!unfinished(path, g->restart_after, sizeof(g->restart_after))) {
		g->broken = true;
		return false;
	}
	f = fopen(path, "ae");
	if (!f)
		return false;
	if (WIFSIGNALED(status))
		fprintf(f, "\n!! killed by signal %d%s\n--\n", WTERMSIG(status),
			WTERMSIG(status) == SIGKILL ? " (it hung)" : "");
	else
		fprintf(f, "\n!! exit %d\n--\n", WEXITSTATUS(status));
	fclose(f);
	return true;
}

static void kill_if_hung(struct group *g, const char *path, int hang_s)
{
	struct stat st;
	if (stat(path, &st) == 0 && st.st_size != g->last_size) {
		g->last_size = st.st_size;
		g->last_growth_s = now_s();
	} else if (now_s() - g->last_growth_s > hang_s) {
		kill(g->pid, SIGKILL);
		g->last_growth_s = now_s();
	}
}

static void run_all(struct group *groups, int count, bool alone, const struct options *o)
{
	int next = 0, running = 0, jobs = alone ? 1 : o->jobs;
	char path[4096];
	while (next < count || running > 0) {
		while (running < jobs && next < count) {
			struct group *g = &groups[next++];
			if (g->alone != alone)
				continue;
			snprintf(path, sizeof(path), "%s/%s.txt", o->out, g->name);
			unlink(path);
			running += start_group(g, o, NULL);
		}
		nanosleep(&(struct timespec){ 0, 2 * 1000 * 1000 }, NULL);
		for (int i = 0; i < count; i++) {
			struct group *g = &groups[i];
			int status;
			if (g->alone != alone || g->pid <= 0)
				continue;
			snprintf(path, sizeof(path), "%s/%s.txt", o->out, g->name);
			if (waitpid(g->pid, &status, WNOHANG) != g->pid) {
				kill_if_hung(g, path, o->hang_s);
				continue;
			}
			g->pid = 0;
			running--;
			if (note_death(g, path, status) && g->died < RUNS_MAX)
				running += start_group(g, o, g->restart_after);
		}
	}
}

static int list_sequences(const struct options *o)
{
	int count = 0;
	for (size_t f = 0; f < FAMILY_COUNT; f++) {
		for (size_t i = 0; i < families[f]->count; i++) {
			const struct sequence *s = &families[f]->sequences[i];
			if (!wanted(s, o))
				continue;
			printf("%-16s %s\n", s->group, s->name);
			count++;
		}
	}
	printf("%d sequences\n", count);
	return 0;
}

static int run_parent(const struct options *o)
{
	static struct group groups[GROUPS_MAX];
	double begin_s = now_s();
	int count = collect_groups(groups, o), sequences = 0, died = 0, broken = 0;
	if (mkdir(o->out, 0755) != 0 && errno != EEXIST) {
		fprintf(stderr, "conform: %s: %s\n", o->out, strerror(errno));
		return 3;
	}
	run_all(groups, count, false, o);
	run_all(groups, count, true, o);
	for (int i = 0; i < count; i++) {
		sequences += groups[i].sequences;
		died += groups[i].died;
		broken += groups[i].broken;
		if (groups[i].died)
			printf("%s: a sequence ended its process %d time(s)\n", groups[i].name,
			       groups[i].died);
	}
	printf("%d sequences in %d groups, %d deaths, %.1f s\n", sequences, count, died,
	       now_s() - begin_s);
	return sequences && !broken ? 0 : 1;
}

static const struct option long_options[] = {
	{ "lib", required_argument, NULL, 'l' },   { "nvml", required_argument, NULL, 'n' },
	{ "out", required_argument, NULL, 'o' },   { "only", required_argument, NULL, 'p' },
	{ "jobs", required_argument, NULL, 'j' },  { "hang", required_argument, NULL, 't' },
	{ "list", no_argument, NULL, 'L' },        { "group", required_argument, NULL, 'g' },
	{ "after", required_argument, NULL, 'a' }, { "helper", required_argument, NULL, 'h' },
	{ "pair", no_argument, NULL, 'P' },        { NULL, 0, NULL, 0 },
};

static bool parse_arguments(int argc, char **argv, struct options *o)
{
	int c;
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 'l':
			o->lib = optarg;
			break;
		case 'n':
			o->nvml = optarg;
			break;
		case 'o':
			o->out = optarg;
			break;
		case 'p':
			o->only = optarg;
			break;
		case 'j':
			o->jobs = atoi(optarg);
			break;
		case 't':
			o->hang_s = atoi(optarg);
			break;
		case 'L':
			o->list = true;
			break;
		case 'g':
			o->group = optarg;
			break;
		case 'a':
			o->after = optarg;
			break;
		case 'P':
			o->pair = true;
			break;
		case 'h':
			o->helper = optarg;
			break;
		default:
			return false;
		}
	}
	return o->jobs > 0 && o->hang_s > 0 && (o->out || o->list || o->helper);
}

int main(int argc, char **argv)
{
	struct options o = {
		.lib = "libcuda.so.1", .nvml = "libnvidia-ml.so.1", .jobs = 8, .hang_s = 10
	};
	if (!parse_arguments(argc, argv, &o)) {
		fprintf(stderr, "usage: conform [--lib LIBCUDA] [--nvml LIBNVML] --out DIR "
				"[--only PATTERN] [--jobs N] [--hang SECONDS] [--pair]\n"
				"       conform --list [--pair]\n");
		return 2;
	}
	if (o.list)
		return list_sequences(&o);
	if (o.helper) {
		driver_open(o.lib);
		conf_lib_path = o.lib;
		conf_nvml_path = o.nvml;
		return helper_main(o.helper, optind < argc ? argv[optind] : "");
	}
	return o.group ? run_group(&o) : run_parent(&o);
}
