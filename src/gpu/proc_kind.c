// SPDX-License-Identifier: Apache-2.0
#include "gpu/proc_kind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "gpu/proc.h"

#define KIND_PATH_MAX    320
#define KIND_TEXT_MAX    1024
#define PF_KTHREAD       0x00200000u /* of the kernel's flags, field 9 of stat */
#define FIRST_PID_NS     0xeffffffcu /* its inode: a number of the kernel's interface */
#define MPS_SERVER       "nvidia-cuda-mps-server"
#define MPS_CONTROL      "nvidia-cuda-mps-control"
#define KIND_FIRST_FIELD 3 /* of what stands behind the name in stat */

/* the number at @at as far as its digits go; false when there is none */
static bool read_number(const char *at, uint64_t *ret)
{
	char digits[24];
	size_t n = strspn(at, "0123456789");

	if (n == 0 || n >= sizeof(digits))
		return false;
	memcpy(digits, at, n);
	digits[n] = '\0';
	return parse_u64(digits, 0, UINT64_MAX, ret, NULL) == 0;
}

int proc_pid_of_pidfd(const char *root, int pidfd, pid_t *ret)
{
	char path[KIND_PATH_MAX], text[KIND_TEXT_MAX];
	const char *at;
	uint64_t pid;
	ssize_t n;

	if (!str_print(path, sizeof(path), "%s/self/fdinfo/%d", root, pidfd))
		return -ENAMETOOLONG;
	n = fd_read_file(AT_FDCWD, path, text, sizeof(text));
	if (n < 0)
		return (int)n;
	at = strstr(text, "\nPid:\t");
	if (!at)
		return -EBADF;
	at += strlen("\nPid:\t");
	if (*at == '-') /* reaped */
		return -ESRCH;
	if (!read_number(at, &pid) || pid > INT32_MAX)
		return -EBADF;
	if (pid == 0) /* in a namespace that we cannot see */
		return -ESRCH;
	*ret = (pid_t)pid;
	return 0;
}

bool proc_is_kernel(const char *root, pid_t pid)
{
	char path[KIND_PATH_MAX], text[KIND_TEXT_MAX];
	const char *at;
	uint64_t flags;

	if (!str_print(path, sizeof(path), "%s/%d/stat", root, pid) ||
	    fd_read_file(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	at = strrchr(text, ')');
	for (int field = KIND_FIRST_FIELD - 1; at && field < 9; field++)
		at = strchr(at + 1, ' ');
	return at && read_number(at + 1, &flags) && (flags & PF_KTHREAD);
}

bool proc_is_foreign(const char *root, pid_t pid)
{
	char path[KIND_PATH_MAX];
	struct stat theirs, ours;

	if (!str_print(path, sizeof(path), "%s/%d/ns/pid", root, pid) || stat(path, &theirs) < 0 ||
	    !str_print(path, sizeof(path), "%s/self/ns/pid", root) || stat(path, &ours) < 0)
		return false;
	return theirs.st_ino != ours.st_ino || theirs.st_dev != ours.st_dev;
}

bool proc_is_in_first_namespace(const char *root)
{
	char path[KIND_PATH_MAX];
	struct stat st;

	return str_print(path, sizeof(path), "%s/self/ns/pid", root) && stat(path, &st) == 0 &&
	       st.st_ino == FIRST_PID_NS;
}

/* the name of the file that it runs, when that is root's alone; "" when not */
static bool trusted_name(const char *root, pid_t pid, char name[KIND_PATH_MAX])
{
	char path[KIND_PATH_MAX], file[KIND_PATH_MAX];
	const char *slash;
	struct stat st;
	ssize_t n;

	name[0] = '\0';
	if (!str_print(path, sizeof(path), "%s/%d/exe", root, pid) || stat(path, &st) < 0 ||
	    st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return false;
	n = readlink(path, file, sizeof(file) - 1);
	if (n <= 0)
		return false;
	file[n] = '\0';
	slash = strrchr(file, '/');
	return str_copy(name, KIND_PATH_MAX, slash ? slash + 1 : file);
}

/* the server is the control daemon's child, or, when that is gone, nobody's */
bool proc_is_mps(const char *root, pid_t pid)
{
	char name[KIND_PATH_MAX];
	struct proc_info info;

	if (!trusted_name(root, pid, name))
		return false;
	if (strcmp(name, MPS_CONTROL) == 0)
		return true;
	if (strcmp(name, MPS_SERVER) != 0 || proc_read(root, pid, &info) < 0)
		return false;
	return info.ppid <= 1 ||
	       (trusted_name(root, info.ppid, name) && strcmp(name, MPS_CONTROL) == 0);
}

bool proc_is_display(const char *root, pid_t pid)
{
	static const char *const names[] = {
		"X",    "Xorg",   "Xwayland", "Xvfb", "gnome-shell", "kwin_wayland", "kwin_x11",
		"sway", "weston", "mutter",   "gdm",  "sddm",        "lightdm",
	};
	char name[KIND_PATH_MAX];

	if (!trusted_name(root, pid, name))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}
