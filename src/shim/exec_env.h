// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_EXEC_ENV_H
#define SHIM_EXEC_ENV_H

/*
 * The environment that a program started from within a job gets.
 *
 * In a job (ALLOT_SOCKET in what this process was started with) every program is to meet our
 * libraries: LD_PRELOAD must name them, and ALLOT_SOCKET must be the job's. An environment that
 * does is passed on as it is, the same pointer. Else a copy is made in which only these two
 * differ: our libraries first in LD_PRELOAD, what else stood there behind them. In a process that
 * is not in a job nothing is ever changed.
 *
 * Everything here is safe in a child of vfork: no heap, no lock, errno kept. A copy lies in room
 * that the caller gives from its stack; when that is too small, in memory of this thread's that
 * its next call uses again (a child of vfork cannot give back what its parent will still see). So
 * of each kind, one copy a thread at a time.
 */

#include <stddef.h>

/* enough for most environments, little enough for a small stack */
#define EXEC_ROOM_BYTES 4096

enum exec_kind { EXEC_ENV, EXEC_ARGS, EXEC_KIND_COUNT };

struct exec_room {
	char bytes[EXEC_ROOM_BYTES] __attribute__((aligned(16)));
};

/** exec_take - @bytes from @room or this thread's memory for @kind; NULL and ENOMEM: none */
void *exec_take(struct exec_room *room, enum exec_kind kind, size_t bytes);

/** exec_env - @envp itself (NULL: empty), or the copy; NULL and ENOMEM when there is no room */
char *const *exec_env(char *const envp[], struct exec_room *room);

/**
 * exec_prelude - shell commands, each with a newline, that set the two variables as in @envp
 * @envp: what exec_env returned
 *
 * Writes at most @size bytes, NUL included; returns the length that the whole has.
 */
size_t exec_prelude(char *const envp[], char *text, size_t size);

#endif
