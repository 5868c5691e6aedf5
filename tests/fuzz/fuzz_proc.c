// SPDX-License-Identifier: Apache-2.0
/*
 * /proc is the kernel's, but a process chooses the name in its stat file, and namespaces what
 * stands in status. Input: stat, status and cmdline of process 1, status of process 2, each ended
 * by the byte 0x1e.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "fuzz.h"
#include "fuzz_text.h"
#include "gpu/proc.h"

#define SEPARATOR 0x1e

static char root[64];

static void clean_up(void)
{
	static const char *const files[] = {
		"1/stat", "1/status", "1/cmdline", "2/status", "1", "2"
	};
	int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; dir >= 0 && i < sizeof(files) / sizeof(files[0]); i++)
		(void)unlinkat(dir, files[i], strchr(files[i], '/') ? 0 : AT_REMOVEDIR);
	if (dir >= 0)
		(void)close(dir);
	(void)rmdir(root);
}

static void begin(void)
{
	char path[96];

	(void)str_copy(root, sizeof(root), "/tmp/allot-fuzz-proc.XXXXXX");
	if (!mkdtemp(root))
		abort();
	(void)atexit(clean_up);
	for (int pid = 1; pid <= 2; pid++)
		if (!str_print(path, sizeof(path), "%s/%d", root, pid) || mkdir(path, 0700) < 0)
			abort();
}

static void put(const char *name, const uint8_t **data, size_t *size)
{
	char path[96], *text;
	size_t before = *size, len;
	int fd;

	text = fuzz_next_text(data, size, SEPARATOR);
	len = before - *size;
	fd = str_print(path, sizeof(path), "%s/%s", root, name)
		     ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
		     : -1;
	if (fd < 0 || write(fd, text, len) != (ssize_t)len) /* with its end, which may be cut off */
		abort();
	(void)close(fd);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proc_info info = { .pid = -1 };
	char command[64];
	uid_t uid = 12345;
	pid_t seen;

	if (!*root)
		begin();
	put("1/stat", &data, &size);
	put("1/status", &data, &size);
	put("1/cmdline", &data, &size);
	put("2/status", &data, &size);
	if (proc_read(root, 1, &info) == 0 ? info.pid != 1 : info.pid != -1)
		abort();
	if (proc_uid(root, 1, &uid) < 0 && uid != 12345)
		abort();
	memset(command, 0x5a, sizeof(command));
	(void)proc_command(root, 1, command, sizeof(command));
	if (!memchr(command, '\0', sizeof(command)))
		abort();
	for (const char *p = command; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f) /* nothing that steers a terminal */
			abort();
	seen = proc_pid_as_seen_by(root, 1, 2);
	(void)seen;
	return 0;
}
