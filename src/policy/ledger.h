// SPDX-License-Identifier: Apache-2.0
#ifndef POLICY_LEDGER_H
#define POLICY_LEDGER_H

/*
 * The ledger: who was promised, granted and charged how many bytes of which GPU, who may have
 * more, who waits, and for what.
 *
 * Pure: every call takes the time; there is no I/O, no thread, no global.  The one thing outside
 * it, the credit words that tenants move by themselves (wire/page.h), is reached through
 * struct credit_ops; in tests that is an array.  One thread uses a ledger.  Nothing blocks.
 *
 * Figures of one process on one GPU (an account)
 *   granted   what allotd gave it, unused credit included; only allotd changes it
 *   credit    the unused part, in the credit word.  A tenant may scribble there: never believed
 *             beyond granted
 *   held      granted − credit
 *   pending   estimates for contexts that are being made or not yet measured
 *   overhead  what the driver took by itself: NVML's figure − held
 *   inherited shared memory whose owner is gone (policy/share.h)
 *   charged   granted + inherited + pending + overhead; of a process that is detached or dead: the
 * larger of that and NVML's figure, and NVML's figure alone once two samples agree
 *
 * Figures of one job on one GPU (a lease)
 *   charged     over its processes and over the jobs nested in it
 *   committed   max(request, charged of its own processes + committed of the nested jobs)
 * On a GPU:     allocatable = total − reserved by the driver − configured reserve − unmanaged
 *
 * Rules (n more bytes for job j)
 *   wall        charged(j) + n ≤ limit(j), and so for every job that j is nested in; else it is
 *               refused at once.  No limit asked for: the card's usable bytes are the limit.
 *   promise     allowed when charged(j) + n ≤ request(j) and the card's charged + n ≤ allocatable
 *   burst       else allowed when Σ committed, with j's new figure, ≤ allocatable
 *   The same two rules hold inside a job that has nested jobs, with its limit for the card.
 *   wait        else it waits: class, then arrival, strictly; asks under the promise rule pass.
 *               An ask that may not wait and fits passes too: nothing that fits is refused.
 *   Unused credit is called back before anybody is refused or made to wait, so the decision rests
 *   on what is held.  While anybody waits on a GPU no credit is handed out there and `wanted` is
 *   set, so each return rings.
 *   estimate    who would be refused by the wall while a figure of the job is unsettled waits up
 *               to LEDGER_SETTLE_NS for it
 *   overdraft   a call of which only the driver knows whether it takes more memory (an allocation
 *               from a pool that keeps some) is made beyond the limit, in its turn: one a process,
 *               LEDGER_OVERDRAFT_BYTES in all of a job, in order, and charged(j) with them never
 *               over limit(j) by more than that.  On the card it is charged as far as the card has
 *               room; where it has none, the driver finds none either.  It is no part of what a job
 *               holds, is promised or is shown.  What the call took is asked for as usual, then the
 *               overdraft is given back; if the holder cannot say how the call ended, the first
 *               sample begun after that tells.  Nobody is held up by a holder for longer than
 *               LEDGER_TURN_NS: whoever has waited so long, while no turn ended, is refused.
 *   circle      when every job that holds or is promised something on a GPU waits and nothing
 *               moved for LEDGER_CIRCLE_NS, the youngest waiter is refused of those who hold
 *               what they wait for.  A circle may go round over several GPUs (circle.c).
 *   admission   Σ committed + new request ≤ allocatable, class then arrival, strictly on each GPU;
 *               whoever waits for memory there in the same or a better class goes first.
 *
 * Invariants (ledger_check)
 *   at every grant the charged figures up the chain are within their limits (within
 *   LEDGER_OVERDRAFT_BYTES of them with the overdrafts) and the card's Σ charged with all
 *   overdrafts is within allocatable; the driver's own growth may exceed both afterwards (free then
 *   reads 0, the next ask is refused).  Every sum equals the sum of its parts.  Nothing wraps.
 *
 * Ownership: jobs and processes are heap objects of the ledger, valid until their _free;
 * @owner/@cookie pointers are the caller's, handed back untouched.  After any call that takes a
 * ledger that is not const, call ledger_poll until it says false: other people's answers may have
 * become due.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/size.h"

#define LEDGER_MAX_GPUS  64 /* of the machine */
#define LEDGER_MAX_SLOTS 16 /* of a lease */
#define LEDGER_MAX_DEPTH 8  /* of nested jobs */
#define LEDGER_NAME_MAX  64
#define LEDGER_TEXT_MAX  400

