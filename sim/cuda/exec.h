// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_EXEC_H
#define SIM_CUDA_EXEC_H

/*
 * Streams, events and what is submitted to them.  Everything here needs sim_lock().
 *
 * A piece of work is a struct op, the same for streams and for the nodes of graphs.  op_submit()
 * hands one to a stream: in a capture it becomes a node; otherwise it is carried out.
 *
 * When effects happen.  What an op does to memory is done when it is submitted, in the order of
 * submission; only its end is in the future, on the computed timeline (timeline.h).  A program that
 * synchronises as CUDA demands cannot tell the difference: every order that it enforces by streams
 * and events is also the order in which it had to call us.  Three things can only happen later: a
 * function of the program, a wait for a value in memory, and a wait for an event whose record
 * stands behind one of these.  Such an op goes to the queue, and with it everything that must come
 * after it: later work of its stream, work that the legacy stream orders behind it, waits for
 * events recorded behind it.  The queue keeps the order of submission and is worked off by one
 * helper thread, which exists only once something has been queued.
 *
 * A stream's tail_ns is when its work so far is done; while ops of it are queued (pending > 0) that
 * is not known yet.
 *
 * Life times.  Streams and events are slab objects: stale handles are seen.  Queued ops hold a
 * reference to their stream.
 */

#include "sim/cuda/memory.h"
#include "sim/cuda/sim.h"
#include "sim/cuda/slab.h"
#include "sim/cuda/timeline.h"

struct capture;
struct graph_mem;
struct graph_run;
struct kernel_effect;

/* a set of nodes: the dependencies that the next captured op will have */
struct node_set {
	CUgraphNode *nodes;
	CUgraphEdgeData
		*edges; /* all zero, as many as nodes: what programs are told of the edges */
	size_t count, room;
};

enum stream_kind {
	STREAM_CREATED,
	STREAM_LEGACY,
	STREAM_PER_THREAD,
};

#define STREAM_MAGIC 0x5374724du
#define EVENT_MAGIC  0x4576654eu

struct CUstream_st {
	uint32_t magic;
	enum stream_kind kind;
	bool is_destroyed; /* waits for its last queued op */
	CUcontext ctx;
	unsigned flags;
	int priority;
	unsigned long long id;
	uint64_t tail_ns;
	unsigned pending; /* ops in the queue */
	uint64_t swept;   /* queue.c: the sweep in which an earlier op stayed */
	uint64_t charged_bytes;
	uint64_t thread_id; /* STREAM_PER_THREAD: whose */
	struct capture *capture;
	struct node_set deps; /* in a capture */
	struct list node;     /* sim_exec_ctx.streams */
	struct list capture_node;
	CUstreamAttrValue attrs[CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING + 1];
};

/* what processes share of an event: when its last record is done; 0: never recorded */
#define EVENT_STAMP_PENDING UINT64_MAX

struct event_stamp {
	_Atomic uint64_t ts_ns;
};

/* one cuEventRecord; waits refer to it, whatever the event records later */
struct record {
	unsigned refs;
	bool is_known;             /* ts_ns is settled */
	bool is_foreign;           /* by another process: only the stamp says when */
	uint64_t ts_ns;            /* CLOCK_MONOTONIC */
	struct event_stamp *stamp; /* of an event that processes share, or NULL */
};

struct CUevent_st {
	uint32_t magic;
	CUcontext ctx;
	unsigned flags;
	struct record *record; /* NULL: never recorded */
	struct event_stamp *stamp;
	uint32_t stamp_number;         /* of the file that this event made, or 0 */
	bool in_capture;               /* the last record was captured … */
	unsigned long long capture_id; /* … by this capture */
	struct node_set nodes;         /* … behind these */
	struct list node;              /* sim_exec_ctx.events */
};

/* what a context has for execution */
struct sim_exec_ctx {
	struct timeline_group group;
	struct sim_exec_shared *shared;
	struct sim_exec_row *row;
	struct CUstream_st *legacy;
	struct list streams; /* all, the legacy and per-thread ones too */
	struct list events;
	struct list modules;
	uint64_t
		blocking_tail_ns; /* the latest tail of the streams that the legacy one waits for */
	unsigned blocking_pending; /* their queued ops, the legacy stream's too */
	uint64_t swept_blocking, swept_legacy;
};

