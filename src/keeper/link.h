// SPDX-License-Identifier: Apache-2.0
#ifndef KEEPER_LINK_H
#define KEEPER_LINK_H

/*
 * The keeper's connection to allotd.  It outlives the daemon: the keeper holds the credit pages of
 * its job's processes and gives them back to the next allotd; a user's own daemon that died is
 * started again with the words it was started with, by whichever keeper gets the lock.  The
 * command never notices.
 *
 * One thread, and no call blocks: the start is waited for by a child (the starter), the answer to
 * RESUME comes by link_read.  So the command's end is passed on at once, whatever allotd does.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/packet.h"
#include "client/start.h"
#include "keeper/tree.h"

struct link_page {
	uint64_t process;
	int fd;
};

struct link {
	int sock; /* -1 while allotd is away */
	uint64_t job_id;
	char socket[108];
	struct link_page *pages;
	unsigned n_pages, room;
	bool is_quiet;  /* our stderr is the job's log: what a start says does not belong there */
	bool may_start; /* allotd is ours to start again */
	struct daemon_command command;
	uint64_t next_try_ns;
	unsigned tries;
	bool is_other_told;        /* that allotd is of another version */
	uint64_t resume_end_ns;    /* RESUME was sent, its answer is due then; 0: nothing is due */
	pid_t starter;             /* the child that starts allotd; 0: none */
	bool has_ended;            /* the command: link_ended */
	int status;                /* … as from waitpid */
	bool has_resumed_ended;    /* the RESUME under way says so */
	bool is_acknowledged;      /* allotd knows that */
	struct tree_spared daemon; /* the allotd of the last connection */
	/* what allotd asked for, until taken */
	int signal; /* 0: nothing */
	uint64_t signal_grace_ns;
	struct packet in;
};

/** link_init - take over the connection on which the job was admitted */
int link_init(struct link *l, int sock, const char *socket, uint64_t job_id);
void link_fini(struct link *l);

/** link_read - handle what has arrived; a lost connection is noted, not an error */
void link_read(struct link *l, uint64_t now_ns);

/** link_tick - while allotd is away: look for it, start it, come back; returns the next look */
uint64_t link_tick(struct link *l, uint64_t now_ns);

/** link_reaped - a child has ended: was it the starter? */
bool link_reaped(struct link *l, pid_t pid, int status);

void link_started(struct link *l, pid_t pid);

/**
 * link_ended - the command has ended; allotd hears it now, or at the next RESUME
 * @wants_answer: is_acknowledged is to become true once allotd has it
 */
void link_ended(struct link *l, int status, bool wants_answer);

#endif