#define LEDGER_MAX_TICKETS      256 /* that one process may have waiting */
#define LEDGER_CREDIT_BYTES     (64 * MIB)
#define LEDGER_CONTEXT_BYTES    (512 * MIB)     /* estimate while none was measured on the GPU */
#define LEDGER_PROBE_BYTES      (640 * MIB)     /* charged for a probe until it is measured */
#define LEDGER_PROBE_NS         (15 * NS_PER_S) /* nobody waits for one for longer */
#define LEDGER_OVER_LIMIT_BYTES (128 * MIB)     /* the driver's growth past a limit we bear */
#define LEDGER_OVERDRAFT_BYTES  (96 * MIB)      /* of one job, under way; below what we bear */
#define LEDGER_TURN_NS          NS_PER_S /* that nobody's turn ends, before a waiter gives up */
#define LEDGER_TURN_MOST_NS     (10 * NS_PER_S) /* that anybody waits for a turn */
#define LEDGER_SETTLE_NS        NS_PER_S
#define LEDGER_CIRCLE_NS        NS_PER_S
#define LEDGER_STEADY_NS        (200 * NS_PER_MS) /* between a grant and the call it was for */
#define LEDGER_STUCK_NS         (10 * NS_PER_S)   /* a call that takes longer is none any more */
#define LEDGER_SAMPLE_NS        NS_PER_S
#define LEDGER_SAMPLE_URGENT_NS (5 * NS_PER_MS)
#define LEDGER_NEVER            UINT64_MAX
#define LEDGER_NO_LIMIT         UINT64_MAX

struct ledger;
struct ledger_job;
struct ledger_process;

/*
 * The credit words; @owner is the process's; slot counts the GPUs of its lease.  Every access is
 * sequentially consistent (wire/page.h): set_wanted is followed by a peek, and a call_back where
 * that is not 0.  A process without a page answers 0 and ignores the rest.  The page stays until
 * ledger_process_free.
 */
struct credit_ops {
	uint64_t (*peek)(void *owner, unsigned slot);
	uint64_t (*call_back)(void *owner, unsigned slot); /* exchange with 0 */
	void (*add)(void *owner, unsigned slot, uint64_t bytes);
	void (*set_wanted)(void *owner, unsigned slot, bool wanted);
	void (*set_granted)(void *owner, unsigned slot,
			    uint64_t bytes);             /* the copy for a restart */
	uint64_t (*managed)(void *owner, unsigned slot); /* held in managed memory */
	uint64_t (*elastic)(void *owner,
			    unsigned slot); /* held, and taken by the driver or not yet */
	uint64_t (*returned)(void *owner, unsigned slot); /* all that was ever given back */
	/* what calls of the driver that are under way take of what is held, at most */
	uint64_t (*moving)(void *owner, unsigned slot);
};

/** ledger_new - an empty ledger; @ops is copied.  NULL: no memory. */
struct ledger *ledger_new(const struct credit_ops *ops);
void ledger_free(struct ledger *l); /* with all that is in it */

/* ---- GPUs ---- */

struct ledger_gpu_spec {
	uint8_t uuid[16];
	unsigned index; /* PCI order */
	char label[16]; /* what texts call it: "0", of a MIG instance "0:1"; "": the index */
	bool is_single; /* a MIG instance: CUDA shows a program one of them and nothing beside */
	uint64_t total_bytes;    /* NVML's */
	uint64_t reserved_bytes; /* by the driver */
	uint64_t reserve_bytes;  /* configured */
	uint64_t context_bytes;  /* measured cost of a context, kept from before; 0: not known */
};

