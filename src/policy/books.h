// SPDX-License-Identifier: Apache-2.0
#ifndef POLICY_BOOKS_H
#define POLICY_BOOKS_H

/*
 * The ledger's insides, shared by its files and by nobody else.
 *
 *   ledger.c   GPUs, accounts and their sums     process.c  attach, detach, death
 *   job.c      jobs: life and change             admit.c    the queue for admission
 *   room.c     the rules: wall, promise, burst, credit ahead
 *   ask.c      need, grant, give back            wait.c     who waits for memory
 *   circle.c   circles of waiters                poll.c     what has become due
 *   overdraft.c  turns beyond the limit          probe.c    a context made to be measured
 *   settle.c   contexts                          sample.c   NVML's figures
 *   share.c    memory that processes share
 *   view.c     views and figures                 text.c     sentences for people
 *   why.c      what a job waits for, in figures and one sentence
 *   check.c    the invariants
 *
 * Every change of a charge goes through account_update, which carries the difference up the chain
 * of nested leases to the GPU.  A charge or promise that shrank makes the GPU dirty; ledger_poll
 * then looks who fits.
 */

#include "base/list.h"
#include "policy/ledger.h"

#define SHARE_BUCKETS 1024u

struct gpu {
	struct ledger *ledger;
	unsigned number;
	uint8_t uuid[16];
	unsigned index;
	char label[16];
	bool is_single;
	bool closed;
	uint64_t total_bytes;
	uint64_t reserved_bytes; /* the driver's */
	uint64_t reserve_bytes;  /* configured */
	uint64_t used_bytes;
	uint64_t unmanaged_bytes; /* listed, and used by nobody we see in two samples running */
	uint64_t hidden_bytes;    /* the last sample's: used − all processes */
	uint64_t context_bytes;   /* 0: not measured yet */
	bool lost;
	bool used_known;

	uint64_t charged;   /* Σ over root leases */
	uint64_t committed; /* Σ over root leases */
	uint64_t overdraft; /* Σ over accounts; the card's alone, no part of charged */
	struct list turns;  /* tickets that wait for an overdraft, by arrival */
	bool turns_dirty;
	uint64_t turns_due_ns; /* of the first of them to give up; LEDGER_NEVER */
	uint64_t probe;        /* of a context that the caller makes to measure it; as overdraft */
	uint64_t probe_until_ns; /* its cost is awaited; 0: not */
	unsigned n_orphans;      /* overdrafts whose holder will not say how they ended */
	struct list leases;      /* all, nested ones too */
	struct list accounts;
	struct list waiters; /* tickets, by class and arrival */
	unsigned n_waiters;

	bool dirty;           /* room may have become free: pump */
	bool recall;          /* a lease went over its wall: its credit must come back */
	uint64_t deadline_ns; /* of the first waiter to run out; LEDGER_NEVER */
	uint64_t changed_ns;  /* the last time any charge, promise or waiter changed */
	bool circle_looked;   /* since changed_ns */
	uint64_t mark;        /* the pass in which an ask is blocked by the card */
	uint64_t admit_mark;  /* … an admission */
	uint64_t swept;       /* the admission pass in which all credit was called back */

	bool sampling; /* a sample is under way */
	uint64_t begun_ns;
	uint64_t sampled_ns;
	uint64_t urgent_until_ns; /* something is unsettled */
	unsigned n_settling;
	unsigned n_dying;
	uint64_t dying_since_ns;
};

struct lease {
	struct ledger_job *job;
	struct gpu *gpu;
	struct lease *parent; /* the lease that this one lives in */
	unsigned slot;
	struct list on_gpu;
	uint64_t request;
	uint64_t limit; /* LEDGER_NO_LIMIT: none */
	uint64_t charged_own;
	uint64_t charged;        /* with the nested ones */
	uint64_t kids_committed; /* Σ */
	uint64_t committed;      /* max(request, charged_own + kids_committed) */
	uint64_t ceiling;        /* of the view; 0: not asked yet */
	uint64_t turns;          /* Σ of the turns taken, with the nested ones */
	uint64_t turn_mark;      /* the pass in which a turn is blocked here */
	unsigned n_waiters;
	bool over; /* charged more than its wall: returns must not be taken again unasked */
	uint64_t mark;
	uint64_t admit_mark;
};

