// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_UNIT_FAKE_ALLOTD_H
#define TESTS_UNIT_FAKE_ALLOTD_H

/*
 * An allotd of a few lines for tests of the shim: one job, one GPU, a limit; in a process of its
 * own, so that it can be killed and so that a test may close every descriptor.  It grants, calls
 * credit back and refuses by the rules of wire/page.h; the figures lie in shared memory.
 */

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#define FAKE_MAX_PROCESSES 16
#define FAKE_CREDIT_BYTES  ((uint64_t)64 << 20) /* put into the word beside a grant */

struct fake_shared {
	/* what the test sets */
	_Atomic uint64_t limit_bytes;
	_Atomic uint64_t ahead_bytes; /* credit beside a grant */
	_Atomic uint64_t delay_ns;    /* before each GRANT */
	_Atomic uint64_t grace_ns;
	_Atomic uint32_t fail_open;
	_Atomic uint32_t undo_context;
	_Atomic uint32_t want;    /* 1: call credit back and set `wanted`; the fake clears it */
	_Atomic uint32_t no_turn; /* 1: refuse overdrafts */
	_Atomic uint32_t die_granting; /* 1: die between the next grant and its answer */
	/* what it counts */
	_Atomic uint32_t died;
	_Atomic uint64_t granted_bytes; /* of all processes */
	_Atomic uint64_t called_back_bytes;
	_Atomic uint32_t attaches, with_page, fresh_pages;
	_Atomic uint32_t needs, refusals, rings, settles, contexts, contexts_ok, views;
	_Atomic uint32_t turns, turns_done;
	_Atomic uint64_t kept_bytes;
	_Atomic uint32_t call_backs; /* done; from then on a return must ring */
};

struct fake {
	pid_t pid;
	char folder[64];
	char socket[96];
	struct fake_shared *shared;
};

/** fake_place - make a folder and choose the socket's name */
void fake_place(struct fake *f);

/** fake_adopt - use @socket in such a folder, and map the shared figures */
void fake_adopt(struct fake *f, const char *socket);

/** fake_start - start it (again); the socket listens on return */
void fake_start(struct fake *f);

/** fake_kill - SIGKILL it; the socket stays and refuses */
void fake_kill(struct fake *f);
void fake_remove(struct fake *f);

#endif
