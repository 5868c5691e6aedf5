// SPDX-License-Identifier: Apache-2.0
/* config: every mistake with its place and all at once; what is printed is read back the same */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "base/str.h"
#include "config/config.h"
#include "config/value.h"

static struct config cfg;
static struct config_report report;

static int read_as(const char *text, enum config_mode mode)
{
	return config_read_text(text, strlen(text), "f", mode, &cfg, &report);
}

static void must_read(const char *text)
{
	if (read_as(text, CONFIG_MODE_ANY) < 0)
		fail_msg("%u:%u: %s\n%s", report.at[0].line, report.at[0].column, report.at[0].text,
			 text);
	assert_int_equal(report.n, 0);
}

/* option by option, as written: what lies between the fields is nobody's */
static void assert_same(const struct config *x, const struct config *y)
{
	char a[CONFIG_TEXT_MAX], b[CONFIG_TEXT_MAX];

	for (unsigned i = 0; i < CONFIG_N_OPTIONS; i++) {
		config_text(x, i, a);
		config_text(y, i, b);
		assert_string_equal(a, b);
		assert_int_equal(x->origin[i].source, y->origin[i].source);
		assert_int_equal(x->origin[i].line, y->origin[i].line);
	}
	assert_int_equal(x->n_gpus, y->n_gpus);
}

