// SPDX-License-Identifier: Apache-2.0
#ifndef KEEPER_OUTPUT_H
#define KEEPER_OUTPUT_H

/*
 * Where the output of a job in the background goes: a pipe from its processes, read here, written
 * to a file that never grows beyond its bound.
 *
 * The file is PATH, and PATH.1 before it.  When PATH has half of the bound it takes PATH.1's place
 * and a new one begins, so the newest half at the least is always there.  What cannot be written
 * (a full disk, a quota) is counted and left out: the job is never held up, and the file says
 * later how much is missing and why.  When the file was moved or removed by hand it is emptied in
 * place instead.
 *
 * The open file is locked (flock) for as long as the keeper lives: whoever tidies up old logs
 * leaves locked ones alone.
 *
 * One thread.  Writing to a file may wait for its disk; reading never waits.
 */

#include <stdbool.h>
#include <stdint.h>

struct output {
	const char *path;
	int file;        /* -1: in the foreground, there is no output of ours */
	int reader;      /* -1 at the end */
	int writer;      /* the children's end, until output_started */
	uint64_t size;   /* of the file */
	uint64_t half;   /* of the bound */
	uint64_t lost;   /* bytes not yet told about */
	int lost_reason; /* errno */
};

/**
 * output_init - take over the open file @fd, which is @path
 * @max_bytes: for both files together
 */
int output_init(struct output *o, int fd, const char *path, uint64_t max_bytes);

/** output_child - in the child, before exec: the pipe is its stdout and stderr */
int output_child(const struct output *o);

/** output_started - the child has its end */
void output_started(struct output *o);

/** output_read - take what is there, not more than a few hundred KiB at a time */
void output_read(struct output *o);

/** output_finish - the job has ended: what is still in the pipe, and what was lost */
void output_finish(struct output *o);

#endif
