// SPDX-License-Identifier: Apache-2.0
/* Whose row is whose: a row's owner holds a kernel lock on the row's byte of the file "alive". */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "sim/state/layout.h"

int rows_open(const struct sim_state *state)
{
	char path[DIR_SIZE + 16];
	int fd;

	if (!state_path(state, "alive", path, sizeof(path)))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

static bool row_is_alive(int alive_fd, unsigned row)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)row, .l_len = 1
	};

	return fcntl(alive_fd, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

/* Wipe the rows of the dead. Without a descriptor to look with nobody is taken for dead. */
void rows_reap(struct sim_state *state)
{
	struct shared *s = state->shared;
	AUTO_FD int fd = rows_open(state);

	if (fd < 0)
		return;
	for (unsigned i = 0; i < s->rows_end; i++) {
		if (!s->rows[i].is_taken || (int)i == state->row || row_is_alive(fd, i))
			continue;
		shares_reap(s, i);
		memset(&s->rows[i], 0, sizeof(s->rows[i]));
	}
}
