// SPDX-License-Identifier: Apache-2.0
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

/*
 * The protocol between allotd and everyone else.
 *
 * Transport: a Unix socket of type SOCK_SEQPACKET: one packet is one message, a header and exactly
 * one payload of the size that belongs to its type; a descriptor travels with the packet.  Numbers
 * are little-endian, layouts are fixed (asserted below) and contain no padding that is not named.
 * Strings are char arrays that must hold a NUL.  There is no I/O here: bytes in, structs out.
 *
 * A peer is who the kernel says (SO_PEERCRED, pidfd, /proc), never who a message says.  A message
 * of another version is answered with ERROR (whose layout never changes) and the connection ends.
 * The requests of one connection are answered in order; several threads use several connections.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define WIRE_MAGIC       0x544f4c41u /* "ALOT" */
#define WIRE_VERSION     2
#define WIRE_MAX_MESSAGE 8192 /* header and payload: no struct below is larger */

#define WIRE_MAX_GPUS    16 /* GPUs of one lease */
#define WIRE_NAME_MAX    64
#define WIRE_COMMAND_MAX 256
#define WIRE_TEXT_MAX    512
#define WIRE_PATH_MAX    1024

#define WIRE_UNKNOWN_U64 UINT64_MAX /* a figure that is not known; never shown as 0 */
#define WIRE_UNKNOWN_U32 UINT32_MAX

enum wire_type {
#define WIRE_MSG(upper, lower, number, text) WIRE_##upper = number,
#include "wire/messages.def"
};

struct wire_header {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t length; /* of the payload, bytes */
	uint32_t request_id;
};

/* exit statuses of allot(1), carried by ERROR */
enum wire_code {
	WIRE_CODE_FAILED = 1,
	WIRE_CODE_USAGE = 2,
	WIRE_CODE_NOT_SUPPORTED = 3,
	WIRE_CODE_NOT_PERMITTED = 4,
	WIRE_CODE_NEVER_FITS = 5,
	WIRE_CODE_NO_SUCH = 6,
	WIRE_CODE_NO_DAEMON = 7,
	WIRE_CODE_WAITED_OUT = 75,
};

enum wire_class {
	WIRE_CLASS_LATENCY = 0,
	WIRE_CLASS_NORMAL = 1,
	WIRE_CLASS_BATCH = 2,
};

enum wire_fail_policy {
	WIRE_FAIL_CLOSED = 0,
	WIRE_FAIL_OPEN = 1,
};

struct wire_uuid {
	uint8_t bytes[16];
};

/* ---- answers ---- */

struct wire_ok {
	uint64_t value; /* what the request says; else 0 */
};

struct wire_error {
	uint32_t code;    /* enum wire_code */
	uint32_t version; /* of the speaker, so that a mismatch can be named */
	char text[WIRE_TEXT_MAX];
};

struct wire_end {
	uint64_t count;
};

/* ---- a program ---- */

enum wire_attach_role {
	WIRE_ROLE_CUDA = 1,     /* holds memory: gets a credit page */
	WIRE_ROLE_OBSERVER = 2, /* NVML only: asks VIEW and PROCS */
};

struct wire_attach {
	uint32_t role;
	uint32_t flags; /* WIRE_ATTACH_* */
	uint32_t
		stream; /* 0: the process's first connection; n: a further one for another thread */
	uint32_t pad;
};
#define WIRE_ATTACH_HAS_PAGE                                                \
	(1u << 0) /* the descriptor of a page from before a restart is sent \
		   */

struct wire_lease_gpu {
	struct wire_uuid uuid;
	uint64_t total_bytes; /* what NVML says of the whole card */
	uint64_t limit_bytes; /* the hard wall; the card's usable bytes when no limit was set */
	uint32_t index;       /* PCI order, for people */
	uint32_t has_limit;   /* was a limit asked for? */
	char pci_bus_id[16];  /* "0000:83:00.0" */
	uint32_t flags;       /* WIRE_GPU_* */
	uint32_t mig_index;   /* of an instance, as nvidia-smi counts those of its card */
};
#define WIRE_GPU_MIG                                                                  \
	(1u << 0) /* a MIG instance: its UUID is written MIG-…, index is its card's \
		   */