/* one mistake each: text, line, column, and what must stand in the words */
static const struct {
	const char *text;
	unsigned line, column;
	const char *words;
} mistakes[] = {
	/* keys */
	{ "jobs:\n  vramm: 8G\n", 2, 3, "unknown key 'vramm' in 'jobs': did you mean 'vram'?" },
	{ "jobs:\n  when-full: fail\n", 2, 3, "did you mean 'when_full'?" },
	{ "job:\n  vram: 8G\n", 1, 1, "unknown section 'job': did you mean 'jobs'?" },
	{ "jobs:\n  sample_interval: 1s\n", 2, 3, "does not belong to 'jobs' but to 'daemon'" },
	{ "vram: 8G\n", 1, 1, "key 'vram' belongs into the section 'jobs'" },
	{ "jobs:\n  xyzzyplugh: 1\n", 2, 3, "unknown key 'xyzzyplugh' in 'jobs'" },
	{ "jobs:\n  vram: 8G\n  class: batch\n  vram: 9G\n", 4, 3,
	  "'jobs.vram' stands here twice: first in line 2" },
	{ "jobs:\n  vram: 8G\nlimits:\njobs:\n  class: batch\n", 4, 1,
	  "section 'jobs' stands here twice: first in line 1" },
	{ "jobs:\n  ? [a, b]\n  : 1\n", 2, 5, "a key must be one word or number, not a list" },
	{ "jobs: {~: 1}\n", 1, 8, "a key is missing before the ':'" },
	{ "jobs:\n  \"vr\\0am\": 8G\n", 2, 3, "holds a byte of zero" },
	/* values */
	{ "jobs:\n  vram: 8\n", 2, 9, "'jobs.vram': size '8' has no unit" },
	{ "jobs:\n  vram: 8G:4G\n", 2, 9, "request is larger than the limit" },
	{ "jobs:\n  vram:\n", 2, 8, "'jobs.vram' has no value" },
	{ "jobs:\n  vram: \"\"\n", 2, 9, "'jobs.vram': " },
	{ "jobs:\n  vram: [8G]\n", 2, 9, "must be one word or number, not a list" },
	{ "jobs:\n  vram: {a: 1}\n", 2, 9, "must be one word or number, not a section" },
	{ "jobs:\n  class: batsch\n", 2, 10, "did you mean 'batch'?" },
	{ "jobs:\n  fail_policy: opne\n", 2, 16, "did you mean 'open'?" },
	{ "jobs:\n  when_full: wait=\n", 2, 14, "'jobs.when_full': time ''" },
	{ "jobs:\n  kill_grace: 10\n", 2, 15, "time '10' has no unit" },
	{ "jobs:\n  kill_grace: 2h\n", 2, 15, "is not in 0s … 1h" },
	{ "jobs:\n  wait_timeout: nevr\n", 2, 17, "'jobs.wait_timeout': time 'nevr'" },
	{ "limits:\n  max_jobs: 0\n", 2, 13, "'0' is not in 1 … 4096" },
	{ "limits:\n  max_jobs: 12abc\n", 2, 13, "'12abc' is not a whole number" },
	{ "limits:\n  max_jobs: -1\n", 2, 13, "'-1' is not a whole number" },
	{ "limits:\n  max_jobs: 99999999999999999999999\n", 2, 13, "is not a whole number" },
	{ "limits:\n  max_jobs: true\n", 2, 13, "'true' is not a whole number" },
	{ "daemon:\n  socket_mode: 666\n", 2, 16, "not four octal digits" },
	{ "daemon:\n  socket_mode: 0069\n", 2, 16, "not four octal digits" },
	{ "daemon:\n  socket_mode: 0066\n", 2, 16, "does not let allotd's own user in" },
	{ "daemon:\n  state: var/lib\n", 2, 10, "is not a whole path" },
	{ "daemon:\n  log_level: loud\n", 2, 14, "is not error, warn, info or debug" },
	{ "daemon:\n  admins: root\n", 2, 11, "must be a list" },
	{ "daemon:\n  admins: [root, [a]]\n", 2, 18, "must be one word or number, not a list" },
	{ "daemon:\n  admins: [no-such-user-here]\n", 2, 12, "no user 'no-such-user-here' in" },
	{ "daemon:\n  admins: [\"@no-such-group\"]\n", 2, 12, "no group 'no-such-group' in" },
	{ "daemon:\n  admins: [root, \"0\"]\n", 2, 18, "stands in the list twice" },
	{ "daemon:\n  socket_group: no-such-group\n", 2, 17, "no group 'no-such-group'" },
	{ "gpu_defaults:\n  reserve: 1\n", 2, 12, "has no unit" },
	{ "gpu_defaults:\n  unmanaged: adopt\n", 2, 14, "is not alert or kill" },
	/* the list of GPUs */
	{ "gpus:\n  - reserve: 1G\n", 2, 5, "give it an 'id' or a 'model'" },
	{ "gpus:\n  - id: 0\n", 2, 5, "says nothing of its GPU" },
	{ "gpus:\n  - id: 0\n    model: x\n    reserve: 0\n", 3, 12, "one 'id' or one 'model'" },
	{ "gpus:\n  - id: GPU-12\n    reserve: 0\n", 2, 9, "its whole UUID" },
	{ "gpus:\n  - id: 0:1:2\n    reserve: 0\n", 2, 9, "is no PCI address" },
	{ "gpus:\n  - id: 0\n    reserv: 0\n", 3, 5, "in 'gpus': did you mean 'reserve'?" },
	{ "gpus:\n  - id: 0\n    reserve: 0\n    reserve: 0\n", 4, 5, "first in line 3" },
	{ "gpus:\n  - {id: 0, reserve: 0}\n  - {id: 0, reserve: 1G}\n", 3, 5,
	  "has an entry already, in line 2" },
	{ "gpus:\n  - {id: 01:00.0, reserve: 0}\n  - {id: 0000:01:00.0, reserve: 0}\n", 3, 5,
	  "has an entry already, in line 2" },
	{ "gpus:\n  - 0\n", 2, 5, "is a section" },
	{ "gpus:\n  id: 0\n", 2, 3, "'gpus' is a list" },
	{ "jobs:\n  - vram: 8G\n", 2, 3, "'jobs' is a section" },
	{ "jobs: 8G\n", 1, 7, "'jobs' is a section" },
	/* YAML that is not taken */
	{ "jobs: &a\n  vram: 8G\n", 1, 7, "an anchor (&a)" },
	{ "jobs:\n  vram: *a\n", 2, 9, "an alias (*a)" },
	{ "jobs:\n  <<: {vram: 8G}\n", 2, 3, "a merge key" },
	{ "jobs:\n  vram: !!str 8G\n", 2, 9, "a tag" },
	{ "jobs:\n  vram: 8G\n---\njobs:\n", 3, 1, "a second document" },
	{ "jobs:\n\tvram: 8G\n", 2, 1, "a tab" },
	{ "jobs:\n  vram: @x\n", 2, 9, "cannot begin with '@': put it in quotes" },
	{ "jobs:\n  vram: \"8G\n", 3, 1, "this is no YAML" },
	{ "jobs:\n  vram: 8G\n vram: 9G\n", 3, 2, "this is no YAML" },
	{ "- a\n", 1, 1, "must consist of sections" },
	{ "hello\n", 1, 1, "must consist of sections" },
	{ "jobs:\n  vram: \xff\n", 2, 9, "this is no UTF-8" },
	{ "jobs:\n  n\xc3\xa4me: \xc3(\n", 2, 9, "this is no UTF-8" },
	{ "jobs: \x1b[31m\n", 1, 7, "a control character" },
	{ "jobs: \xc2\x9b\n", 1, 7, "control characters are not allowed" },
	{ "[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 1, 0, "nested more than 16 deep" },
};

static void test_mistakes(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(mistakes); i++) {
		const struct config_mistake *m = &report.at[report.n ? report.n - 1 : 0];
		int r = read_as(mistakes[i].text, CONFIG_MODE_ANY);

		m = &report.at[0];
		if (r != -EINVAL || report.n == 0)
			fail_msg("taken: %s", mistakes[i].text);
		/* the deep one says first that a list is no file */
		if (mistakes[i].column == 0)
			m = &report.at[report.n - 1];
		else if (report.n != 1)
			fail_msg("%u mistakes, second '%s' in: %s", report.n, report.at[1].text,
				 mistakes[i].text);
		if (!strstr(m->text, mistakes[i].words) || m->line != mistakes[i].line ||
		    (mistakes[i].column && m->column != mistakes[i].column))
			fail_msg("%u:%u: '%s' for: %s", m->line, m->column, m->text,
				 mistakes[i].text);
	}
}