enum job_state {
	JOB_WAITS,
	JOB_ADMITTED,
	JOB_TIMED_OUT,
	JOB_ENDED,
};

struct ledger_job {
	uint64_t id;
	char name[LEDGER_NAME_MAX];
	enum ledger_class job_class;
	enum job_state state;
	bool may_wait;
	uint64_t when_full_ns;
	uint64_t admit_deadline_ns;
	uint64_t seq; /* age */
	struct ledger_amount request;
	struct ledger_amount limit;
	unsigned n_listed;
	unsigned listed[LEDGER_MAX_SLOTS];
	struct ledger_job *parent;
	unsigned depth;
	unsigned n_waiters; /* tickets of this job and of those nested in it */
	void *owner;
	struct list all, queue, event, sibling;
	struct list kids, processes;
	unsigned n_slots; /* wanted; and had, once admitted */
	struct lease leases[];
};

struct account {
	struct ledger_process *process;
	struct lease *lease;
	unsigned slot;
	struct list on_gpu;
	uint64_t granted;
	uint64_t pending;
	uint64_t overhead;
	uint64_t inherited;             /* Σ of its imports, whose owners are gone */
	uint64_t inherited_unshown;     /* the part that NVML shows with nobody */
	uint64_t overhead_since_import; /* so much of the overhead came while something was open */
	struct list exports, imports;
	uint64_t charged;            /* as it stands in the sums */
	unsigned creating, settling; /* contexts */
	bool has_turn;               /* a call beyond the limit is under way: */
	uint64_t turn;               /* what it may take … */
	uint64_t overdraft;          /* … and what of that is charged to the card */
	uint64_t turn_peak;          /* since the sample under way began */
	uint64_t orphaned_ns;        /* its holder is gone since then; 0: it is not */
	bool wanted;                 /* as the page says */
	bool released;               /* dead, and NVML shows nothing any more */

	uint64_t nvml;
	bool nvml_known;
	bool seen;       /* NVML listed it once: then its absence means 0 */
	bool agreed;     /* two samples since the last change of state say the same */
	bool claimed;    /* restored: granted is a claim that NVML may cut */
	uint64_t figure; /* of the sample being read */
	bool figured;

	bool snapped; /* a sample is under way: */
	uint64_t snap_moving;
	uint64_t snap_returned;
	uint64_t snap_held;
	uint64_t snap_managed;
	uint64_t snap_grants;
	uint64_t granted_peak;
	uint64_t grants;   /* counts */
	uint64_t measured; /* NVML − held, in the last sample that can be believed */
	uint64_t measured_held;
	uint64_t measured_since_ns; /* all the same since then */
	bool measured_valid;
	uint64_t less_since_ns,
		less_most; /* the overhead seems to be less, at most so much; 0: no */
	unsigned less_samples;
	uint64_t unsettled_until_ns;
};

struct ledger_process {
	struct ledger_job *job;
	int pid;
	enum ledger_state state;
	uint64_t since_ns; /* of the state */
	void *owner;
	unsigned n_tickets;
	unsigned n_shares; /* exports and imports */
	struct list of_job, gone;
	unsigned n_slots;
	struct account accounts[];
};

enum ticket_kind {
	TICKET_MEMORY,
	TICKET_CONTEXT,
	TICKET_SETTLE, /* a context that was made and is not measured yet */
	TICKET_TURN,   /* an overdraft */
};

enum ticket_place {
	TICKET_NOWHERE,
	TICKET_WAITS,   /* in gpu->waiters */
	TICKET_SETTLES, /* in ledger->settling */
	TICKET_TURNS,   /* in gpu->turns */
	TICKET_READY,   /* in ledger->ready */
};

