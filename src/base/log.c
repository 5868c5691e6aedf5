// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* set before there are threads, or by a program that has only one */
static const char *log_who = "allot";
static enum log_level log_threshold = LOG_LEVEL_INFO;

static bool log_waits = true;
static bool log_is_ours;  /* an open file of our own, which never blocks */
static unsigned log_lost; /* lines that did not fit, since one did */

static const char *const level_names[] = { "error", "warn", "info", "debug" };

int log_level_parse(const char *s, enum log_level *ret_level)
{
	for (unsigned i = 0; i < ARRAY_SIZE(level_names); i++) {
		if (strcmp(s, level_names[i]) == 0) {
			*ret_level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

void log_setup(const char *who, enum log_level level)
{
	const char *env = secure_getenv("ALLOT_LOG");

	log_who = who;
	log_threshold = level;
	if (env && *env && log_level_parse(env, &log_threshold) < 0)
		log_warn("ALLOT_LOG='%s' is none of error, warn, info, debug, ignoring", env);
}

void log_set_level(enum log_level level)
{
	log_threshold = level;
}

void log_never_wait(void)
{
	AUTO_FD int fd =
		open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	log_waits = false;
	/* else, a socket for instance, it is looked at before each line */
	log_is_ours = fd >= 0 && dup2(fd, STDERR_FILENO) >= 0;
}

static bool has_room(void)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

/* false: it did not fit */
static bool put_line(const char *line, size_t len)
{
	ssize_t n;

	if (log_waits) {
		(void)fd_write_all(STDERR_FILENO, line, len); /* nowhere left to complain */
		return true;
	}
	if (!log_is_ours && !has_room())
		return false;
	n = send(STDERR_FILENO, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && errno == ENOTSOCK)
		n = write(STDERR_FILENO, line, len);
	return n > 0;
}

static void tell_lost(void)
{
	char line[96];
	int n = snprintf(line, sizeof(line), "%s: warn: %u lines could not be written\n", log_who,
			 log_lost);

	if (n > 0 && put_line(line, (size_t)n))
		log_lost = 0;
}

void log_print(enum log_level level, const char *fmt, ...)
{
	char line[1024];
	int saved = errno;
	size_t len;
	va_list ap;
	int n;

	if (level > log_threshold)
		return;
	n = snprintf(line, sizeof(line), "%s: %s%s", log_who,
		     level == LOG_LEVEL_INFO ? "" : level_names[level],
		     level == LOG_LEVEL_INFO ? "" : ": ");
	len = n < 0 ? 0 : (size_t)n;
	va_start(ap, fmt);
	n = vsnprintf(line + len, sizeof(line) - len - 1, fmt, ap);
	va_end(ap);
	if (n > 0)
		len += (size_t)n < sizeof(line) - len - 1 ? (size_t)n : sizeof(line) - len - 2;
	line[len++] = '\n';
	if (log_lost)
		tell_lost();
	if (log_lost || !put_line(line, len))
		log_lost++;
	errno = saved;
}