static void test_all_at_once(void **state)
{
	(void)state;
	assert_int_equal(read_as("jobs:\n"
				 "  vram: 8\n"
				 "  clas: normal\n"
				 "gpus:\n"
				 "  - id: nine\n"
				 "    reserve: x\n"
				 "daemon:\n"
				 "  log_level: *l\n"
				 "  log_level: info\n"
				 "  sample_interval: 2s\n"
				 "\tx: 1\n",
				 CONFIG_MODE_ANY),
			 -EINVAL);
	for (unsigned i = 0; report.n != 7 && i < report.n; i++)
		print_error("%u: %s\n", report.at[i].line, report.at[i].text);
	assert_int_equal(report.n, 7);
	const unsigned lines[] = { 2, 3, 5, 6, 8, 9, 11 };

	for (unsigned i = 0; i < report.n; i++)
		assert_int_equal(report.at[i].line, lines[i]);
}

static void test_many_mistakes(void **state)
{
	static char text[8192] = "jobs:\n";

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		strcat(text, "  nonsense: 1\n");
	assert_int_equal(read_as(text, CONFIG_MODE_ANY), -EINVAL);
	assert_int_equal(report.n, CONFIG_MISTAKES_MAX);
	assert_int_equal(report.n_more, 100 - CONFIG_MISTAKES_MAX);
}

/* nothing is changed by a file that has a mistake */
static void test_untouched(void **state)
{
	struct config before;

	(void)state;
	must_read("jobs:\n  vram: 8G\n");
	before = cfg;
	assert_int_equal(read_as("jobs:\n  vram: 9G\n  class: x\n", CONFIG_MODE_ANY), -EINVAL);
	assert_memory_equal(&before, &cfg, sizeof(cfg));
}

static void test_nothing_said(void **state)
{
	static const char *const texts[] = { "",
					     "\n\n",
					     "# all by default\n",
					     "---\n",
					     "--- # x\n",
					     "~\n",
					     "jobs:\n",
					     "jobs: ~\ngpus:\n",
					     "{}\n",
					     "gpus: []\n",
					     "\xef\xbb\xbfjobs:\n" };
	struct config d;

	(void)state;
	config_defaults(&d);
	for (unsigned i = 0; i < ARRAY_SIZE(texts); i++) {
		must_read(texts[i]);
		assert_same(&cfg, &d);
	}
}

