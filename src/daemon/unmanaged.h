// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_UNMANAGED_H
#define DAEMON_UNMANAGED_H

/*
 * Programs that use a GPU past allot: who they are, and what is done about them.
 *
 * Each unmanaged process that NVML lists is known here once, from the first sample that shows it to
 * the first that does not: its start time, user and command, guarded by a pidfd, so that a crowd
 * costs one system call a process and sample.  It is told to the log once, unless it draws: a
 * desktop is no news.
 *
 * Policy, per GPU: `alert` shows; `kill` ends, in the machine's service only.  Never ended are
 *
 *   what NVML lists as graphics, also beside compute (C+G)
 *   who works through MPS, and MPS itself: others' work would end with it
 *   display servers and managers
 *   allotd's own, and whatever allotd runs below
 *   what started before the policy was set; a start of allotd sets it anew
 *   root's programs in allotd's own PID namespace: services of the machine, and the person who set
 *   the policy.  Root in a container is a tenant like any other
 *   a process that cannot be held by a pidfd, or whose user or start time is unknown
 *
 * Ending one: it was there, and to be ended, in two samples a second or more apart; then who it is
 * is asked once more, and SIGTERM goes through the pidfd; SIGKILL after the grace of a cancel. Each
 * step is logged.  Under `alert` the same judgement is made, and only told (ps, doctor).
 *
 * NVML numbers processes as the host does.  In a PID namespace of its own allotd cannot say who is
 * meant, so `kill` is not carried out there, and that is said.
 *
 * Names decide nothing by themselves: a program's file must be root's to count as MPS or display.
 *
 * Bounds: UNMANAGED_MAX processes are known; more are counted by gpus.c and left alone.  A sample
 * looks closely at UNMANAGED_LEARN new ones, the others at the next.
 *
 * One thread: the loop's.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/wire.h"

struct daemon;
struct sampler_proc;
struct unmanaged;

#define UNMANAGED_MAX   4096
#define UNMANAGED_LEARN 128

enum unmanaged_verdict {
	UNMANAGED_END,
	UNMANAGED_SPARE_UNKNOWN,
	UNMANAGED_SPARE_GRAPHICS,
	UNMANAGED_SPARE_MPS,
	UNMANAGED_SPARE_NO_COMPUTE,
	UNMANAGED_SPARE_DISPLAY,
	UNMANAGED_SPARE_OWN,
	UNMANAGED_SPARE_ROOT,
	UNMANAGED_SPARE_BEFORE,
};

/* what is known of a process */
struct unmanaged_facts {
	uint16_t kinds; /* enum sampler_kinds */
	bool is_known;  /* identified, held by a pidfd; the rest counts only then */
	uid_t uid;
	uint64_t start_ticks;
	bool is_mps, is_display, is_own, is_foreign;
};

/**
 * unmanaged_judge - would `kill` end it?
 * @since_ticks: when the policy was set, as start times count; 0: leave that aside
 */
enum unmanaged_verdict unmanaged_judge(const struct unmanaged_facts *f, uint64_t since_ticks);

/** unmanaged_verdict_text - "it draws on the screen"; "" for UNMANAGED_END */
const char *unmanaged_verdict_text(enum unmanaged_verdict v);

int unmanaged_new(struct daemon *d, struct unmanaged **ret);
struct unmanaged *unmanaged_free(struct unmanaged *u);

/** unmanaged_configured - a configuration is taken now: policies that change are set as of now */
void unmanaged_configured(struct unmanaged *u);

/** unmanaged_set_policy - of a GPU, as the configuration has it, also of one that appears later */
void unmanaged_set_policy(struct unmanaged *u, unsigned gpu, bool is_kill);
bool unmanaged_is_kill(const struct unmanaged *u, unsigned gpu);

/** unmanaged_is_known - was @pid nobody's the last time, and can that not have changed since? */
bool unmanaged_is_known(struct unmanaged *u, pid_t pid);

/* one GPU's sample: begin, saw for each unmanaged process, end */
void unmanaged_begin(struct unmanaged *u, unsigned gpu);
void unmanaged_saw(struct unmanaged *u, unsigned gpu, const struct sampler_proc *proc);

/** unmanaged_end - true when something is under way: a further sample is wanted soon */
bool unmanaged_end(struct unmanaged *u, unsigned gpu, uint64_t now_ns);

/** unmanaged_fill - user, command and what the policy says of @pid; false: not known (yet) */
bool unmanaged_fill(const struct unmanaged *u, unsigned gpu, pid_t pid, struct wire_ps_item *m);

/** unmanaged_killed - how many were asked to end, by their GPU */
uint64_t unmanaged_killed(const struct unmanaged *u, unsigned gpu);

#endif
