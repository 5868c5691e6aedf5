// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_SIM_H
#define SIM_CUDA_SIM_H

/*
 * The simulated driver from inside: the process object, devices, contexts, and how an entry point
 * is written.
 *
 * An entry point is the exported function of cuda.def with a body of one expression:
 *
 *   CUresult cuMemFree_v2(CUdeviceptr dptr)
 *   {
 *           return SIM_CALL(cuMemFree_v2, SIM_CTX | SIM_LOCK, mem_free(call.ctx, dptr),
 *                           "%#llx", dptr);
 *   }
 *
 * It checks that the driver is initialised (else 3, also in a forked child), that the thread has a
 * usable context if SIM_CTX is asked (201 none, 709 destroyed, or the context's sticky error),
 * injects the fault that was asked for, takes the lock if SIM_LOCK is asked, evaluates the
 * expression, whose value is the CUresult, and writes the call log. Symbols without a body have a
 * weak one in defaults.c that answers NOT_SUPPORTED.
 *
 * Lock policy. There is one mutex for the process, sim_lock(). It guards every object below and
 * those of all modules; it is held for bookkeeping only, never across a sleep, a callback of the
 * program or a call of an exported cu* function (without -Bsymbolic that may be somebody else's
 * hook). A body that must wait drops it around the wait and looks its objects up again. The lock
 * between processes (sim/state) nests inside it.
 *
 * Ownership. Contexts are never freed, so that a stale handle is recognised as destroyed. Device
 * objects live as long as the process. Errors that the program sees are CUresult throughout; int
 * with -errno only towards sim/state.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/cuda_names.h"
#include "abi/cuda_proto.h"
#include "base/list.h"
#include "base/size.h"
#include "sim/state/state.h"

#define CU_CALL(symbol, api, since, stream, params) \
	__attribute__((visibility("default"))) CUresult symbol params;
#include "abi/cuda.def"

#define SIM_CUDA_VERSION 13000

struct sim_exec_ctx; /* streams, modules, … of a context; exec_ctx.c's */
struct sim_pool;

/* struct sim_device - one visible device, by its ordinal in this process */
struct sim_device {
	CUdevice ordinal;
	unsigned index; /* in the shared state: PCI order */
	const struct sim_device_info *info;
	CUcontext primary; /* made at the first retain, kept: its handle stays the same */
	unsigned primary_refs, primary_flags;
	struct sim_pool *default_pool, *current_pool;
	struct list pools;
	struct list contexts;
	uint64_t fine_bytes[SIM_USE_COUNT]; /* charged here, before rounding to pages */
};

#define SIM_CTX_MAGIC   0x43747853u /* "StxC" */
#define SIM_LIMITS_MAX  10
#define SIM_STACK_BYTES 1024 /* of a thread, when a context begins */

struct CUctx_st {
	uint32_t magic;
	bool is_primary, is_destroyed;
	unsigned flags, api_version, attach_count;
	unsigned long long id;
	struct sim_device *device;
	CUresult sticky; /* an error that only the context's end clears */
	size_t limits[SIM_LIMITS_MAX];
	uint64_t stack_bytes; /* of the card, beyond what a context begins with */
	CUfunc_cache cache;
	CUsharedconfig shared_config;
	struct list peers;         /* of peer.c */
	struct list node;          /* sim_device.contexts while alive */
	struct list allocs;        /* sim_alloc.ctx_node */
	struct list arrays;        /* of array.c */
	struct sim_exec_ctx *exec; /* made and ended by sim_exec_ctx_* */
	CUcontext next_known;      /* every context ever made */
};

/* struct sim - the process */
struct sim {
	pthread_mutex_t lock;
	bool is_initialised;
	struct sim_state *state;
	unsigned device_count;
	struct sim_device devices[SIM_DEVICES_MAX];
};

extern struct sim sim;

static inline void sim_lock(void)
{
	pthread_mutex_lock(&sim.lock);
}

static inline void sim_unlock(void)
{
	pthread_mutex_unlock(&sim.lock);
}

/* Entry points. */

#define SIM_INIT    0u        /* must be initialised; the least of all */
#define SIM_CTX     (1u << 0) /* a current, usable context, in call.ctx */
#define SIM_LOCK    (1u << 1) /* hold sim_lock() while the expression is evaluated */
#define SIM_NO_INIT (1u << 2) /* works before cuInit */
#define SIM_STALE   (1u << 3) /* with SIM_CTX: a sticky error does not stop the call */
#define SIM_MAY_CTX (1u << 4) /* as SIM_CTX, but call.ctx may be NULL for want of a context */

struct sim_call {
	enum cuda_sym symbol;
	unsigned needs;
	bool is_locked;
	CUcontext ctx;
};