/**
 * ledger_gpu_add - a GPU of the machine, known by a first sample
 * Returns its number (0, 1, … in order of the calls); -EINVAL, -ENOSPC.
 */
int ledger_gpu_add(struct ledger *l, const struct ledger_gpu_spec *spec);

/**
 * ledger_gpu_set_reserve - another configured reserve, from now on
 * Nobody loses what it holds or was promised; an ask inside a promise that has no room left waits.
 */
void ledger_gpu_set_reserve(struct ledger *l, unsigned gpu, uint64_t reserve_bytes,
			    uint64_t now_ns);

/** ledger_set_sample_ns - the regular round of samples; LEDGER_SAMPLE_NS until it is called */
void ledger_set_sample_ns(struct ledger *l, uint64_t sample_ns);

/** ledger_gpu_lost - the GPU fell off the bus (or is back): nothing is admitted or granted there */
void ledger_gpu_lost(struct ledger *l, unsigned gpu, bool lost, uint64_t now_ns);

/** ledger_gpu_label - what texts call it from now on */
void ledger_gpu_label(struct ledger *l, unsigned gpu, const char *label);

/** ledger_gpu_closed - a card in MIG mode: shown, but its memory belongs to its instances */
void ledger_gpu_closed(struct ledger *l, unsigned gpu, bool closed, uint64_t now_ns);

/** ledger_gpu_context_bytes - the measured cost of a context, to be stored; 0: not known */
uint64_t ledger_gpu_context_bytes(const struct ledger *l, unsigned gpu);

/*
 * Measuring a context's cost before anybody needs it: a process of the caller's own makes one on
 * the GPU.  What that holds is charged to the card, to no job, and is no part of what is promised:
 * it goes again.  Meanwhile a first context whose cost may matter waits (ledger_need_context).
 */

/**
 * ledger_probe_begin - charge the card for a context whose cost nobody knows
 * False: it is known, another one is under way, the GPU is lost, or has no room for it now.
 */
bool ledger_probe_begin(struct ledger *l, unsigned gpu, uint64_t now_ns);

/** ledger_probe_measured - @bytes, as NVML says: that is the cost, and what is charged from now on
 */
void ledger_probe_measured(struct ledger *l, unsigned gpu, uint64_t bytes, uint64_t now_ns);

/** ledger_probe_failed - nobody waits for it any more */
void ledger_probe_failed(struct ledger *l, unsigned gpu, uint64_t now_ns);

/** ledger_probe_end - what it held is gone */
void ledger_probe_end(struct ledger *l, unsigned gpu, uint64_t now_ns);

struct ledger_gpu_figures {
	uint64_t total_bytes;
	uint64_t used_bytes; /* NVML's, of the whole card */
	uint64_t allocatable_bytes;
	uint64_t requested_bytes; /* Σ requests of the admitted jobs (nested ones are inside) */
	uint64_t limits_bytes;    /* Σ limits, the card's usable bytes where there is none */
	uint64_t held_bytes;      /* Σ held + pending + overhead of all jobs */
	uint64_t credit_bytes;    /* granted, not used; comes back when needed */
	uint64_t passing_bytes;   /* charged beside that, for moments: overdrafts, a probe */
	uint64_t unmanaged_bytes;
	uint64_t grantable_bytes; /* could be promised to a new job now */
	uint64_t burst_bytes;     /* could be taken in bursts now */
	int64_t drift_bytes;      /* NVML − ledger, over the processes that NVML knows */
	uint64_t sample_ns;       /* time of the last sample; 0: none yet */
	unsigned waiting;         /* allocations and jobs that wait for this GPU */
	unsigned waiting_first;   /* of them such as wait for no GPU before it: to be added up */
	unsigned jobs;            /* admitted here */
	bool used_known;
	bool lost;
	bool closed;
};
int ledger_gpu_figures(const struct ledger *l, unsigned gpu, struct ledger_gpu_figures *ret);

