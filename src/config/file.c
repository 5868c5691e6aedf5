// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

/* who can write here decides what allotd does: nobody but the one whom it serves, and root */
static int check_owner(const struct stat *st, enum config_mode mode, struct err *err)
{
	if (!S_ISREG(st->st_mode))
		return err_set(err, -EINVAL, "this is no regular file");
	if (st->st_size > (off_t)CONFIG_FILE_MAX)
		return err_set(err, -EFBIG, "this is larger than 1 MiB");
	if (st->st_mode & S_IWOTH)
		return err_set(err, -EPERM,
			       "everybody may write to it (mode %04o): refused, 'chmod o-w' it",
			       (unsigned)st->st_mode & 07777);
	if (mode == CONFIG_MODE_ANY)
		return 0;
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return err_set(err, -EPERM, "it belongs to uid %u: refused, 'chown' it",
			       (unsigned)st->st_uid);
	/* a user's own group is often that user's alone; the machine's is not */
	if (mode == CONFIG_MODE_SYSTEM && (st->st_mode & S_IWGRP) && st->st_gid != 0)
		return err_set(err, -EPERM,
			       "group %u may write to it (mode %04o): refused, 'chmod g-w' it",
			       (unsigned)st->st_gid, (unsigned)st->st_mode & 07777);
	return 0;
}

static int read_all(int fd, char *buf, size_t size, size_t *ret_len, struct err *err)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = read(fd, buf + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, -errno, "cannot read it: %s", strerror(errno));
		if (n == 0)
			break;
		len += (size_t)n;
	}
	if (len == size) /* it grew while it was read */
		return err_set(err, -EFBIG, "this is larger than 1 MiB");
	*ret_len = len;
	return 0;
}

static int whole(struct config_report *report, const struct err *err)
{
	report->n = 1;
	report->n_more = 0;
	report->at[0] = (struct config_mistake){ 0 };
	(void)str_copy(report->at[0].text, sizeof(report->at[0].text), err->text);
	return err->code;
}

int config_read_file(const char *path, enum config_mode mode, struct config *ret,
		     struct config_report *report)
{
	/* a pipe must not hold us up before it is looked at */
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	AUTO_FREE char *text = NULL;
	struct err err = { 0 };
	struct stat st;
	size_t len = 0;

	if (fd < 0 || fstat(fd, &st) < 0) {
		(void)err_set(&err, -errno, "cannot open it: %s", strerror(errno));
		return whole(report, &err);
	}
	if (check_owner(&st, mode, &err) < 0)
		return whole(report, &err);
	text = malloc(CONFIG_FILE_MAX + 1);
	if (!text) {
		(void)err_set(&err, -ENOMEM, "no memory to read it");
		return whole(report, &err);
	}
	if (read_all(fd, text, CONFIG_FILE_MAX + 1, &len, &err) < 0)
		return whole(report, &err);
	return config_read_text(text, len, path, mode, ret, report);
}