static void test_values(void **state)
{
	(void)state;
	must_read("jobs:\n"
		  "  vram: 8GiB:50%\n"
		  "  class: batch\n"
		  "  when_full: wait=5m\n"
		  "  wait_timeout: 1h\n"
		  "  fail_policy: open\n"
		  "  kill_grace: 500ms\n"
		  "limits: {max_jobs: 7}\n"
		  "daemon:\n"
		  "  socket_mode: 0660\n"
		  "  socket_group: \"4711\"\n"
		  "  admins: [root, \"@0\", 77]\n"
		  "  state: /srv/allot\n");
	assert_int_equal(cfg.jobs_vram.request.bytes, 8 * GIB);
	assert_int_equal(cfg.jobs_vram.limit.permille, 500);
	assert_int_equal(cfg.jobs_class, CONFIG_CLASS_BATCH);
	assert_true(cfg.jobs_when_full.may_wait);
	assert_int_equal(cfg.jobs_when_full.ns, 300 * NS_PER_S);
	assert_int_equal(cfg.jobs_wait_timeout, 3600 * NS_PER_S);
	assert_int_equal(cfg.jobs_fail_policy, CONFIG_FAIL_OPEN);
	assert_int_equal(cfg.jobs_kill_grace, NS_PER_S / 2);
	assert_int_equal(cfg.limits_max_jobs, 7);
	assert_int_equal(cfg.limits_max_jobs_per_user, 4096);
	assert_int_equal(cfg.daemon_socket_mode, 0660);
	assert_int_equal(cfg.daemon_socket_group.gid, 4711);
	assert_int_equal(cfg.daemon_admins.n, 3);
	assert_true(config_is_admin(&cfg, 77, NULL, 0));
	assert_false(config_is_admin(&cfg, 78, NULL, 0));
	assert_true(config_is_admin(&cfg, 78, (uint32_t[]){ 5, 0 }, 2));
	assert_string_equal(cfg.daemon_state, "/srv/allot");
	assert_int_equal(cfg.origin[CONFIG_jobs_class].source, CONFIG_FROM_FILE);
	assert_int_equal(cfg.origin[CONFIG_jobs_class].line, 3);
	assert_int_equal(cfg.origin[CONFIG_limits_max_jobs].line, 8);
	assert_int_equal(cfg.origin[CONFIG_jobs_away_grace].source, CONFIG_FROM_DEFAULT);
	must_read("jobs:\n  wait_timeout: never\n  when_full: fail\n  vram: none\n");
	assert_true(cfg.jobs_wait_timeout == UINT64_MAX);
	assert_false(cfg.jobs_when_full.may_wait);
	assert_int_equal(cfg.jobs_vram.request.bytes, 0);
}

static void test_gpus(void **state)
{
	static const uint8_t a[16] = { 0xaa }, b[16] = { 0xbb };
	struct config_gpu g;

	(void)state;
	must_read("gpu_defaults:\n  reserve: 1G\n"
		  "gpus:\n"
		  "  - model: \"NVIDIA RTX*\"\n"
		  "    reserve: 5%\n"
		  "    unmanaged: kill\n"
		  "  - id: GPU-bb000000-0000-0000-0000-000000000000\n"
		  "    reserve: 3G\n"
		  "  - id: 00000000:C1:00.0\n"
		  "    unmanaged: alert\n"
		  "  - id: 2\n"
		  "    reserve: 0\n");
	g = config_gpu(&cfg, a, 0, "0000:01:00.0", "NVIDIA H200");
	assert_int_equal(g.reserve.bytes, GIB);
	assert_int_equal(g.unmanaged, CONFIG_UNMANAGED_ALERT);
	g = config_gpu(&cfg, a, 0, "0000:01:00.0", "NVIDIA RTX 6000");
	assert_int_equal(g.reserve.bytes, 0);
	assert_int_equal(g.reserve.permille, 50);
	assert_int_equal(g.unmanaged, CONFIG_UNMANAGED_KILL);
	/* later entries win, option by option */
	g = config_gpu(&cfg, b, 0, "0000:c1:00.0", "NVIDIA RTX 6000");
	assert_int_equal(g.reserve.bytes, 3 * GIB);
	assert_int_equal(g.reserve.permille, 0);
	assert_int_equal(g.unmanaged, CONFIG_UNMANAGED_ALERT);
	g = config_gpu(&cfg, b, 2, "", "");
	assert_int_equal(g.reserve.bytes, 0);
}