/* ---- jobs ---- */

enum ledger_class {
	LEDGER_CLASS_LATENCY,
	LEDGER_CLASS_NORMAL,
	LEDGER_CLASS_BATCH,
	LEDGER_CLASS_COUNT,
};

/* bytes, or a part of the card's total (never more than its usable bytes); both 0: none */
struct ledger_amount {
	uint64_t bytes;
	unsigned permille;
};

struct ledger_job_spec {
	uint64_t id;
	const char *name;             /* copied */
	struct ledger_amount request; /* per GPU */
	struct ledger_amount limit;   /* per GPU; { 0, 0 }: none; never below the request */
	enum ledger_class job_class;
	bool may_wait;              /* an allocation inside the limit while the card is full */
	uint64_t when_full_ns;      /* … for so long */
	uint64_t admit_deadline_ns; /* absolute; LEDGER_NEVER; ≤ now: do not wait at all */
	unsigned n_gpus;            /* 1 … LEDGER_MAX_SLOTS */
	unsigned n_listed;          /* 0: any GPU of the machine (of the parent's lease) */
	unsigned listed[LEDGER_MAX_SLOTS]; /* take n_gpus of these; all of them: in this order */
	struct ledger_job *parent;         /* nested: lives inside that job's lease; or NULL */
};

enum ledger_admission {
	LEDGER_ADMITTED,
	LEDGER_WAITS,      /* LEDGER_EVENT_ADMITTED or _ADMISSION_TIMED_OUT will come */
	LEDGER_BUSY,       /* would wait, and the deadline is now: no job was made */
	LEDGER_NEVER_FITS, /* no job was made; *ret_text says why */
	LEDGER_BAD,        /* a specification that makes no sense, or no memory; *ret_text */
};

/**
 * ledger_admit - a new job
 * @owner:    handed back in its events
 * @ret_text: LEDGER_TEXT_MAX bytes; why it waits or cannot; may be NULL
 * @ret_job:  the job on ADMITTED and WAITS, else untouched
 */
enum ledger_admission ledger_admit(struct ledger *l, const struct ledger_job_spec *spec,
				   void *owner, uint64_t now_ns, struct ledger_job **ret_job,
				   char *ret_text);

/**
 * ledger_job_restore - a job that was admitted before a restart: no questions asked
 * @spec: with every GPU of its lease in listed, in slot order; amounts in bytes
 * Returns 0, -EINVAL, -ENOMEM.
 */
int ledger_job_restore(struct ledger *l, const struct ledger_job_spec *spec, void *owner,
		       uint64_t now_ns, struct ledger_job **ret_job);

/** ledger_job_slots - number of GPUs of an admitted job (0 while it waits); their numbers */
unsigned ledger_job_slots(const struct ledger_job *j, unsigned ret_gpus[LEDGER_MAX_SLOTS]);

/** ledger_job_slot_of - the slot of a GPU in the job's lease; -ENOENT */
int ledger_job_slot_of(const struct ledger_job *j, unsigned gpu);

/* a change of a running job: what has its flag is set; on every GPU of it */
struct ledger_job_change {
	bool has_request, has_limit, has_class, has_when_full;
	struct ledger_amount request;
	struct ledger_amount limit; /* { 0, 0 }: none */
	enum ledger_class job_class;
	bool may_wait;
	uint64_t when_full_ns;
};

/**
 * ledger_job_set - change a job.  A limit below what is held is fine: free reads 0 and the next
 * ask is refused.  A request above the limit is -EINVAL; one that can never be promised is
 * -EDQUOT, one that cannot now -ENOSPC, and nothing changes; -ENOENT: not admitted yet.  @ret_text
 * (may be NULL): why not.
 */