struct ticket {
	uint64_t id;
	enum ticket_kind kind;
	enum ticket_place place;
	struct list node;
	struct account *account;
	uint64_t bytes;
	void *cookie;
	uint64_t since_ns;
	uint64_t deadline_ns;        /* for room */
	uint64_t settle_deadline_ns; /* over the wall, but a figure is unsettled; 0: is not */
	bool for_probe;              /* … that of a context which is made to be measured */
	struct ledger_grant grant;
	struct ledger_settled settled;
};

struct ledger {
	struct credit_ops ops;
	uint64_t sample_ns; /* between two regular samples */
	unsigned n_gpus;
	struct gpu gpus[LEDGER_MAX_GPUS];
	struct list jobs;
	struct list queue; /* jobs that wait for admission, by class and age */
	unsigned n_queue;
	bool queue_dirty;
	uint64_t queue_look_ns;     /* when to look at unused credit for the queue's sake */
	uint64_t queue_deadline_ns; /* of the first job that gives up */
	struct list settling, ready, gone, job_events;
	uint64_t last_id, last_seq, pass;
	struct list shares[SHARE_BUCKETS]; /* by key */
	struct list orphans;               /* shares without owner and importers, by age */
	unsigned n_orphans;
};

/* ledger.c */
uint64_t gpu_usable(const struct gpu *g);
uint64_t gpu_allocatable(const struct gpu *g);
void gpu_changed(struct gpu *g, uint64_t now_ns, bool freed);
void lease_recommit(struct lease *lease, uint64_t now_ns);
uint64_t account_credit(const struct ledger *l, const struct account *a);
void account_update(struct account *a, uint64_t now_ns);
void account_set_granted(struct ledger *l, struct account *a, uint64_t granted, uint64_t now_ns);
void account_call_back(struct ledger *l, struct account *a, uint64_t now_ns);
void account_unsettle(struct account *a, uint64_t now_ns);
void gpu_call_back(struct ledger *l, struct gpu *g, const struct ledger_job *root, uint64_t now_ns);
void lease_look_over(struct lease *lease);
void account_want(struct account *a);
void gpu_want(struct gpu *g);
struct ledger_job *job_root(struct ledger_job *j);
void process_release(struct ledger *l, struct ledger_process *p);

/* room.c */
struct block {
	bool over;          /* a wall: never by waiting */
	struct lease *wall; /* whose */
	uint64_t *mark;     /* what it is blocked by; NULL: it fits */
};
uint64_t lease_wall(const struct lease *lease);
uint64_t lease_left(const struct lease *lease);
uint64_t lease_slack(const struct lease *lease);
uint64_t gpu_slack(const struct gpu *g);
bool lease_is_unsettled(const struct lease *wall, uint64_t now_ns);
uint64_t gpu_passing(const struct gpu *g);
bool context_cost_is_near(const struct account *a);
bool context_waits_for_probe(const struct account *a, uint64_t now_ns);
struct block room_for_ask(struct lease *lease, uint64_t bytes, uint64_t pass);
struct block room_for_promise(struct lease *parent, struct gpu *g, uint64_t more, uint64_t pass);
uint64_t credit_ahead(const struct ledger *l, const struct account *a);
uint64_t context_estimate(const struct account *a, bool patient);

/* ask.c */
void ticket_apply(struct ledger *l, struct ticket *t, uint64_t now_ns);
void grant_fill(const struct ledger *l, const struct account *a, struct ledger_grant *ret);
void grant_undo(struct ledger *l, struct ticket *t, uint64_t now_ns);
struct account *process_account(struct ledger_process *p, unsigned slot);
struct ticket *ticket_new(struct ledger *l, struct account *a, const struct ticket *like,
			  uint64_t now_ns, struct ledger_grant *ret);