struct wire_attached {
	uint64_t job_id;
	uint32_t n_gpus; /* of the lease: slot i of the credit page is gpus[i] */
	uint32_t fail_policy;
	uint32_t fresh_page;            /* a page and a doorbell come with this message */
	uint32_t system_gpus;           /* how many the machine has */
	uint64_t grace_ns;              /* how long to wait for an allotd that is away */
	char driver_dir[WIRE_PATH_MAX]; /* where the real libraries are; "" = the loader's choice */
	char job_name[WIRE_NAME_MAX];
	struct wire_lease_gpu gpus[WIRE_MAX_GPUS];
};

enum wire_need_kind {
	WIRE_NEED_MEMORY = 1,
	WIRE_NEED_CONTEXT = 2, /* bytes is ignored: allotd knows what a context costs here */
	/* one call that may take so much beyond the limit, in its turn: OVERDRAFT_DONE follows on
	 * the same connection */
	WIRE_NEED_OVERDRAFT = 3,
};

struct wire_need {
	uint32_t slot;
	uint32_t kind;
	uint64_t bytes;
	uint32_t flags; /* WIRE_NEED_* */
	uint32_t pad;
};
#define WIRE_NEED_NO_WAIT (1u << 0) /* a stream is being captured: answer at once */

enum wire_grant_result {
	WIRE_GRANT_OK = 0,
	WIRE_GRANT_OVER_LIMIT = 1, /* over the job's own limit: out of memory at once */
	WIRE_GRANT_FULL = 2,       /* inside the limit, but the card stayed full to the end */
	WIRE_GRANT_CIRCLE = 3,     /* every holder waited: the youngest was refused */
	WIRE_GRANT_NO_LEASE = 4,   /* this GPU is not in the lease */
};

struct wire_grant {
	uint32_t result;
	uint32_t pad;
	uint64_t bytes;        /* taken for this request: charged already, not in the credit word */
	uint64_t credit_bytes; /* beside it, put into the credit word by allotd */
	uint64_t used_bytes;   /* the job, with this request if it was granted */
	uint64_t limit_bytes;
	uint64_t waited_ns;
	char text[WIRE_TEXT_MAX]; /* for a refusal: the rest of the one line (who holds what) */
};

struct wire_overdraft_done {
	uint32_t slot;
	uint32_t pad;
	uint64_t kept_bytes; /* what could be neither asked for nor freed */
};

struct wire_context_done {
	uint32_t slot;
	uint32_t ok; /* did the driver make it? */
};

struct wire_context_settled {
	uint32_t keep; /* 0: it took the job too far over its limit: undo it, say out of memory */
	uint32_t pad;
	uint64_t cost_bytes; /* measured, or the estimate that stays */
	uint64_t used_bytes;
	uint64_t limit_bytes;
};

struct wire_settle {
	uint32_t slot;
	uint32_t flags; /* WIRE_SETTLE_* */
};
#define WIRE_SETTLE_ANSWER (1u << 0) /* something was freed: answer OK once the figures show it */

struct wire_view {
	uint32_t slot;
	uint32_t pad;
};

struct wire_viewed {
	uint64_t total_bytes;
	uint64_t free_bytes;
	uint64_t used_bytes;
	uint64_t limit_bytes;
};

struct wire_procs {
	uint32_t slot;
	uint32_t pad;
};

struct wire_proc {
	int32_t pid; /* in the PID namespace of the asker; 0 when it has none there */
	uint32_t flags;
	uint64_t used_bytes;
};

/* what both sides of shared memory come to know by themselves (shim/share.h); not secret */
struct wire_share_key {
	uint64_t word[2];
};

struct wire_share_out {
	struct wire_share_key key;
	uint64_t bytes;
	uint32_t slot;
	uint32_t flags; /* WIRE_SHARE_* */
};
#define WIRE_SHARE_UNSHOWN       (1u << 0) /* a pool: NVML shows it with no importer */
#define WIRE_SHARE_ALL           (1u << 1) /* SHARE_CLOSE: every open of it */
#define WIRE_SHARE_LAST          (1u << 2) /* SHARE_FREED: and nothing more of it is shared */
#define WIRE_SHARE_BY_DESCRIPTOR (1u << 3) /* SHARE_OUT: also when its owner is gone */