/* Work. */

enum op_kind {
	OP_EMPTY,
	OP_KERNEL,
	OP_COPY,
	OP_SET,
	OP_HOST,
	OP_MEMOP,
	OP_RECORD,
	OP_WAIT,
	OP_GRAPH,
	OP_ALLOC, /* only in graphs */
	OP_FREE,
};

struct op_kernel {
	CUfunction function;                /* as named; not looked at when the kernel runs */
	CUfunction resolved;                /* the function it means in this context */
	const struct kernel_effect *effect; /* NULL: none known */
	unsigned grid[3], block[3], shared_bytes;
	bool is_cooperative;
	int priority;
	unsigned char *params; /* packed as the kernel takes them */
	uint32_t param_bytes;
};

struct op_copy {
	CUDA_MEMCPY3D what;
	CUcontext ctx;
	void *snapshot; /* of a pageable source, taken when the op was queued */
};

struct op_host {
	CUhostFn fn;
	CUstreamCallback callback; /* cuStreamAddCallback's, in place of fn */
	CUstream stream;
	void *data;
};

struct op_memop {
	CUstreamBatchMemOpParams *ops;
	unsigned count, flags;
	unsigned done; /* how many of a queued batch were carried out */
};

struct op_event {
	CUevent event;
	struct record *record; /* queued or waited for; a reference */
};

struct op_alloc {
	CUDA_MEM_ALLOC_NODE_PARAMS what;
	CUmemAccessDesc *access; /* what.accessDescs, owned */
	struct graph_mem *mem;   /* an owned op has a reference */
};

struct op {
	enum op_kind kind;
	bool is_owned; /* the pointers inside are this op's own, freed by op_fini */
	union {
		struct op_kernel kernel;
		struct op_copy copy;
		CUDA_MEMSET_NODE_PARAMS_v2 set;
		struct op_host host;
		struct op_memop memop;
		struct op_event event;
		struct op_alloc alloc;
		CUdeviceptr free;
		CUgraphExec graph;
	};
};

/** op_clone - a copy that owns what it points to; 0 or -ENOMEM */
int op_clone(struct op *dst, const struct op *src);
/** op_fini - free what an owned op points to */
void op_fini(struct op *op);

/** exec_count_busy, _copy - for utilisation figures: work of @ns, the last of which ends at @end_ns
 */
void exec_count_busy(struct sim_exec_ctx *exec, uint64_t ns, uint64_t end_ns);
void exec_count_copy(struct sim_exec_ctx *exec, uint64_t ns);

/** op_submit - give @op to @stream: capture it, carry it out, or queue a clone of it */
CUresult op_submit(CUstream stream, const struct op *op);

/** op_check - would the driver take this op? What cannot be known before is not looked at. */
CUresult op_check(CUcontext ctx, const struct op *op);

/**
 * op_run - carry out an op that can be carried out now (no OP_HOST, no unmet wait)
 * @ready_ns: the earliest start
 * Returns when it ends.  Faults of the device make @ctx's error sticky.
 */
uint64_t op_run(CUcontext ctx, const struct op *op, uint64_t now_ns, uint64_t ready_ns);

/** op_is_ready - false while a wait inside @op is unmet, and for OP_HOST */
bool op_is_ready(const struct op *op);

/* Queue (queue.c). */

/** queue_add - put @op, an owned one that is taken over, behind everything queued */
CUresult queue_add(CUstream stream, struct op *op);

/** queue_must_wait - does what is queued stand before new work of @stream? */
bool queue_must_wait(CUstream stream);

/** queue_drain - wait until @stream (NULL: all of @ctx) has nothing queued; drops the lock */
void queue_drain(CUcontext ctx, CUstream stream);

/** queue_wait_record - wait until @record's time is known; drops the lock */
void queue_wait_record(CUcontext ctx, struct record *record);

/** queue_forget - drop all that is queued for @ctx */
void queue_forget(CUcontext ctx);

/** queue_call - remember a function of the program that queue_run_calls() will call */
void queue_call(CUhostFn fn, void *data);

/** queue_run_calls - at the end of an entry point: call them; drops the lock meanwhile */
void queue_run_calls(void);

/* Streams (stream.c). */

