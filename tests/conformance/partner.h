// SPDX-License-Identifier: Apache-2.0
#ifndef CONFORMANCE_PARTNER_H
#define CONFORMANCE_PARTNER_H

/*
 * A second process that owns what a sequence opens, in lockstep with it: each step is a letter, and
 * the sequence goes on when the partner has done it and written its lines into the same transcript.
 *
 *	struct partner owner;
 *	struct reply r;
 *
 *	partner_start(&owner);
 *	partner_step(&owner, PARTNER_ALLOC, &r);
 *	…
 *	partner_end(&owner, false);
 *
 * A partner that dies or hangs is noted in the transcript; the steps after it do nothing.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "conform.h"

enum partner_letter {
	PARTNER_ALLOC = 'a',         /* 4 MiB: 2 of 0x51, 2 of 0x52 */
	PARTNER_HANDLE = 'h',        /* the IPC handle of its beginning */
	PARTNER_INNER_HANDLE = 'i',  /* … of the second half and 512 bytes */
	PARTNER_SMALL = 's',         /* two blocks of 4 KiB, 0x61 and 0x62 */
	PARTNER_SMALL_HANDLE = 'j',  /* of the first */
	PARTNER_SMALL_HANDLE2 = 'k', /* of the second */
	PARTNER_FREE = 'f',
	PARTNER_READ = 'r',
	PARTNER_CREATE = 'v', /* 2 MiB by handle, mapped, 0x53 */
	PARTNER_EXPORT = 'x', /* its descriptor */
	PARTNER_UNMAP = 'u',
	PARTNER_RELEASE = 'l',
	PARTNER_POOL = 'p',        /* a pool, and 1 MiB of it, 0x54 */
	PARTNER_POOL_EXPORT = 'e', /* its descriptor */
	PARTNER_POINTER = 'd',     /* its export data */
	PARTNER_POOL_FREE = 'g',
	PARTNER_POOL_DESTROY = 'D',
	PARTNER_EVENT = 'E', /* an event and its handle */
	PARTNER_RECORD = 'R',
	PARTNER_QUERY = 'Q',
	PARTNER_EVENT_DESTROY = 'Z',
};

struct partner {
	pid_t pid; /* 0: gone */
	int sock;
};

struct reply {
	unsigned char bytes[64];
	int fd; /* -1: none came */
};

void partner_start(struct partner *p);
void partner_step(struct partner *p, enum partner_letter letter, struct reply *ret);
/** partner_end - it ends by itself, or @kill: by SIGKILL; returns when it is gone */
void partner_end(struct partner *p, bool kill);

/** partner_main - what the other process does; the socket is descriptor PARTNER_FD */
int partner_main(void);

/** reads - a line with what is at @p */
void reads(const char *who, CUdeviceptr p, size_t bytes);

#endif