struct wire_share_in {
	struct wire_share_key key;
	uint64_t bytes; /* of a pool: how much more of it */
};

enum wire_share_known_as {
	WIRE_SHARE_NOT_KNOWN = 0,
	WIRE_SHARE_OPEN = 1,   /* somebody's, and open here from now on */
	WIRE_SHARE_ORPHAN = 2, /* nobody's: take it of the lease, then say SHARE_OUT */
};

struct wire_share_known {
	uint32_t known; /* enum wire_share_known_as */
	uint32_t slot;  /* of an orphan */
	uint64_t bytes;
};

struct wire_share_close {
	struct wire_share_key key;
	uint32_t flags;
	uint32_t pad;
};

struct wire_share_freed {
	struct wire_share_key key;
	uint64_t bytes;
	uint32_t flags;
	uint32_t pad;
};

/* ---- a job ---- */

/* an amount: bytes, or a part of the card; both 0 = none asked for */
struct wire_amount {
	uint64_t bytes;
	uint32_t permille;
	uint32_t pad;
};

struct wire_run {
	struct wire_amount request;
	struct wire_amount limit; /* { 0, 0 } = the card */
	uint32_t job_class;       /* enum wire_class */
	uint32_t fail_policy;
	uint32_t when_full_wait; /* 0: fail at once when the card is full */
	uint32_t n_gpus;         /* 0, with WIRE_RUN_VISIBLE: all that are named */
	uint64_t when_full_ns;   /* how long an allocation may wait */
	uint64_t admit_wait_ns;  /* UINT64_MAX: for ever; 0: --immediate */
	uint32_t compute_min_permille;
	uint32_t compute_max_permille;
	uint32_t flags; /* WIRE_RUN_* */
	uint32_t pad;
	uint64_t job_id; /* asked for again after a restart of allotd: the id it had; else 0 */
	char name[WIRE_NAME_MAX];
	char gpu[WIRE_TEXT_MAX]; /* --gpu as written; "" = picked */
	char command[WIRE_COMMAND_MAX];
	char log[WIRE_PATH_MAX]; /* in the background: where its output goes; else "" */
};
#define WIRE_RUN_VISIBLE (1u << 0) /* gpu is CUDA_VISIBLE_DEVICES, and may be "" */
/* not said by anyone: allotd's configuration decides */
#define WIRE_RUN_USUAL_VRAM        (1u << 8)
#define WIRE_RUN_USUAL_CLASS       (1u << 9)
#define WIRE_RUN_USUAL_WHEN_FULL   (1u << 10)
#define WIRE_RUN_USUAL_FAIL_POLICY (1u << 11)
#define WIRE_RUN_USUAL_WAIT        (1u << 12) /* admit_wait_ns: waited already, for another allotd */

struct wire_waiting {
	uint64_t job_id;
	uint32_t position; /* 1 = next */
	uint32_t pad;
	uint64_t needed_bytes;
	uint64_t free_bytes; /* that could be promised now */
	char text[WIRE_TEXT_MAX];
};

struct wire_admitted {
	uint64_t job_id;
	uint32_t n_gpus;
	uint32_t system_gpus; /* how many the machine has */
	uint64_t request_bytes;
	uint64_t limit_bytes;
	uint32_t has_limit;
	uint32_t nested; /* inside the lease of the job that holds the caller */
	uint64_t kill_grace_ns;
	uint32_t mig_gpus; /* bit i: gpus[i] is a MIG instance, its UUID is written MIG-… */
	uint32_t pad;
	char name[WIRE_NAME_MAX];
	struct wire_uuid gpus[WIRE_MAX_GPUS];
};

struct wire_started {
	int32_t pid; /* in the keeper's namespace; for people */
	uint32_t pad;
};

struct wire_keep {
	uint64_t process; /* allotd's number of the process */
};

struct wire_drop {
	uint64_t process;
};

struct wire_resume {
	uint64_t job_id;
	uint32_t n_pages; /* KEPT messages that follow */
	uint32_t ended;   /* 1: the command has ended meanwhile */
	uint32_t status;  /* wait status when ended */
	uint32_t pad;
};

struct wire_kept {
	uint64_t process;
};

struct wire_ended {
	uint32_t status; /* as from waitpid */
	uint32_t pad;
};