int ledger_job_set(struct ledger *l, struct ledger_job *j, const struct ledger_job_change *change,
		   uint64_t now_ns, char *ret_text);

/**
 * ledger_job_end - the command ended (or the wait for admission is given up)
 *
 * The promise goes back at once; what its processes hold stays charged until they are gone.
 */
void ledger_job_end(struct ledger *l, struct ledger_job *j, uint64_t now_ns);

/** ledger_job_free - forget it; -EBUSY while it has processes or nested jobs */
int ledger_job_free(struct ledger *l, struct ledger_job *j, uint64_t now_ns);

/* why a job waits for admission */
struct ledger_why {
	unsigned position;     /* 1 = next */
	uint64_t needed_bytes; /* request per GPU, on the GPU with most room */
	uint64_t free_bytes;   /* could be promised there now */
	char text[LEDGER_TEXT_MAX];
};
void ledger_job_why(const struct ledger *l, const struct ledger_job *j, uint64_t now_ns,
		    struct ledger_why *ret);

/* ---- what a job waits for, for people (why.c) ---- */

enum ledger_wait_kind { /* as enum wire_why_kind */
			LEDGER_WAITS_FOR_PLACE = 1,
			LEDGER_WAITS_FOR_MEMORY,
			LEDGER_WAITS_FOR_CONTEXT,
			LEDGER_WAITS_FOR_MEASURE,
};

#define LEDGER_WAIT_HOLDERS 16
#define LEDGER_SENTENCE_MAX 512

/* who holds something where the job waits: a job, or with id 0 all programs outside allot */
struct ledger_holder {
	uint64_t id;
	char name[LEDGER_NAME_MAX];
	uint64_t held_bytes;
	uint64_t request_bytes;
	bool waits; /* for memory itself */
};

struct ledger_wait {
	enum ledger_wait_kind kind;
	unsigned gpu; /* its number; not there when has_gpu is false */
	bool has_gpu;
	bool is_circle;        /* all who hold something there wait */
	bool is_one_of_all;    /* it waits for this GPU and for others of those that are told of */
	int pid;               /* whose allocation; 0: the job's admission */
	unsigned position;     /* 1 = next */
	unsigned waiting;      /* so many in that line */
	uint64_t needed_bytes; /* on each GPU */
	uint64_t free_bytes;   /* that it could have there now */
	uint64_t since_ns;     /* when it began; 0: not known */
	uint64_t deadline_ns;  /* LEDGER_NEVER */
	uint64_t total_bytes, allocatable_bytes;
	uint64_t reserve_bytes; /* the driver's and the configured one */
	uint64_t unmanaged_bytes;
	uint64_t before_id; /* the job right before it in the line; 0: none */
	unsigned n_holders; /* may be more than fit below */
	struct ledger_holder holders[LEDGER_WAIT_HOLDERS]; /* the largest first */
	char sentence[LEDGER_SENTENCE_MAX]; /* whole: what, who holds it, since when, what frees it
					     */
};

/**
 * ledger_job_wait - the @n-th thing (from 0) that a job waits for
 * @since_ns: when a job that waits for its place began to; 0: not known
 * Returns false when there are no so many.  A job that waits for its place has one for each GPU
 * that it may have, or, when it wants several, for each that keeps it waiting; the one with most to
 * promise first.  An admitted job has one for each allocation that waits.
 */
bool ledger_job_wait(const struct ledger *l, const struct ledger_job *j, unsigned n,
		     uint64_t since_ns, uint64_t now_ns, struct ledger_wait *ret);

struct ledger_job_figures {
	uint64_t request_bytes;
	uint64_t limit_bytes; /* the one that holds, parents and card included */
	bool has_limit;       /* was one asked for (here or in a parent)? */
	uint64_t held_bytes;  /* held + pending + overhead, nested jobs included */
	uint64_t credit_bytes;
	uint64_t ceiling_bytes; /* of the view; 0: not asked yet */
	unsigned waiting;       /* asks that wait here */
};
int ledger_job_figures(const struct ledger *l, const struct ledger_job *j, unsigned slot,
		       struct ledger_job_figures *ret);

