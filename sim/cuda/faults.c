// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "sim/cuda/trace.h"

#define RULES_MAX    64
#define PATTERN_SIZE 64
#define TEXT_MAX     8192
#define RESULT_END   1000

struct rule {
	char pattern[PATTERN_SIZE];
	uint64_t after, every, times, delay_ns;
	uint64_t pid;
	bool is_sticky, is_hang, has_result;
	CUresult result;
	uint64_t seen, fired; /* under faults_lock */
};

int sim_trace_mode = SIM_TRACE_UNKNOWN;

static pthread_mutex_t faults_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_MAX];
static size_t rule_count;
static bool is_broken; /* the rules could not be read: fail everything */
static char faults_path[4096];
static struct stat faults_stat; /* of the text in force */

/* Reading. */

static int parse_result(const char *s, CUresult *ret, struct err *err)
{
	uint64_t number;

	for (int i = 0; i < RESULT_END; i++) {
		const char *name = cuda_result_name((CUresult)i);

		if (name && !strcmp(name, s)) {
			*ret = (CUresult)i;
			return 0;
		}
	}
	if (parse_u64(s, 0, RESULT_END - 1, &number, NULL))
		return err_set(err, -EINVAL, "'%.40s' is no CUDA result", s);
	*ret = (CUresult)number;
	return 0;
}

static int parse_pattern(struct rule *rule, char *word, struct err *err)
{
	char *equals = strchr(word, '=');

	if (equals) {
		*equals = '\0';
		rule->has_result = true;
		if (parse_result(equals + 1, &rule->result, err))
			return -EINVAL;
	}
	if (strncmp(word, "cu", 2) && strncmp(word, "*", 1))
		return err_set(err, -EINVAL, "'%.40s' is neither an option nor a symbol", word);
	if (!strpbrk(word, "*?[") && cuda_symbol_find(word) < 0)
		return err_set(err, -EINVAL, "'%.40s' is no symbol of the driver", word);
	if (!str_copy(rule->pattern, sizeof(rule->pattern), word))
		return err_set(err, -EINVAL, "'%.40s…' is too long", word);
	return 0;
}