enum stream_default {
	DEFAULT_LEGACY,
	DEFAULT_PER_THREAD, /* NULL means the thread's own stream: _ptsz and _ptds */
};

/**
 * stream_get - the stream a handle means, for work
 *
 * @ctx: the current context; NULL handles are its default streams.
 * INVALID_HANDLE for a stale handle; CONTEXT_IS_DESTROYED when its context is.
 */
CUresult stream_get(CUcontext ctx, CUstream handle, enum stream_default dflt, CUstream *ret);

/** stream_ready_ns - the earliest start of the next op on @stream */
uint64_t stream_ready_ns(CUstream stream, uint64_t now_ns);

/** stream_advance - @stream's work so far ends at @end_ns */
void stream_advance(CUstream stream, uint64_t end_ns);

/** stream_done_ns - when all that is submitted is done; waits of the legacy stream included */
uint64_t stream_done_ns(CUstream stream);

/** stream_wait - wait for all of it; drops the lock meanwhile.  The context's error, if any. */
CUresult stream_wait(CUstream stream);

/** stream_is_blocking - does the legacy stream order it? */
bool stream_is_blocking(const struct CUstream_st *stream);

/** stream_release - a queued op of it is gone: a destroyed stream goes with its last */
void stream_release(CUstream stream);

extern struct slab stream_slab, event_slab;

/* Events (event.c). */

struct record *record_new(void);
struct record *record_ref(struct record *record);
void record_unref(struct record *record);

/** event_check - SUCCESS, or what the driver says of this handle */
CUresult event_check(CUevent event);

/** event_settle - an OP_RECORD's moment is known */
void event_settle(struct record *record, uint64_t ts_ns);

/** event_new_record - let @event's state be a fresh record; NULL: no memory */
struct record *event_new_record(CUevent event);

CUresult event_new(CUcontext ctx, unsigned flags, CUevent *ret);
void event_fini(CUevent event);

/* Events between processes (event_ipc.c). */

/** event_refresh - see whether another process has recorded @event since */
CUresult event_refresh(CUevent event);

/** record_is_known - is its time known, also when another process knows it? */
bool record_is_known(struct record *record);

void event_ipc_fini(CUevent event);

/* Sets of nodes (capture.c). */

int node_set_add(struct node_set *set, CUgraphNode node);
int node_set_add_all(struct node_set *set, const struct node_set *other);
void node_set_clear(struct node_set *set);
void node_set_fini(struct node_set *set);

/* Captures (capture.c). */

/** capture_op - add @op as a node behind the stream's dependencies */
CUresult capture_op(CUstream stream, const struct op *op);

/** capture_check_legacy - work on the legacy stream while a blocking stream is capturing: 906 */
CUresult capture_check_legacy(CUstream stream);

/** capture_stream_is_active - capturing or invalidated */
static inline bool capture_stream_is_active(const struct CUstream_st *stream)
{
	return stream->capture != NULL;
}

/** capture_refuse - a call that capturing streams do not allow: invalidates and returns 900 */
CUresult capture_refuse(CUstream stream);

/** capture_record - cuEventRecord on a capturing stream */
CUresult capture_record(CUstream stream, CUevent event, unsigned flags);

/** capture_wait - cuStreamWaitEvent where the stream or the event belongs to a capture */
CUresult capture_wait(CUstream stream, CUevent event, unsigned flags);

/** capture_refuse_event - a query of, or a wait of the host for, an event recorded in a capture */
CUresult capture_refuse_event(CUevent event);

/** capture_detach - @stream is destroyed: its capture becomes invalid */
void capture_detach(CUstream stream);

/*
 * A pair of entry points that differ in what the NULL stream means; @expr uses dflt, and the other
 * names of SIM_ENTRY.
 */
#define STREAM_TWINS(api, twin, params, needs, expr, ...)            \
	CUresult api params                                          \
	{                                                            \
		const enum stream_default dflt = DEFAULT_LEGACY;     \
		SIM_ENTRY(api, needs, expr, __VA_ARGS__)             \
	}                                                            \
	CUresult twin params                                         \
	{                                                            \
		const enum stream_default dflt = DEFAULT_PER_THREAD; \
		SIM_ENTRY(twin, needs, expr, __VA_ARGS__)            \
	}

#endif
