// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_REGISTRY_H
#define DAEMON_REGISTRY_H

/*
 * The jobs and processes that allotd knows, and whose a pid is.
 *
 * A job is there from its RUN (or from the store) until its keeper is gone and nothing of it holds
 * memory.  A process is there from its ATTACH (or from the first sample that shows it) until NVML
 * shows nothing of it.  Each holds the ledger's object of the same thing.
 *
 * A pid in these tables is guarded by a pidfd: as long as that is alive the number belongs to
 * nobody else.  A process's own number, used in pages and towards keepers, is made of pid and
 * start time, so that it means the same after a restart and needs no store.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "base/list.h"
#include "wire/wire.h"

struct credit_page;
struct daemon;
struct ledger_job;
struct ledger_process;
struct peer;
struct proc_info;
struct run;
struct scope;

#define REGISTRY_BUCKETS   512
#define REGISTRY_JOBS_MAX  4096
#define REGISTRY_ANCESTORS 16

/* what a job asked for, as the store keeps it */
struct job_spec {
	uint64_t id;
	uint64_t parent; /* 0: none */
	uid_t uid;
	gid_t gid;
	pid_t keeper_pid;
	uint64_t keeper_start; /* clock ticks since boot */
	pid_t session;         /* one that belongs to this job alone; 0: none */
	struct wire_amount request;
	struct wire_amount limit; /* both 0: none */
	uint32_t job_class;
	uint32_t fail_policy;
	bool may_wait;
	uint64_t when_full_ns;
	uint32_t compute_min_permille;
	uint32_t compute_max_permille;
	uint32_t n_gpus; /* of the lease; slot order */
	struct wire_uuid gpus[WIRE_MAX_GPUS];
	uint64_t ceilings[WIRE_MAX_GPUS]; /* of the view; 0: not asked yet */
	bool is_ended;                    /* the command ended; its processes may live on */
	bool is_adopted; /* no keeper: keeper_pid is the process that was adopted (adopt.h) */
	char name[WIRE_NAME_MAX];
	char command[WIRE_COMMAND_MAX];
};

struct pid_entry {
	struct list node;
	pid_t pid;
};

struct job {
	struct list node;
	struct pid_entry keeper_entry;
	struct daemon *daemon;
	struct job_spec spec;
	struct ledger_job *lease;
	struct scope *scope; /* its own cgroup; NULL: none, or not yet */
	struct job *parent;
	unsigned n_children;
	struct list processes;
	struct peer *keeper; /* its connection; NULL while it is away */
	uint32_t run_request_id;
	int keeper_pidfd;
	sd_event_source *keeper_death;
	bool is_keeper_dead;
	bool is_admitted;
	bool is_restored;         /* from before this allotd started */
	bool is_resumed;          /* its keeper is there again */
	bool has_new_members;     /* not yet in the store */
	uint32_t cancel_signal;   /* to be told to a keeper that is away */
	sd_event_source *kill;    /* of a cancel: its grace runs; or NULL */
	struct wire_waiting told; /* what the waiting person was told last */
	struct run *run;          /* runs.h; NULL: no memory, or not looked for yet */
	uint64_t since_ns;        /* it waits, or waited, for its place since then; 0: not known */
	int bell;                 /* rung by all its processes; -1: none yet */
	sd_event_source *ring;
};

/* a request whose answer comes later; it outlives the connection it came by */
struct ask {
	struct list node;  /* of process.asks */
	struct peer *peer; /* NULL: nobody waits for the answer any more */
	uint32_t request_id;
	uint32_t slot;
	uint32_t kind; /* the answer's type */
	uint64_t ticket;
	char text[WIRE_TEXT_MAX]; /* what it waits for */
};