/** ledger_job_limit - the same limit_bytes and has_limit of an admitted job's slot, and no more */
uint64_t ledger_job_limit(const struct ledger_job *j, unsigned slot, bool *ret_has_limit);

/* what a program sees: one rule for CUDA and NVML; depends on no neighbour */
struct ledger_view {
	uint64_t total_bytes;
	uint64_t free_bytes;
	uint64_t used_bytes;
	uint64_t limit_bytes;
};
/** ledger_view - may fix the ceiling of a job without a limit: its first question */
int ledger_view(struct ledger *l, struct ledger_job *j, unsigned slot, struct ledger_view *ret);

/** ledger_view_restore - the ceiling that a job was shown before a restart (ledger_job_figures) */
int ledger_view_restore(struct ledger_job *j, unsigned slot, uint64_t ceiling_bytes);

/* ---- processes ---- */

/**
 * ledger_process_add - a process of an admitted job, attached, holding nothing
 * @owner: for credit_ops and events
 * Returns 0, -EINVAL (not admitted), -ENOMEM.
 */
int ledger_process_add(struct ledger *l, struct ledger_job *j, int pid, void *owner,
		       uint64_t now_ns, struct ledger_process **ret);

/**
 * ledger_process_restore - after a restart: a process with a page
 * @claim_bytes: granted_bytes of its page, per slot.  Taken, but not above the limit that holds;
 *               NVML corrects it in both directions.
 * It starts detached; ledger_process_attach when its shim has connected.
 */
int ledger_process_restore(struct ledger *l, struct ledger_job *j, int pid, void *owner,
			   const uint64_t claim_bytes[LEDGER_MAX_SLOTS], uint64_t now_ns,
			   struct ledger_process **ret);

/** ledger_process_attach - a detached process has a connection again (with its old page) */
void ledger_process_attach(struct ledger *l, struct ledger_process *p, uint64_t now_ns);

/**
 * ledger_process_detach - its last connection closed, its pidfd is alive
 *
 * Waiting asks end silently; contexts that were being made stay charged by estimate and are not
 * asked about any more (ledger_context_done is -EINVAL then).
 */
void ledger_process_detach(struct ledger *l, struct ledger_process *p, uint64_t now_ns);

/**
 * ledger_process_replaced - pid of @old attached anew, as @fresh, of the same job: exec, or after a
 * restart one that NVML showed before its page came back
 *
 * @fresh bears what @old was charged until NVML shows otherwise; @old is freed.
 */
void ledger_process_replaced(struct ledger *l, struct ledger_process *old,
			     struct ledger_process *fresh, uint64_t now_ns);

/**
 * ledger_process_dead - its pidfd says so
 *
 * Waiting asks end silently.  It stays charged until a sample begun after now shows it gone:
 * LEDGER_EVENT_GONE (at once when it never was charged anything).
 */
void ledger_process_dead(struct ledger *l, struct ledger_process *p, uint64_t now_ns);

/** ledger_process_free - forget it, with all it is charged */
void ledger_process_free(struct ledger *l, struct ledger_process *p, uint64_t now_ns);

enum ledger_state {
	LEDGER_ATTACHED,
	LEDGER_DETACHED, /* alive without a connection: charged, shown */
	LEDGER_DYING,    /* dead, its memory not yet gone */
	LEDGER_GONE,     /* waits for ledger_process_free */
};

struct ledger_process_figures {
	enum ledger_state state;
	uint64_t granted_bytes;
	uint64_t credit_bytes;
	uint64_t held_bytes; /* charged − credit: with context and overhead; what ps shows */
	uint64_t pending_bytes;
	uint64_t overhead_bytes;
	uint64_t inherited_bytes; /* policy/share.h */
	uint64_t nvml_bytes;
	bool nvml_known;
	bool unsettled;
	int64_t drift_bytes; /* NVML − held; 0 when NVML is not known */
	uint64_t waiting_bytes;
	uint64_t waiting_since_ns; /* 0: does not wait */
};
/** ledger_process_slot_of - the slot of a GPU in its job's lease; -ENOENT */
int ledger_process_slot_of(const struct ledger_process *p, unsigned gpu);

