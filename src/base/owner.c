// SPDX-License-Identifier: Apache-2.0
#include "base/owner.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"

#define OVERFLOW_DEFAULT 65534 /* include/linux/highuid.h */

/* "         0          0 4294967295\n": only the machine's own is as wide */
static bool is_identity(const char *map)
{
	static const char *const words[] = { "0", "0", "4294967295" };

	for (unsigned i = 0; i < 3; i++) {
		size_t len;

		map += strspn(map, " \t");
		len = strcspn(map, " \t\n");
		if (len != strlen(words[i]) || strncmp(map, words[i], len) != 0)
			return false;
		map += len;
	}
	return map[0] == '\n' && map[1] == '\0';
}

bool owner_judge(const char *uid_map, uid_t overflow, uid_t self, uid_t uid)
{
	if (is_identity(uid_map))
		return uid == 0;
	/* who has no number himself cannot tell himself from root */
	return uid == overflow && self != overflow;
}

bool owner_is_root(uid_t uid)
{
	char map[1024], text[16];
	uint64_t overflow = OVERFLOW_DEFAULT;
	ssize_t n;

	/* no /proc, or a kernel without user namespaces: there is only the machine's own */
	if (fd_read_file(AT_FDCWD, "/proc/self/uid_map", map, sizeof(map)) < 0)
		return uid == 0;
	if (is_identity(map)) /* nearly always: one file less */
		return uid == 0;
	n = fd_read_file(AT_FDCWD, "/proc/sys/kernel/overflowuid", text, sizeof(text));
	if (n > 0) {
		text[strcspn(text, "\n")] = '\0';
		(void)parse_u64(text, 0, UINT32_MAX, &overflow, NULL); /* else the default */
	}
	return owner_judge(map, (uid_t)overflow, geteuid(), uid);
}