struct wire_signal {
	uint32_t signal;
	uint32_t pad;
	uint64_t grace_ns;
};

/* ---- a person ---- */

struct wire_ps {
	uint32_t flags;
	uint32_t pad;
};

enum wire_state {
	WIRE_STATE_RUNNING = 0,
	WIRE_STATE_WAITING_VRAM = 1,
	WIRE_STATE_FROZEN = 2,
	WIRE_STATE_SUSPENDED = 3,
	WIRE_STATE_UNMANAGED = 4,
	WIRE_STATE_WAITING_ADMISSION = 5, /* a job without a process yet */
};

struct wire_ps_item {
	uint64_t job_id; /* 0: unmanaged */
	struct wire_uuid gpu;
	uint32_t gpu_index;
	int32_t pid;
	uint32_t uid;
	uint32_t job_class;
	uint32_t state;
	uint32_t flags; /* WIRE_PS_* */
	uint64_t vram_used_bytes;
	uint64_t vram_request_bytes;
	uint64_t vram_limit_bytes; /* WIRE_UNKNOWN_U64: none */
	uint64_t drift_bytes;      /* what NVML shows beyond the ledger, signed */
	uint64_t waiting_bytes;
	uint64_t waiting_ns;
	uint32_t compute_min_permille;
	uint32_t compute_max_permille;
	uint32_t compute_got_permille; /* WIRE_UNKNOWN_U32: not measured */
	uint32_t mig_index;            /* with WIRE_PS_MIG */
	char name[WIRE_NAME_MAX];
	char command[WIRE_COMMAND_MAX];
	char reason[WIRE_TEXT_MAX]; /* why it waits */
};
#define WIRE_PS_DETACHED (1u << 0) /* no connection, but alive: charged at NVML's figure */
#define WIRE_PS_ENDING   (1u << 1) /* dead, its memory not yet gone */
#define WIRE_PS_NO_GPU   (1u << 2) /* a row of a job that holds nothing yet */
#define WIRE_PS_MIG      (1u << 3) /* gpu is a MIG instance */
#define WIRE_PS_ADOPTED  (1u << 4) /* of an adopted job */
#define WIRE_PS_UNFENCED (1u << 5) /* runs without the shim: accounted, but not held to a limit */
#define WIRE_PS_GRAPHICS (1u << 6) /* it draws (also): nobody expects it in a job */
#define WIRE_PS_STALE    (1u << 7) /* NVML does not answer for its GPU */

struct wire_status {
	uint32_t flags;
	uint32_t pad;
};

struct wire_status_item {
	struct wire_uuid gpu;
	uint32_t gpu_index;
	uint32_t flags; /* WIRE_STATUS_* */
	uint64_t vram_total_bytes;
	uint64_t vram_used_bytes; /* NVML's, of the whole card */
	uint64_t vram_allocatable_bytes;
	uint64_t vram_requested_bytes;
	uint64_t vram_limits_bytes;
	uint64_t vram_unmanaged_bytes;
	uint64_t vram_held_bytes;      /* by all jobs, by the ledger */
	uint64_t vram_drift_bytes;     /* NVML − ledger of managed processes, signed */
	uint64_t vram_grantable_bytes; /* could be promised to a new job now */
	uint64_t vram_burst_bytes;     /* could be taken in bursts now */
	uint32_t utilization_pct;      /* WIRE_UNKNOWN_U32: not known; so the next two */
	uint32_t temperature_c;
	uint32_t power_mw;
	uint32_t waiting;           /* jobs and allocations that wait for this GPU */
	uint64_t sample_age_ns;     /* how old NVML's figures are */
	uint32_t n_jobs;            /* may be more than fit below */
	uint32_t mig_index;         /* with WIRE_STATUS_MIG; gi and ci too */
	uint32_t gi, ci;            /* WIRE_UNKNOWN_U32: not known */
	uint32_t n_unmanaged;       /* processes; vram_unmanaged_bytes may be more than they show */
	uint32_t waiting_first;     /* of waiting: those who wait for no GPU listed before it */
	uint64_t n_unmanaged_ended; /* by the policy kill, since allotd began */
	uint64_t jobs[64];
	char pci_bus_id[16];
	char model[WIRE_NAME_MAX];
};
#define WIRE_STATUS_STALE (1u << 0) /* NVML does not answer */
#define WIRE_STATUS_LOST  (1u << 1) /* the GPU is gone */
#define WIRE_STATUS_MIG   (1u << 2) /* a MIG instance; gpu_index is its card's */
#define WIRE_STATUS_MIG_MODE \
	(1u << 3) /* a card in MIG mode: its instances are shared out, not itself */
