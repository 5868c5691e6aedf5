// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sim/cuda/trace.h"

#define LINE_SIZE 512

static char log_path[4096];

bool sim_log_init(void)
{
	const char *path = secure_getenv("ALLOT_SIM_LOG");

	return path && *path && str_copy(log_path, sizeof(log_path), path);
}

/* Opened for each line: the program may close descriptors that it did not open. */
static void write_line(const char *line, size_t len)
{
	AUTO_FD int fd = open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	/* a log that cannot be written must not change what the driver answers */
	if (fd >= 0)
		(void)fd_write_all(fd, line, len);
}

void sim_log_call(const char *name, CUresult result, const char *fmt, va_list args)
{
	int saved = errno;
	char text[LINE_SIZE], line[LINE_SIZE + 128];
	int n;

	if (!*log_path)
		return;
	vsnprintf(text, sizeof(text), fmt, args);
	n = snprintf(line, sizeof(line), "%d %s(%s) = %d\n", getpid(), name, text, (int)result);
	if (n > 0)
		write_line(line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
	errno = saved;
}

void sim_log_plain(const char *name, CUresult result)
{
	char line[160];
	int n;

	if (!*log_path)
		return;
	n = snprintf(line, sizeof(line), "%d %s() = %d\n", getpid(), name, (int)result);
	if (n > 0)
		write_line(line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}