/* wait.c */
void wait_add(struct ticket *t, uint64_t now_ns);
bool wait_may_settle(const struct ticket *t, const struct lease *wall, uint64_t now_ns);
void wait_resort(struct ledger *l, struct ledger_job *j);
void wait_answer(struct ledger *l, struct ticket *t, enum ledger_result result, uint64_t now_ns);
void wait_pump(struct ledger *l, struct gpu *g, uint64_t now_ns);
void wait_drop_process(struct ledger *l, struct ledger_process *p, uint64_t now_ns);

/* overdraft.c */
void turn_orphan(struct account *a, uint64_t now_ns);
void turn_inherit(struct account *from, struct account *to, uint64_t now_ns);
void turn_end(struct account *a);
void turn_pump(struct ledger *l, struct gpu *g, uint64_t now_ns);
void turn_poll(struct gpu *g, uint64_t now_ns);
void turn_sampled(struct gpu *g, uint64_t begun_ns);
uint64_t turn_deadline_ns(const struct gpu *g);

/* probe.c */
void probe_poll(struct gpu *g, uint64_t now_ns);

/* circle.c */
bool circle_is_at(const struct ledger *l, const struct gpu *g);
bool circle_break(struct ledger *l, uint64_t now_ns);

/* settle.c */
void settle_poll(struct ledger *l, uint64_t now_ns);
void settle_answer(struct ledger *l, struct account *a, uint64_t begun_ns, uint64_t cost_bytes,
		   uint64_t now_ns);
uint64_t settle_deadline_ns(const struct ledger *l);

/* admit.c */
void admit_queue_add(struct ledger *l, struct ledger_job *j);
void admit_queue_del(struct ledger *l, struct ledger_job *j);
void admit_pass(struct ledger *l, uint64_t now_ns);
void job_place(struct ledger *l, struct ledger_job *j, struct gpu *const *gpus, uint64_t now_ns);
uint64_t amount_bytes(const struct ledger_amount *a, const struct gpu *g);
bool job_candidate(struct ledger *l, const struct ledger_job *j, unsigned i, struct gpu **ret_gpu,
		   struct lease **ret_parent);
bool job_may_go(const struct ledger *l, const struct ledger_job *j, const struct gpu *g);
const struct ledger_job *admit_before(const struct ledger *l, const struct ledger_job *j,
				      const struct gpu *g);
bool job_contradicts(const struct ledger_job *j, const struct gpu *g);
bool job_is_eligible(const struct ledger_job *j, const struct gpu *g, const struct lease *parent);

/* share.c */
void shares_gone(struct ledger *l, struct ledger_process *p, uint64_t now_ns);
void shares_cut(struct account *a, uint64_t less, uint64_t now_ns);
void shares_free(struct ledger *l);
uint64_t shares_inherited(const struct account *a);

/* view.c */
uint64_t lease_held(const struct ledger *l, const struct lease *lease, uint64_t *ret_credit);
uint64_t gpu_promised(const struct ledger *l, const struct gpu *g, const struct lease *except);

/* text.c: each fills LEDGER_TEXT_MAX bytes */
void text_over_limit(const struct ledger *l, const struct ticket *t, const struct lease *wall,
		     char *text);
void text_full(const struct ledger *l, const struct ticket *t, enum ledger_result result,
	       char *text);
const struct gpu *text_candidate(const struct ledger *l, const struct ledger_job *j,
				 uint64_t *ret_free, const struct lease **ret_parent);
bool text_is_obstacle(const struct ledger *l, const struct ledger_job *j, const struct gpu *g,
		      uint64_t free_bytes);
unsigned text_missing(const struct ledger *l, const struct ledger_job *j);
uint64_t text_free(const struct ledger *l, const struct gpu *g, const struct lease *parent);
void text_no_turn(const struct ticket *t, char *text);
void text_waits(const struct ledger *l, const struct ledger_job *j, char *text);
void text_never(const struct ledger *l, const struct ledger_job *j, char *text);

#endif
