// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

/* Will the loader let us into this program?  The file is foreign: every offset is checked. */

enum program_kind {
	PROGRAM_DYNAMIC, /* a program that reads LD_PRELOAD, or a script */
	PROGRAM_STATIC,  /* no loader: cannot be fenced by a preload */
	PROGRAM_SETUID,  /* the loader ignores LD_PRELOAD */
};

/** program_kind - look at @path; what cannot be read counts as dynamic (exec will tell) */
enum program_kind program_kind(const char *path);

#endif
