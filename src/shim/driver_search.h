// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_DRIVER_SEARCH_H
#define SHIM_DRIVER_SEARCH_H

/*
 * Which file is the real driver?
 *
 * The folder that allotd named, and then only that one. Without it, what the dynamic linker would
 * pick for the bare soname in this process and mount namespace if we were not there, in its order:
 * RPATH or RUNPATH of the program and LD_LIBRARY_PATH as they stood at its start (both as the
 * linker itself reports them), /etc/ld.so.cache, the default folders; in folders the glibc-hwcaps
 * of this processor first. We ourselves are skipped: by file, and any library in the folder that
 * our libraries are installed in. Last comes the file that the program named by its full path in
 * dlopen (noted by the redirect), if any.
 *
 * Candidates are offered one after the other, as absolute paths where the folder is absolute;
 * whether one can be opened is the visitor's affair. Blocks on file systems; uses the heap.
 */

#include <stddef.h>

struct driver_search {
	const char *soname; /* "libcuda.so.1" */
	const char *dir;    /* the only folder to look in; NULL or "": all of the above */
	const char *self;   /* our own file, to be skipped; may be "" */
	const char *cache;  /* "/etc/ld.so.cache" */
	char looked[768];   /* filled: where was looked, for the message; cut if need be */
};

/**
 * driver_search_run - offer each existing candidate to @visit until that returns non-zero
 *
 * Returns what @visit returned, or 0 when none was taken.
 */
int driver_search_run(struct driver_search *search, int (*visit)(const char *path, void *arg),
		      void *arg);

/** driver_search_hint - remember the first absolute @path by which the program asked for us */
void driver_search_hint(const char *path);

#endif