#define WIRE_STATUS_KILL (1u << 4) /* unmanaged programs are ended there, not only shown */

struct wire_set {
	uint64_t job_id;
	char key[32];
	char value[128];
};

struct wire_cancel {
	uint64_t job_id;
	uint32_t signal; /* 0: SIGTERM */
	uint32_t pad;
};

struct wire_adopt {
	struct wire_amount request;
	struct wire_amount limit; /* { 0, 0 } = the card */
	uint32_t job_class;
	int32_t pid;              /* in the asker's namespace, for texts: the pidfd counts */
	char name[WIRE_NAME_MAX]; /* "": the command's own */
};

struct wire_adopted {
	uint64_t job_id;
	uint64_t held_bytes;  /* on all its GPUs; what NVML has figures for */
	uint32_t n_processes; /* that hold something */
	uint32_t n_gpus;
	uint32_t mig_gpus; /* as in ADMITTED */
	uint32_t pad;
	char name[WIRE_NAME_MAX];
	char command[WIRE_COMMAND_MAX];
	struct wire_uuid gpus[WIRE_MAX_GPUS];
};

struct wire_daemon {
	uint32_t flags;
	uint32_t pad;
};

struct wire_daemon_info {
	int32_t pid;
	uint32_t uid;
	uint32_t system;    /* 1: the machine's service */
	uint32_t simulated; /* 1: --sim */
	uint32_t n_gpus;
	uint32_t n_jobs;
	uint32_t n_clients;
	uint32_t nvml_ok; /* does the sampler answer? */
	uint64_t uptime_ns;
	char version[32];
	char driver_version[80];
	char driver_dir[WIRE_PATH_MAX]; /* "" = the loader's choice */
	char state_dir[WIRE_PATH_MAX];
	char socket[WIRE_PATH_MAX];
	char trouble[WIRE_TEXT_MAX]; /* "" when all is well */
	char claim[WIRE_TEXT_MAX];   /* "" or who else says that a GPU is his */
	uint32_t has_cgroups;        /* do jobs get a cgroup of their own? */
	uint32_t pad;
	char cgroups[WIRE_TEXT_MAX]; /* by whom, or why not */
};

/* ---- the configuration ---- */

#define WIRE_VALUE_MAX 2304 /* an option's value, written out */

struct wire_config {
	uint32_t flags;
	uint32_t pad;
};

struct wire_config_item {
	char key[128]; /* "jobs.vram" */
	char value[WIRE_VALUE_MAX];
	char usual[64];           /* the default */
	char file[WIRE_PATH_MAX]; /* that says it; "" = none does */
	char note[WIRE_TEXT_MAX]; /* "" or what the file says by now, for the next start */
	uint32_t line;
	uint32_t source; /* enum wire_config_source */
	uint32_t flags;  /* WIRE_CONFIG_* */
	uint32_t pad;
};
#define WIRE_CONFIG_RESTART (1u << 0) /* takes effect at a start alone */

enum wire_config_source {
	WIRE_CONFIG_DEFAULT = 0,
	WIRE_CONFIG_FILE = 1,
	WIRE_CONFIG_FLAG = 2,
	WIRE_CONFIG_ENVIRONMENT = 3,
};

struct wire_reload {
	uint32_t flags;
	uint32_t pad;
};

enum wire_reloaded_kind {
	WIRE_RELOADED_MISTAKE = 1, /* nothing was changed; an ERROR ends the list */
	WIRE_RELOADED_CHANGE = 2,
	WIRE_RELOADED_RESTART = 3, /* changed in the file, from the next start on */
};

struct wire_reloaded {
	uint32_t kind; /* enum wire_reloaded_kind */
	uint32_t pad;
	char text[WIRE_TEXT_MAX]; /* a mistake with file, line and column in front */
};

/* ---- one job ---- */

struct wire_show {
	uint64_t job_id;
};

