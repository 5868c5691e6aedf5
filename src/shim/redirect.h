// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_REDIRECT_H
#define SHIM_REDIRECT_H

/*
 * The libc functions we stand in front of (libc.def), and the ones behind us.
 *
 * redirect_next finds what dlsym(RTLD_NEXT) would: the next library's function of that name, which
 * is libc's, or that of another preloaded library that stands in front of libc as we do. No lock,
 * no heap: also in a child of fork or vfork.
 */

#define REDIRECT_EXPORT __attribute__((visibility("default")))

enum redirect_name {
#define LIBC_REDIRECT(name) REDIRECT_##name,
#include "shim/libc.def"
	REDIRECT_COUNT
};

/** redirect_next - the function behind our @name; never NULL for a name that libc has */
void *redirect_next(enum redirect_name name);

#endif