static void test_modes(void **state)
{
	static const char *const only_system[] = {
		"daemon:\n  socket_mode: 0660\n",
		"daemon:\n  admins: [root]\n",
		"gpu_defaults:\n  unmanaged: kill\n",
		"gpus:\n  - id: 0\n    unmanaged: kill\n",
		"limits:\n  max_connections_per_user: 9\n",
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(only_system); i++) {
		assert_int_equal(read_as(only_system[i], CONFIG_MODE_USER), -EINVAL);
		assert_int_equal(report.n, 1);
		assert_non_null(strstr(report.at[0].text, "for the machine's service"));
		assert_int_equal(read_as(only_system[i], CONFIG_MODE_SYSTEM), 0);
	}
	assert_int_equal(read_as("gpu_defaults:\n  unmanaged: alert\n", CONFIG_MODE_USER), 0);
}

/* what is printed is read to the same value, for every type and odd amounts */
static void test_round_trip(void **state)
{
	static const struct {
		enum config_id id;
		const char *text;
	} values[] = {
		{ CONFIG_jobs_vram, "1.3K:77.7%" },
		{ CONFIG_jobs_vram, "25%:unlimited" },
		{ CONFIG_jobs_vram, "3T" },
		{ CONFIG_jobs_vram, "none" },
		{ CONFIG_jobs_when_full, "fail" },
		{ CONFIG_jobs_when_full, "wait=1h30m" },
		{ CONFIG_jobs_when_full, "wait=0s" },
		{ CONFIG_jobs_kill_grace, "1ms" },
		{ CONFIG_jobs_kill_grace, "90s" },
		{ CONFIG_jobs_kill_grace, "59m" },
		{ CONFIG_jobs_wait_timeout, "2d" },
		{ CONFIG_jobs_wait_timeout, "never" },
		{ CONFIG_daemon_socket_mode, "0600" },
		{ CONFIG_daemon_socket_group, "root" },
		{ CONFIG_daemon_state, "/a b/ö" },
		{ CONFIG_gpu_reserve, "0.1%" },
		{ CONFIG_gpu_reserve, "1.000001K" },
	};
	char text[CONFIG_TEXT_MAX];
	struct config other;
	struct err err = { 0 };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(values) + CONFIG_N_OPTIONS; i++) {
		bool is_default = i >= ARRAY_SIZE(values);
		unsigned id = is_default ? i - (unsigned)ARRAY_SIZE(values) : values[i].id;

		if (is_default && !config_options[id].text[0])
			continue;
		config_defaults(&cfg);
		config_defaults(&other);
		if (config_override(&cfg, id, CONFIG_FROM_FLAG,
				    is_default ? config_options[id].text : values[i].text,
				    &err) < 0)
			fail_msg("%s: %s", config_options[id].name, err.text);
		config_text(&cfg, id, text);
		if (config_override(&other, id, CONFIG_FROM_FLAG, text, &err) < 0)
			fail_msg("%s: %s", config_options[id].name, err.text);
		assert_same(&cfg, &other);
		assert_true(cfg.jobs_vram.request.bytes == other.jobs_vram.request.bytes);
		assert_true(cfg.gpu.reserve.bytes == other.gpu.reserve.bytes);
		if (is_default) /* the table writes as we print */
			assert_string_equal(text, config_options[id].text);
	}
}

static void collect(const char *text, void *context)
{
	strncat(context, text, 16383 - strlen(context));
}

/* the printed file is a file, and says the defaults */
static void test_default_file(void **state)
{
	static char text[16384];
	char option[128];
	struct config d;

	(void)state;
	config_print_default(CONFIG_MODE_USER, collect, text);
	assert_int_equal(read_as(text, CONFIG_MODE_USER), 0);
	text[0] = '\0';
	config_print_default(CONFIG_MODE_SYSTEM, collect, text);
	assert_int_equal(read_as(text, CONFIG_MODE_SYSTEM), 0);
	config_defaults(&d);
	for (unsigned i = 0; i < CONFIG_N_OPTIONS; i++) {
		char a[CONFIG_TEXT_MAX], b[CONFIG_TEXT_MAX];

		config_text(&cfg, i, a);
		config_text(&d, i, b);
		assert_string_equal(a, b);
		(void)str_print(option, sizeof(option), "%s:", config_options[i].name);
		assert_non_null(strstr(text, option));
	}
	for (const char *p = text; *p; p += strcspn(p, "\n") + 1)
		if (strcspn(p, "\n") > 79)
			fail_msg("%.100s", p);
}