enum wire_job_state {
	WIRE_JOB_WAITING = 0, /* for its place */
	WIRE_JOB_RUNNING = 1,
	WIRE_JOB_ENDING = 2, /* the command ended, something of it lives on */
	WIRE_JOB_ENDED = 3,
};

struct wire_job_gpu {
	struct wire_uuid uuid;
	uint32_t index;
	uint32_t waiting; /* allocations */
	uint64_t request_bytes;
	uint64_t limit_bytes;
	uint64_t held_bytes; /* with what the driver took by itself */
	uint32_t has_limit;
	uint32_t flags; /* WIRE_GPU_* */
	uint32_t mig_index;
	uint32_t pad;
};

struct wire_job {
	uint64_t job_id;
	uint64_t parent_id; /* the job that it is nested in; 0: none */
	uint32_t uid;
	uint32_t state;     /* enum wire_job_state */
	int32_t keeper_pid; /* of allot run; 0: gone */
	uint32_t job_class;
	uint32_t fail_policy;
	uint32_t when_full_wait;
	uint64_t when_full_ns;
	uint32_t flags;    /* WIRE_JOB_* */
	uint32_t status;   /* as from waitpid */
	uint64_t queued_s; /* seconds since 1970; 0: not known, or not yet */
	uint64_t started_s;
	uint64_t ended_s;
	uint32_t n_processes;
	uint32_t n_gpus;            /* of gpus; 0: not yet, or not any more */
	struct wire_amount request; /* as asked for, on each GPU; what it has stands in gpus */
	struct wire_amount limit;
	char name[WIRE_NAME_MAX];
	char command[WIRE_COMMAND_MAX];
	char log[WIRE_PATH_MAX];
	char cgroup[WIRE_PATH_MAX]; /* its own; "" = none */
	char reason[WIRE_TEXT_MAX]; /* what it waits for */
	struct wire_job_gpu gpus[WIRE_MAX_GPUS];
};
#define WIRE_JOB_HAS_STATUS (1u << 0) /* else nobody saw how it ended */
#define WIRE_JOB_IS_ADOPTED \
	(1u << 1) /* without a keeper: keeper_pid is the process that was adopted */

struct wire_why {
	uint64_t job_id;
};

enum wire_why_kind {
	WIRE_WHY_PLACE = 1,   /* to be admitted */
	WIRE_WHY_MEMORY = 2,  /* an allocation */
	WIRE_WHY_CONTEXT = 3, /* the same, for a context */
	WIRE_WHY_MEASURE = 4, /* for NVML's figure of what the driver took */
};

struct wire_holder {
	uint64_t job_id; /* 0: programs outside allot */
	uint64_t held_bytes;
	uint64_t request_bytes;
	uint32_t uid;
	uint32_t waits; /* it waits for memory itself */
	char name[WIRE_NAME_MAX];
};

#define WIRE_WHY_HOLDERS 16

struct wire_why_item {
	uint64_t job_id;
	uint32_t kind;
	int32_t pid; /* whose allocation; 0: the job's admission */
	struct wire_uuid gpu;
	uint32_t gpu_index;
	uint32_t flags;    /* WIRE_WHY_* */
	uint32_t position; /* 1 = next */
	uint32_t waiting;  /* how many wait in that line */
	uint64_t needed_bytes;
	uint64_t free_bytes; /* that it could have now */
	uint64_t since_ns;   /* how long it waits */
	uint64_t left_ns;    /* until it gives up; WIRE_UNKNOWN_U64: never */
	uint64_t total_bytes;
	uint64_t allocatable_bytes;
	uint64_t reserve_bytes; /* never given out: the driver's and the configured reserve */
	uint64_t unmanaged_bytes;
	uint64_t before_id; /* a job that waits before it; 0: none */
	uint32_t n_holders; /* there may be more than fit below */
	uint32_t mig_index;
	char sentence[WIRE_TEXT_MAX];
	struct wire_holder holders[WIRE_WHY_HOLDERS]; /* the largest first */
};
#define WIRE_WHY_IS_CIRCLE (1u << 0) /* everybody who holds something there waits */
#define WIRE_WHY_NO_GPU    (1u << 1) /* no GPU that it may use answers */
#define WIRE_WHY_IS_MIG    (1u << 2)
#define WIRE_WHY_AND       (1u << 3) /* one GPU is not enough: others told of must be free, too */

