// SPDX-License-Identifier: Apache-2.0
/* Faults on request: see the essay of sim/nvml/nvml.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "sim/nvml/nvml.h"

#define FAULTS_MAX 4096
#define POLL_NS    10000000L

struct faults {
	pthread_mutex_t lock;
	struct timespec seen; /* modification time of the file that was read */
	off_t seen_size;
	char text[FAULTS_MAX]; /* words, one blank between them */
};

static struct faults faults = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void blanks(char *s)
{
	for (; *s; s++)
		if (*s == ',' || *s == '\n' || *s == '\t')
			*s = ' ';
}

/* Bring faults.text up to date.  The lock is held. */
static void refresh(void)
{
	const char *env = secure_getenv("ALLOT_SIM_NVML_FAULTS");
	char path[4096 + 16];
	struct stat st;

	if (env) {
		(void)str_copy(faults.text, sizeof(faults.text),
			       env); /* cut: nobody writes 4 KiB */
		blanks(faults.text);
		return;
	}
	if (!str_print(path, sizeof(path), "%s/nvml-faults", sim_nvml.dir) ||
	    !sim_state_order(path, &st)) {
		faults.text[0] = '\0';
		faults.seen_size = -1;
		return;
	}
	if (st.st_size == faults.seen_size && st.st_mtim.tv_sec == faults.seen.tv_sec &&
	    st.st_mtim.tv_nsec == faults.seen.tv_nsec)
		return;
	if (fd_read_file(AT_FDCWD, path, faults.text, sizeof(faults.text)) < 0)
		faults.text[0] = '\0';
	blanks(faults.text);
	faults.seen = st.st_mtim;
	faults.seen_size = st.st_size;
}

/* The next word of *@at, its length in *@len; NULL at the end. */
static const char *next_word(const char **at, size_t *len)
{
	const char *word;

	while (**at == ' ')
		(*at)++;
	word = *at;
	while (**at && **at != ' ')
		(*at)++;
	*len = (size_t)(*at - word);
	return *len ? word : NULL;
}

static bool is_named(const char *arg, size_t len, const char *name)
{
	return strlen(name) == len && !memcmp(arg, name, len);
}

static nvmlReturn_t result_of(const char *arg, size_t len)
{
	char word[64];
	uint64_t number;

	if (len >= sizeof(word))
		return NVML_ERROR_UNKNOWN;
	memcpy(word, arg, len);
	word[len] = '\0';
	if (!parse_u64(word, 0, 999, &number, NULL))
		return (nvmlReturn_t)number;
#define NVML_RESULT(name, value, text) \
	if (!strcmp(word, #name))      \
		return name;
#include "abi/nvml_result.def"
	return NVML_ERROR_UNKNOWN;
}

/* Does the word say "hang" for @symbol? */
static bool word_hangs(const char *word, size_t len, const char *symbol)
{
	if (is_named(word, len, "hang"))
		return true;
	return len > 5 && !memcmp(word, "hang=", 5) && is_named(word + 5, len - 5, symbol);
}

/* "error=FUNCTION:RESULT" for @symbol; NVML_SUCCESS when it is about something else */
static nvmlReturn_t word_error(const char *word, size_t len, const char *symbol)
{
	const char *arg = word + 6, *colon;

	if (len <= 6 || memcmp(word, "error=", 6))
		return NVML_SUCCESS;
	colon = memchr(arg, ':', len - 6);
	if (!colon)
		return NVML_SUCCESS;
	if (is_named(arg, (size_t)(colon - arg), "*")) {
		if (str_starts_with(symbol, "nvmlInit") || !strcmp(symbol, "nvmlShutdown"))
			return NVML_SUCCESS;
	} else if (!is_named(arg, (size_t)(colon - arg), symbol)) {
		return NVML_SUCCESS;
	}
	return result_of(colon + 1, len - (size_t)(colon + 1 - word));
}

static nvmlReturn_t look(const char *symbol, bool *ret_hang)
{
	const char *at, *word;
	size_t len;
	nvmlReturn_t r = NVML_SUCCESS;

	*ret_hang = false;
	pthread_mutex_lock(&faults.lock);
	refresh();
	at = faults.text;
	while ((word = next_word(&at, &len))) {
		if (word_hangs(word, len, symbol))
			*ret_hang = true;
		if (!r)
			r = word_error(word, len, symbol);
	}
	pthread_mutex_unlock(&faults.lock);
	return r;
}

nvmlReturn_t sim_nvml_fault(enum nvml_sym symbol)
{
	bool hang;
	nvmlReturn_t r = look(nvml_names[symbol], &hang);

	while (hang) {
		struct timespec pause = { .tv_nsec = POLL_NS };

		nanosleep(&pause, NULL);
		r = look(nvml_names[symbol], &hang);
	}
	return r;
}

/* does a word stand there, alone or as @word=@number? */
static bool has_word(const char *alone, const char *word, unsigned number)
{
	const char *at, *w;
	bool found = false;
	char mine[32];
	size_t len;

	if (!str_print(mine, sizeof(mine), "%s=%u", word, number))
		return false;
	pthread_mutex_lock(&faults.lock);
	refresh();
	at = faults.text;
	while ((w = next_word(&at, &len)))
		found = found || is_named(w, len, alone) || is_named(w, len, mine);
	pthread_mutex_unlock(&faults.lock);
	return found;
}

bool sim_nvml_is_lost(unsigned index)
{
	return has_word("lost", "lost", index);
}

bool sim_nvml_is_gone(unsigned index)
{
	return has_word("no-instance", "no-instance", index);
}

bool sim_nvml_is_graphics(unsigned pid)
{
	return has_word("", "graphics", pid);
}

bool sim_nvml_hides_memory(void)
{
	return has_word("no-process-memory", "", 0);
}

bool sim_nvml_hides_instances(void)
{
	return has_word("no-instance-memory", "", 0);
}

unsigned sim_nvml_crowd(void)
{
	const char *at, *w;
	uint64_t n = 0;
	size_t len;

	pthread_mutex_lock(&faults.lock);
	refresh();
	at = faults.text;
	while ((w = next_word(&at, &len))) {
		char number[12];

		if (len <= 6 || len - 6 >= sizeof(number) || memcmp(w, "crowd=", 6))
			continue;
		memcpy(number, w + 6, len - 6);
		number[len - 6] = '\0';
		if (parse_u64(number, 0, SIM_NVML_CROWD_MAX, &n, NULL) < 0)
			n = 0;
	}
	pthread_mutex_unlock(&faults.lock);
	return (unsigned)n;
}