int ledger_process_figures(const struct ledger *l, const struct ledger_process *p, unsigned slot,
			   uint64_t now_ns, struct ledger_process_figures *ret);

/* ---- asking ---- */

enum ledger_result { /* the first five as enum wire_grant_result */
		     LEDGER_OK,
		     LEDGER_OVER_LIMIT,
		     LEDGER_FULL,
		     LEDGER_CIRCLE,
		     LEDGER_NO_LEASE,
		     LEDGER_WAIT, /* LEDGER_EVENT_ANSWER will come for ret->ticket */
};

#define LEDGER_NO_WAIT (1u << 0) /* a stream is being captured: answer at once */

struct ledger_grant {
	enum ledger_result result;
	uint64_t ticket;       /* of a WAIT and of its answer */
	uint64_t bytes;        /* charged for this ask */
	uint64_t credit_bytes; /* beside it; already in the credit word */
	uint64_t used_bytes;   /* the job, with this ask if it was granted */
	uint64_t limit_bytes;
	uint64_t waited_ns;
	char text[LEDGER_TEXT_MAX]; /* of a refusal: who holds what; of a wait: for what */
};

/**
 * ledger_need - may @p hold @bytes more on @slot?
 * @cookie: handed back with the answer of a wait
 * Granted bytes are charged directly and never pass through the credit word.
 */
enum ledger_result ledger_need(struct ledger *l, struct ledger_process *p, unsigned slot,
			       uint64_t bytes, unsigned flags, void *cookie, uint64_t now_ns,
			       struct ledger_grant *ret);

/**
 * ledger_need_context - … make a context?  ret->bytes is the estimate that was reserved.
 * Each OK is followed by one ledger_context_done.
 */
enum ledger_result ledger_need_context(struct ledger *l, struct ledger_process *p, unsigned slot,
				       unsigned flags, void *cookie, uint64_t now_ns,
				       struct ledger_grant *ret);

/**
 * ledger_need_overdraft - … make one call that may take up to @bytes beyond the limit?
 *
 * ret->bytes is what the card had for it.  Each OK is followed by one ledger_overdraft_done or
 * _lost.  LEDGER_NO_WAIT: only when its turn is now.  LEDGER_OVER_LIMIT: its turn did not come.
 */
enum ledger_result ledger_need_overdraft(struct ledger *l, struct ledger_process *p, unsigned slot,
					 uint64_t bytes, unsigned flags, void *cookie,
					 uint64_t now_ns, struct ledger_grant *ret);

/**
 * ledger_overdraft_done - the call has ended; what it took was asked for or is freed again
 * @kept_bytes: could be neither: counts as taken by the driver, until NVML says otherwise
 */
void ledger_overdraft_done(struct ledger *l, struct ledger_process *p, unsigned slot,
			   uint64_t kept_bytes, uint64_t now_ns);

/** ledger_overdraft_lost - nobody will say how the call ended: the next sample does */
void ledger_overdraft_lost(struct ledger *l, struct ledger_process *p, unsigned slot,
			   uint64_t now_ns);

struct ledger_settled {
	bool keep; /* false: the job is too far over its limit: undo the context */
	uint64_t cost_bytes;
	uint64_t used_bytes;
	uint64_t limit_bytes;
};

/**
 * ledger_context_done - the driver made the context, or did not (@ok)
 *
 * Returns 0 when *ret is the answer already (@ok false: the estimate is back; or a context's cost
 * on this GPU is known), 1 when LEDGER_EVENT_SETTLED will come (at the next sample that can be
 * believed, at the latest after LEDGER_SETTLE_NS), -EINVAL when no context was asked for, -ENOMEM
 * (settled at the estimate).
 */