/* names among the options: none is another's beginning in its section, none is a YAML word */
static void test_table(void **state)
{
	static const char *const yaml_words[] = {
		"on", "off", "yes", "no", "true", "false", "null"
	};

	(void)state;
	for (unsigned i = 0; i < CONFIG_N_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];

		assert_true(o->help[0] && o->help[strlen(o->help) - 1] == '.');
		for (unsigned k = 0; k < ARRAY_SIZE(yaml_words); k++)
			assert_string_not_equal(o->name, yaml_words[k]);
		for (unsigned k = 0; k < i; k++)
			assert_false(strcmp(o->name, config_options[k].name) == 0 &&
				     strcmp(o->section, config_options[k].section) == 0);
	}
}

static void write_file(const char *path, size_t n, mode_t mode)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(fputc('#', f), '#');
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void test_files(void **state)
{
	char dir[] = "/tmp/allot-config-XXXXXX", path[64], pipe[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)str_print(path, sizeof(path), "%s/f", dir);
	(void)str_print(pipe, sizeof(pipe), "%s/p", dir);
#define READ(p, mode) config_read_file(p, CONFIG_MODE_##mode, &cfg, &report)
	assert_int_equal(READ(path, ANY), -ENOENT);
	assert_int_equal(report.n, 1);
	assert_int_equal(report.at[0].line, 0);
	write_file(path, 10, 0644);
	assert_int_equal(READ(path, SYSTEM), 0);
	assert_string_equal(cfg.file, path);
	write_file(path, CONFIG_FILE_MAX, 0600);
	assert_int_equal(READ(path, USER), 0);
	write_file(path, CONFIG_FILE_MAX + 1, 0600);
	assert_int_equal(READ(path, USER), -EFBIG);
	write_file(path, 10, 0646);
	assert_int_equal(READ(path, USER), -EPERM);
	assert_int_equal(READ(path, ANY), -EPERM);
	assert_non_null(strstr(report.at[0].text, "everybody may write"));
	assert_int_equal(READ(dir, ANY), -EINVAL);
	assert_non_null(strstr(report.at[0].text, "no regular file"));
	assert_int_equal(mkfifo(pipe, 0600), 0);
	assert_int_equal(READ(pipe, ANY), -EINVAL);
	if (geteuid() == 0) {
		write_file(path, 10, 0664);
		assert_int_equal(chown(path, 0, 77), 0);
		assert_int_equal(READ(path, SYSTEM), -EPERM);
		assert_int_equal(READ(path, USER), 0);
		write_file(path, 10, 0644);
		assert_int_equal(chown(path, 77, 0), 0);
		assert_int_equal(READ(path, SYSTEM), -EPERM);
		assert_int_equal(READ(path, USER), -EPERM);
		assert_int_equal(READ(path, ANY), 0);
	}
	(void)unlink(path);
	(void)unlink(pipe);
	(void)rmdir(dir);
}

/* a large file of one deep or wide thing is read, or refused, in no time */
static void test_large(void **state)
{
	char *text = malloc(CONFIG_FILE_MAX);
	static const char *const pieces[] = { "[",       "{",    "- ",  "a: ",    "? ",
					      "\"a\": ", "[a, ", "*a ", "jobs:\n" };

	(void)state;
	assert_non_null(text);
	for (unsigned i = 0; i < ARRAY_SIZE(pieces); i++) {
		size_t n = strlen(pieces[i]), len = 0;

		for (; len + n <= CONFIG_FILE_MAX; len += n)
			memcpy(text + len, pieces[i], n);
		assert_true(config_read_text(text, len, "f", CONFIG_MODE_ANY, &cfg, &report) < 0);
		assert_true(report.n > 0);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mistakes),  cmocka_unit_test(test_all_at_once),
		cmocka_unit_test(test_untouched), cmocka_unit_test(test_many_mistakes),
		cmocka_unit_test(test_values),    cmocka_unit_test(test_nothing_said),
		cmocka_unit_test(test_gpus),      cmocka_unit_test(test_modes),
		cmocka_unit_test(test_table),     cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_files),     cmocka_unit_test(test_default_file),
		cmocka_unit_test(test_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