/** sim_enter - the checks above; anything but CUDA_SUCCESS is what the call returns */
CUresult sim_enter(struct sim_call *call);

/** sim_leave - unlock, log; returns @result */
CUresult sim_leave(struct sim_call *call, CUresult result, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define SIM_CALL(sym, needs_, expr, ...)                                        \
	__extension__({                                                         \
		struct sim_call call = { CU_SYM_##sym, (needs_), false, NULL }; \
		CUresult call_result = sim_enter(&call);                        \
                                                                                \
		if (call_result == CUDA_SUCCESS)                                \
			call_result = (expr);                                   \
		sim_leave(&call, call_result, __VA_ARGS__);                     \
	})

/* the same as a whole body, where the prototype alone is worth a line */
#define SIM_ENTRY(...)                        \
	{                                     \
		return SIM_CALL(__VA_ARGS__); \
	}

/* Devices and contexts. */

/** sim_device_total_bytes - what cuDeviceTotalMem tells: NVML's total - reserved
 */
uint64_t sim_device_total_bytes(const struct sim_device *device);

/** sim_device - NULL unless @ordinal is a visible device */
struct sim_device *sim_device(CUdevice ordinal);

/**
 * sim_ctx_current - the top of this thread's stack, or NULL
 *
 * Destroyed ones included; for a handle that never was one a stand-in that counts as destroyed.
 */
CUcontext sim_ctx_current(void);

/**
 * sim_ctx_check - @ctx named by the program
 *
 * SUCCESS; INVALID_CONTEXT when it is none, or destroyed; CONTEXT_IS_DESTROYED for a primary
 * context that is not active.
 */
CUresult sim_ctx_check(CUcontext ctx);

/**
 * sim_ctx_fail - make @error sticky: an illegal address, a launch that failed
 * In every context of the process, on every device: as recorded, where one card faults, the others
 * are lost too.
 */
void sim_ctx_fail(CUresult error);

/** sim_is_usable - false before cuInit, and in a child forked after it */
bool sim_is_usable(void);

/* Faults and the call log (faults.c, log.c). */

/** sim_fault - the result that a configured fault gives this call, or CUDA_SUCCESS; may sleep */
CUresult sim_fault(enum cuda_sym symbol);

/*
 * What the execution half gives the core. All are called with sim_lock() held, and return with it
 * held, also when they drop it to wait.
 */

CUresult sim_exec_ctx_init(CUcontext ctx);
/** sim_exec_ctx_fini - end all streams, events, modules of @ctx without waiting; frees ctx->exec */
void sim_exec_ctx_fini(CUcontext ctx);
/** sim_exec_ctx_sync - wait until all work of @ctx is done; its sticky error if it has one */
CUresult sim_exec_ctx_sync(CUcontext ctx);

/* struct sim_stream_info - what the core must know of a stream handle */
struct sim_stream_info {
	CUcontext ctx;
	uint64_t id;      /* unique in the process, never reused */
	uint64_t tail_ns; /* CLOCK_MONOTONIC when its work so far is done */
	bool is_capturing;
};

/**
 * sim_exec_stream_info - resolve @stream (NULL, LEGACY, PER_THREAD or a handle)
 * @is_per_thread: NULL means the per-thread stream (_ptsz entry points)
 */
CUresult sim_exec_stream_info(CUstream stream, bool is_per_thread, struct sim_stream_info *ret);

/** sim_exec_capture_alloc - cuMemAlloc(FromPool)Async on a capturing stream: add a node */
CUresult sim_exec_capture_alloc(CUstream stream, bool is_per_thread, struct sim_pool *pool,
				size_t bytes, CUdeviceptr *ret);
/** sim_exec_capture_free - cuMemFreeAsync on a capturing stream: add a node */
CUresult sim_exec_capture_free(CUstream stream, bool is_per_thread, CUdeviceptr ptr);

/** sim_exec_in_callback - is this thread inside a function that a stream called? any thread, no
 * lock */
bool sim_exec_in_callback(void);

/** sim_exec_graph_free - cuMemFree(Async) of a SIM_ALLOC_GRAPH; INVALID_VALUE if not in use */
struct sim_alloc;
CUresult sim_exec_graph_free(struct sim_alloc *alloc);
/** sim_exec_graph_is_used - has a launch allocated this SIM_ALLOC_GRAPH, and nothing freed it? */
bool sim_exec_graph_is_used(const struct sim_alloc *alloc);

/** sim_exec_ctx_may_sync - a wait for the whole of @ctx: refused, and its captures end, if it has
 * any */
CUresult sim_exec_ctx_may_sync(CUcontext ctx);

/** sim_exec_unsafe_call - a call that a GLOBAL capture forbids; invalidates it, and says so */
CUresult sim_exec_unsafe_call(void);

#endif