struct process {
	struct list node; /* of job.processes */
	struct pid_entry entry;
	struct job *job;
	struct ledger_process *account;
	struct list late;     /* of those that are not finished yet: life.h */
	uint64_t number;      /* 0 while the start time is: process_identify */
	uint64_t start_ticks; /* 0: not asked for yet */
	uid_t uid;
	int pidfd;
	bool is_watched;   /* deaths.h */
	struct list peers; /* its connections */
	struct list asks;
	struct credit_page *page; /* NULL: found by NVML, has none */
	uint64_t page_inode;
	int page_fd;    /* -1, or for a keeper that does not have it yet */
	bool is_silent; /* has a page but no doorbell: it is looked at from time to time */
	bool is_dead;
	char command[WIRE_COMMAND_MAX];
};

/* neither keeper nor known process itself: one whose children are known to belong to a job */
struct ancestor {
	pid_t pid; /* 0: none; guarded by the pidfd */
	int pidfd;
	struct job *job;
};

struct registry {
	struct list jobs;
	unsigned n_jobs;
	unsigned n_waiting; /* jobs that wait for admission */
	unsigned n_processes;
	unsigned n_silent;
	bool has_new_members; /* some job has */
	uint64_t last_job;
	struct list settling; /* peers whose SETTLE is to be answered */
	struct list keepers[REGISTRY_BUCKETS];
	struct list processes[REGISTRY_BUCKETS];
	struct ancestor ancestors[REGISTRY_ANCESTORS];
	unsigned next_ancestor;
	uint64_t epoch; /* grows whenever somebody may belong to another job than before */
};

void registry_init(struct registry *r);
void registry_fini(struct registry *r);

/**
 * job_new - a job known by @spec, with its keeper watched by @keeper_pidfd (taken over; -1: dead)
 * Returns NULL when there is no memory or there are too many jobs.
 */
struct job *job_new(struct daemon *d, const struct job_spec *spec, int keeper_pidfd);

/** job_free - forget it; it has no processes and no children */
void job_free(struct job *job);

struct job *job_by_id(struct registry *r, uint64_t id);

/** job_is_inside - is @job @outer or nested in it, at any depth? */
bool job_is_inside(const struct job *job, const struct job *outer);

uint64_t process_number(pid_t pid, uint64_t start_ticks);
pid_t process_number_pid(uint64_t number);

/**
 * process_new - without an account and a page; @pidfd is taken over
 * @start_ticks: 0 when it is found out later
 * NULL: no memory.
 */
struct process *process_new(struct job *job, pid_t pid, uint64_t start_ticks, int pidfd);

/** process_free - forget it, its page and its doorbell; its connections stay, as nobody's */
void process_free(struct process *p);

/** process_identify - find out start time and number if need be; false: it is gone, without them */
bool process_identify(struct process *p);

struct process *process_by_pid(struct registry *r, pid_t pid);
struct process *process_by_number(struct registry *r, uint64_t number);

/**
 * registry_whose - the job that @pid belongs to
 * @ret_info: filled when the process is there (start_ticks is not 0 then)
 *
 * The nearest of itself and its ancestors that is a living keeper or a known process; else the job
 * whose own cgroup it is in (scope.h); else the job whose own session it is in.  NULL: nobody's, or
 * gone.
 */
struct job *registry_whose(struct daemon *d, pid_t pid, struct proc_info *ret_info);

/**
 * registry_of_pidfd - the same for the process behind @pidfd, with few questions to the kernel
 * @ret_info: pid is 0 when it is gone; start_ticks may be 0, and the process is alive then, else
 *            the caller has still to look whether @pidfd is
 *
 * Parents once walked through are remembered (registry_forget), each guarded by a pidfd.
 */
struct job *registry_of_pidfd(struct daemon *d, pid_t pid, int pidfd, struct proc_info *ret_info);

/** registry_forget - keepers came or went: who belongs to whom is looked up afresh */
void registry_forget(struct registry *r);

/** pidfd_is_alive - does the number behind it still belong to that process? */
bool pidfd_is_alive(int pidfd);

#endif
