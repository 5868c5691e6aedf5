// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* Will the loader let us into this program?  The file is foreign: every offset is checked. */

enum program_kind {
	PROGRAM_DYNAMIC, /* a program that reads LD_PRELOAD, or a script */
	PROGRAM_STATIC,  /* no loader: cannot be fenced by a preload */
	PROGRAM_SETUID,  /* the loader ignores LD_PRELOAD */
};

/** program_kind - look at @path; what cannot be read counts as dynamic (exec will tell) */
enum program_kind program_kind(const char *path);

/** program_lost_interpreter - does @path begin with "#!X" where X is not there? X in @ret then */
bool program_lost_interpreter(const char *path, char *ret, size_t size);

#endif