int ledger_context_done(struct ledger *l, struct ledger_process *p, unsigned slot, bool ok,
			void *cookie, uint64_t now_ns, struct ledger_settled *ret);

/** ledger_settle - the driver's own use may have changed: want a sample */
void ledger_settle(struct ledger *l, struct ledger_process *p, unsigned slot, uint64_t now_ns);

/** ledger_returned - the doorbell of @p rang */
void ledger_returned(struct ledger *l, struct ledger_process *p, uint64_t now_ns);

/** ledger_give_back - an OK of @bytes could not be delivered: take it back */
void ledger_give_back(struct ledger *l, struct ledger_process *p, unsigned slot, uint64_t bytes,
		      uint64_t now_ns);

/** ledger_cancel - the asker of a wait is gone; false: no such ticket (answered already) */
bool ledger_cancel(struct ledger *l, uint64_t ticket, uint64_t now_ns);

/* ---- samples ---- */

struct ledger_reading {
	struct ledger_process *process;
	uint64_t bytes;
	bool known; /* false: NVML lists it without a figure */
};

struct ledger_sample {
	uint64_t total_bytes;
	uint64_t reserved_bytes;
	uint64_t used_bytes;      /* of the card, without reserved */
	uint64_t unmanaged_bytes; /* Σ figures of pids that are no process of ours */
	uint64_t own_bytes;       /* of the caller's own probe, in neither */
	bool memory_known;        /* the first three */
	bool processes_known; /* readings and unmanaged: a process that is not in them holds 0 */
	const struct ledger_reading *readings;
	size_t n_readings;
};

/**
 * ledger_sample_begin - call before the sampler looks: what is held now is remembered, and only
 * where it is still the same at ledger_sample an overhead is believed.  One at a time per GPU;
 * another begin replaces one whose sample never came.
 */
void ledger_sample_begin(struct ledger *l, unsigned gpu, uint64_t now_ns);
void ledger_sample(struct ledger *l, unsigned gpu, const struct ledger_sample *s, uint64_t now_ns);

/**
 * ledger_sample_due_ns - when the next sample of the GPU should begin: soon while something is
 * unsettled or a dead process is not gone, LEDGER_SAMPLE_NS after the last one while there are
 * jobs, else LEDGER_NEVER.  Look again after each call.
 */
uint64_t ledger_sample_due_ns(const struct ledger *l, unsigned gpu, uint64_t now_ns);

/* ---- what has become due ---- */

enum ledger_event_kind {
	LEDGER_EVENT_ANSWER,   /* a wait ended: grant, process, slot, cookie */
	LEDGER_EVENT_SETTLED,  /* a context was measured: settled, process, slot, cookie */
	LEDGER_EVENT_GONE,     /* process: nothing of it is left; free it */
	LEDGER_EVENT_ADMITTED, /* job */
	LEDGER_EVENT_ADMISSION_TIMED_OUT, /* job: does not wait any more; free it */
};

struct ledger_event {
	enum ledger_event_kind kind;
	struct ledger_job *job;
	void *job_owner;
	struct ledger_process *process; /* NULL in events about jobs */
	void *process_owner;
	unsigned slot;
	void *cookie;
	struct ledger_grant grant;
	struct ledger_settled settled;
};

/**
 * ledger_poll - carry out what time and room allow; one event
 * Returns true with *ret filled; false when nothing is due.
 */
bool ledger_poll(struct ledger *l, uint64_t now_ns, struct ledger_event *ret);

/** ledger_deadline_ns - when to call ledger_poll again if nothing happens; LEDGER_NEVER */
uint64_t ledger_deadline_ns(const struct ledger *l, uint64_t now_ns);

/**
 * ledger_check - does every sum equal its parts?  For tests and for `doctor`; O(everything).
 * Returns NULL, or a text that names the first fault.
 */
const char *ledger_check(const struct ledger *l);

#endif
