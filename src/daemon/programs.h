// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_PROGRAMS_H
#define DAEMON_PROGRAMS_H

/*
 * What the shims ask, and the answers that the ledger gives at once or later.  A request whose
 * answer comes later holds its connection: the next one is read after the answer.
 */

#include "daemon/registry.h"

struct ledger_event;
struct peer;
struct wire_message;

void programs_attach(struct daemon *d, struct peer *peer, const struct wire_message *msg, int *fds,
		     unsigned n_fds);
void programs_need(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void programs_context_done(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void programs_overdraft_done(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void programs_settle(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void programs_view(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void programs_procs(struct daemon *d, struct peer *peer, const struct wire_message *msg);

/** programs_closed - a program's connection ended */
void programs_closed(struct daemon *d, struct peer *peer);

/* what the ledger says is due */
void programs_answer(struct daemon *d, const struct ledger_event *ev);
void programs_settled(struct daemon *d, const struct ledger_event *ev);

/** programs_tell_settled - answer the SETTLEs that are due; when to look again at the latest */
uint64_t programs_tell_settled(struct daemon *d, uint64_t now_ns);

/**
 * programs_of_pid - the process behind a pid that NVML shows on GPU @gpu
 *
 * One that never attached but lives below a keeper becomes a detached process of that job.
 * NULL: unmanaged.
 */
struct process *programs_of_pid(struct daemon *d, pid_t pid, unsigned gpu);

/**
 * programs_kept - a page that a returning keeper held for the process @number
 *
 * Returns 0; -ESRCH when that process is gone; -EINVAL when the page or the process is none of
 * this job's.
 */
int programs_kept(struct daemon *d, struct job *job, uint64_t number, int fd);

/** programs_keep - give a job's keeper the pages that it does not hold yet */
void programs_keep(struct job *job);

#endif
