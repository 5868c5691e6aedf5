// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_ADOPT_H
#define DAEMON_ADOPT_H

/*
 * `allot adopt`: a program that was started without allot becomes a job.
 *
 * What happens.  The process named, and all below it that hold GPU memory, are charged to a new job
 * from the next sample on (it is asked for at once), at NVML's figures, as detached processes are.
 * The job has the GPUs that they hold memory of at this moment; a child that begins to use another
 * GPU later is unmanaged there.  Children of later are found by the chain of parents.
 *
 * What does not happen.  The shim is not in these processes and cannot be put there, nor into what
 * they start: their environment does not name it.  So nothing holds them to the limit; when they
 * pass it, free reads 0 for others' questions and that is all.  They are fenced when they are
 * started the next time, through `allot run`.
 *
 * The job has no keeper.  The adopted process stands in the keeper's place in the registry, known
 * by its pidfd and start time: what is below it is the job's.  The job is over when that process
 * and all of the job's that hold memory are gone.  A cancel signals those of the job's user among
 * them, by pidfd.  After a restart of allotd it is found again by its start time, its members by
 * theirs.
 *
 * What depends on NVML (nothing held, no room) is refused with WIRE_CODE_FAILED, and NVML is read
 * at once: a program that has just begun can be adopted by who asks again a moment later.
 *
 * The request must be promisable now; what the processes hold already is room for it.
 *
 * One thread: the loop's.  /proc is read once for each unmanaged process that NVML lists.
 */

struct daemon;
struct peer;
struct wire_message;

/** adopt_process - ADOPT: @fds[0] is a pidfd of the process; answers ADOPTED or ERROR */
void adopt_process(struct daemon *d, struct peer *peer, const struct wire_message *msg, int *fds,
		   unsigned n_fds);

#endif
