// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_PARTS_H
#define CLI_PARTS_H

/*
 * The other pieces of an installation, looked for beside the running `allot`: in the build's and
 * the installed layout.  One list, for whoever starts them and whoever checks them.  Any thread.
 */

#include <stdbool.h>
#include <stddef.h>

enum part {
	PART_CUDA_SHIM,
	PART_NVML_SHIM,
	PART_KEEPER,
	PART_DAEMON,
	PART_SAMPLER,
	PART_PROBE,
	PART_COUNT,
};

/** part_name - the file's name, for people */
const char *part_name(enum part part);

/** part_find - its absolute path; 0, or -ENOENT and the like as paths_beside */
int part_find(enum part part, char *buf, size_t size);

/** part_is_cut - is the library @path shorter than it says itself?  Loading it would end us */
bool part_is_cut(const char *path);

#endif