struct wire_wait {
	uint64_t job_id;
};

/* ---- bytes in, structs out ---- */

/** wire_name - "NEED", or "?" for a number that is no message */
const char *wire_name(unsigned type);

/** wire_size - the payload's size of a type; -ENOENT for a number that is no message */
int wire_size(unsigned type);

/**
 * wire_encode - header and payload into @buf
 * @payload: the struct of @type
 * Returns the length of the packet; -ENOSPC, -ENOENT.
 */
int wire_encode(void *buf, size_t size, unsigned type, uint32_t request_id, const void *payload);

struct wire_message {
	unsigned type;
	uint32_t request_id;
	uint16_t version;    /* of the speaker */
	const void *payload; /* within the buffer given to wire_decode; its struct is complete */
};

/**
 * wire_decode - check a packet and point into it
 * @buf: aligned to 8 bytes
 *
 * Magic, version, type, length and every string's NUL are checked.  Returns 0; -EPROTONOSUPPORT
 * when the version is another one (then ret->request_id and ret->version are set, nothing else),
 * -EBADMSG otherwise.
 */
int wire_decode(const void *buf, size_t len, struct wire_message *ret, struct err *err);

#define WIRE_CHECK(type, bytes) \
	_Static_assert(sizeof(struct wire_##type) == (bytes) && (bytes) % 8 == 0, #type)
WIRE_CHECK(header, 16);
WIRE_CHECK(ok, 8);
WIRE_CHECK(end, 8);
WIRE_CHECK(error, 520);
WIRE_CHECK(attach, 16);
WIRE_CHECK(lease_gpu, 64);
WIRE_CHECK(attached, 32 + 1024 + 64 + 16 * 64);
WIRE_CHECK(need, 24);
WIRE_CHECK(grant, 48 + 512);
WIRE_CHECK(share_out, 32);
WIRE_CHECK(share_in, 24);
WIRE_CHECK(share_known, 16);
WIRE_CHECK(share_close, 24);
WIRE_CHECK(share_freed, 32);
WIRE_CHECK(overdraft_done, 16);
WIRE_CHECK(run, 88 + 64 + 512 + 256 + 1024);
WIRE_CHECK(waiting, 32 + 512);
WIRE_CHECK(admitted, 56 + 64 + 256);
WIRE_CHECK(ps_item, 112 + 64 + 256 + 512);
WIRE_CHECK(adopt, 40 + 64);
WIRE_CHECK(adopted, 32 + 64 + 256 + 256);
WIRE_CHECK(status_item, 160 + 512 + 16 + 64);
WIRE_CHECK(config_item, 128 + 2304 + 64 + 1024 + 512 + 16);
WIRE_CHECK(reloaded, 8 + 512);
WIRE_CHECK(job_gpu, 64);
WIRE_CHECK(job, 120 + 64 + 256 + 2 * 1024 + 512 + 16 * 64);
WIRE_CHECK(holder, 32 + 64);
WIRE_CHECK(why_item, 128 + 512 + 16 * 96);
WIRE_CHECK(daemon_info, 40 + 32 + 80 + 3 * 1024 + 512 + 512 + 8 + 512);
WIRE_CHECK(context_done, 8);
WIRE_CHECK(context_settled, 32);
WIRE_CHECK(settle, 8);
WIRE_CHECK(view, 8);
WIRE_CHECK(viewed, 32);
WIRE_CHECK(procs, 8);
WIRE_CHECK(proc, 16);
WIRE_CHECK(started, 8);
WIRE_CHECK(keep, 8);
WIRE_CHECK(drop, 8);
WIRE_CHECK(resume, 24);
WIRE_CHECK(kept, 8);
WIRE_CHECK(ended, 8);
WIRE_CHECK(signal, 16);
WIRE_CHECK(ps, 8);
WIRE_CHECK(status, 8);
WIRE_CHECK(set, 168);
WIRE_CHECK(cancel, 16);
WIRE_CHECK(daemon, 8);
WIRE_CHECK(config, 8);
WIRE_CHECK(reload, 8);
WIRE_CHECK(show, 8);
WIRE_CHECK(why, 8);
WIRE_CHECK(wait, 8);

#endif
