// SPDX-License-Identifier: Apache-2.0
#include "shim/say.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "shim/env.h"

#define SAY_MAX        1000
#define SAY_PATIENCE   50 /* ms for a reader that does not read */
#define SAY_FREE_LINES 20 /* refusals told before their rate is limited */

/* A whole line in one write; a broken pipe must not send the host a signal that kills it. */
static void write_line(const char *line, size_t len)
{
	struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
	struct timespec now = { 0 };
	sigset_t pipe_only, before, pending;

	if (poll(&ready, 1, SAY_PATIENCE) <= 0 || !(ready.revents & POLLOUT))
		return;
	(void)sigemptyset(&pipe_only); /* none of these can fail for a valid signal */
	(void)sigaddset(&pipe_only, SIGPIPE);
	(void)sigpending(&pending);
	if (pthread_sigmask(SIG_BLOCK, &pipe_only, &before) != 0)
		return;
	if (write(STDERR_FILENO, line, len) < 0 && errno == EPIPE &&
	    !sigismember(&pending, SIGPIPE))
		(void)sigtimedwait(&pipe_only, NULL, &now); /* ours, if it is there at all */
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

__attribute__((format(printf, 2, 0))) static void say_line(unsigned left_out, const char *fmt,
							   va_list args)
{
	static const char who[] = "allot: ";
	char line[SAY_MAX + 64];
	int saved_errno = errno;
	size_t len;

	memcpy(line, who, sizeof(who));
	(void)vsnprintf(line + sizeof(who) - 1, SAY_MAX - sizeof(who), fmt, args); /* cut is fine */
	if (left_out) {
		len = strlen(line);
		(void)snprintf(line + len, 48, " (%u such lines left out)", left_out);
	}
	str_printable(line);
	len = strlen(line);
	line[len++] = '\n';
	write_line(line, len);
	errno = saved_errno;
}

void say(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say_line(0, fmt, args);
	va_end(args);
}

void say_refusal(const char *fmt, ...)
{
	static _Atomic unsigned told, left_out;
	static _Atomic uint64_t next_ns;
	unsigned skipped = 0;
	uint64_t now_ns, due_ns;
	va_list args;

	if (atomic_fetch_add(&told, 1) >= SAY_FREE_LINES) {
		atomic_store(&told, SAY_FREE_LINES); /* never wraps */
		now_ns = clock_now_ns();
		due_ns = atomic_load(&next_ns);
		if (now_ns < due_ns ||
		    !atomic_compare_exchange_strong(&next_ns, &due_ns, now_ns + NS_PER_S)) {
			atomic_fetch_add(&left_out, 1);
			return;
		}
		skipped = atomic_exchange(&left_out, 0);
	}
	va_start(args, fmt);
	say_line(skipped, fmt, args);
	va_end(args);
}

void say_once(bool *said, const char *fmt, ...)
{
	va_list args;

	if (__atomic_exchange_n(said, true, __ATOMIC_RELAXED))
		return;
	va_start(args, fmt);
	say_line(0, fmt, args);
	va_end(args);
}

void say_debug(const char *fmt, ...)
{
	va_list args;

	if (env_get()->log < LOG_LEVEL_DEBUG)
		return;
	va_start(args, fmt);
	say_line(0, fmt, args);
	va_end(args);
}