static int parse_word(struct rule *rule, char *word, struct err *err)
{
	static const struct {
		const char *name;
		size_t offset;
	} numbers[] = {
		{ "after=", offsetof(struct rule, after) },
		{ "every=", offsetof(struct rule, every) },
		{ "times=", offsetof(struct rule, times) },
		{ "pid=", offsetof(struct rule, pid) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		size_t n = strlen(numbers[i].name);

		if (!strncmp(word, numbers[i].name, n))
			return parse_u64(word + n, i ? 1 : 0, UINT32_MAX,
					 (uint64_t *)(void *)((char *)rule + numbers[i].offset),
					 err);
	}
	if (!strncmp(word, "delay=", 6))
		return parse_duration(word + 6, &rule->delay_ns, err);
	if (!strcmp(word, "sticky")) {
		rule->is_sticky = true;
		return 0;
	}
	if (!strcmp(word, "hang")) {
		rule->is_hang = true;
		return 0;
	}
	return parse_pattern(rule, word, err);
}

static int parse_rule(char *clause, struct rule *rule, struct err *err)
{
	char *state = NULL;
	int r = 0;

	memset(rule, 0, sizeof(*rule));
	for (char *word = strtok_r(clause, " \t\r", &state); word && !r;
	     word = strtok_r(NULL, " \t\r", &state)) {
		if (*rule->pattern)
			return err_set(err, -EINVAL, "'%.40s' stands behind the symbol", word);
		r = parse_word(rule, word, err);
	}
	if (!r && !*rule->pattern)
		r = err_set(err, -EINVAL, "a rule without a symbol");
	if (!rule->every)
		rule->every = 1;
	if (!rule->times)
		rule->times = rule->has_result ? 1 : UINT64_MAX;
	return r;
}

static int parse_text(char *text, struct err *err)
{
	char *state = NULL;
	size_t count = 0;

	for (char *clause = strtok_r(text, ";\n", &state); clause;
	     clause = strtok_r(NULL, ";\n", &state)) {
		clause += strspn(clause, " \t\r");
		if (!*clause || *clause == '#')
			continue;
		if (rule_count + count == RULES_MAX)
			return err_set(err, -EINVAL, "more than %d rules", RULES_MAX);
		if (parse_rule(clause, &rules[rule_count + count], err))
			return -EINVAL;
		count++;
	}
	rule_count += count;
	return 0;
}

int sim_faults_parse(const char *text, struct err *err)
{
	char copy[TEXT_MAX];

	if (!str_copy(copy, sizeof(copy), text))
		return err_set(err, -EINVAL, "longer than %d bytes", TEXT_MAX);
	rule_count = 0;
	return parse_text(copy, err);
}

static void load(void)
{
	const char *env = secure_getenv("ALLOT_SIM_FAULTS");
	char text[TEXT_MAX];
	struct err err = { 0 };
	ssize_t n;
	int r = sim_faults_parse(env ? env : "", &err);

	if (!r && *faults_path && faults_stat.st_ino) {
		n = fd_read_file(AT_FDCWD, faults_path, text, sizeof(text));
		if (n > 0)
			r = parse_text(text, &err);
		else if (n < 0 && n != -ENOENT)
			r = err_set(&err, (int)n, "%s", strerror((int)-n));
	}
	is_broken = r < 0;
	if (is_broken)
		log_error("simulated driver: faults: %s", err.text);
}

static void reload_if_changed(void)
{
	struct stat now;

	if (!*faults_path)
		return;
	(void)sim_state_order(faults_path, &now); /* gone, or not its owner's: as an empty one */
	if (now.st_ino == faults_stat.st_ino && now.st_size == faults_stat.st_size &&
	    now.st_mtim.tv_sec == faults_stat.st_mtim.tv_sec &&
	    now.st_mtim.tv_nsec == faults_stat.st_mtim.tv_nsec)
		return;
	faults_stat = now;
	load();
}

bool sim_faults_init(void)
{
	char dir[4000];

	if (!sim_state_dir((const void *)sim_faults_init, dir, sizeof(dir), NULL)) {
		/* cannot be cut: the folder's name is shorter than the path's room */
		str_print(faults_path, sizeof(faults_path), "%s/faults", dir);
		if (!sim_state_order(faults_path, &faults_stat))
			*faults_path = '\0';
	}
	load();
	return rule_count || is_broken || *faults_path;
}

int sim_trace_init(void)
{
	int saved = errno;

	pthread_mutex_lock(&faults_lock);
	if (sim_trace_mode == SIM_TRACE_UNKNOWN) {
		bool has_log = sim_log_init(), has_faults = sim_faults_init();

		__atomic_store_n(&sim_trace_mode,
				 has_log || has_faults ? SIM_TRACE_ON : SIM_TRACE_OFF,
				 __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&faults_lock);
	errno = saved;
	return sim_trace_mode;
}

/* Acting. */

static bool rule_fires(struct rule *rule, const char *symbol)
{
	if (fnmatch(rule->pattern, symbol, 0) || (rule->pid && rule->pid != (uint64_t)getpid()))
		return false;
	rule->seen++;
	if (rule->is_sticky && rule->fired)
		return true;
	if (rule->seen <= rule->after || (rule->seen - rule->after - 1) % rule->every)
		return false;
	if (rule->fired >= rule->times)
		return false;
	rule->fired++;
	return true;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec left = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

CUresult sim_fault(enum cuda_sym symbol)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t delay_ns = 0;
	bool is_hang = false;
	int saved = errno;

	pthread_mutex_lock(&faults_lock);
	reload_if_changed();
	if (is_broken)
		result = CUDA_ERROR_UNKNOWN;
	for (size_t i = 0; i < rule_count && !result; i++) {
		if (!rule_fires(&rules[i], cuda_symbols[symbol].name))
			continue;
		delay_ns += rules[i].delay_ns;
		is_hang |= rules[i].is_hang;
		result = rules[i].result;
	}
	pthread_mutex_unlock(&faults_lock);
	while (is_hang)
		sleep_ns(1000000000);
	if (delay_ns)
		sleep_ns(delay_ns);
	errno = saved;
	return result;
}
