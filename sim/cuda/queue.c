// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/memop.h"

#define POLL_NS ((uint64_t)50000) /* how often a wait for a value looks again */

struct entry {
	struct op op;
	CUstream stream;
	CUcontext ctx;
	struct graph_run *run; /* OP_GRAPH */
	bool is_running;       /* a function of the program is being called for it */
	bool is_dropped;       /* its context has ended meanwhile */
	struct list node;
};

/* a function to be called soon, in no particular order */
struct call {
	CUhostFn fn;
	void *data;
	struct list node;
};

static struct {
	struct list entries, calls;
	bool has_helper;
	uint64_t sweep;
	pthread_cond_t work, done;
} queue = { .entries = { &queue.entries, &queue.entries },
	    .calls = { &queue.calls, &queue.calls },
	    .done = PTHREAD_COND_INITIALIZER };

static __thread bool in_callback;

bool sim_exec_in_callback(void)
{
	return in_callback;
}

static void count(CUstream stream, int change)
{
	stream->pending += (unsigned)change;
	if (stream_is_blocking(stream) || stream->kind == STREAM_LEGACY)
		stream->ctx->exec->blocking_pending += (unsigned)change;
}

bool queue_must_wait(CUstream stream)
{
	const struct sim_exec_ctx *exec = stream->ctx->exec;

	if (stream->pending)
		return true;
	if (stream->kind == STREAM_LEGACY)
		return exec->blocking_pending;
	return stream_is_blocking(stream) && exec->legacy->pending;
}

/* Does something that stays in the queue, in this sweep, stand before @entry? */
static bool is_behind(const struct entry *entry)
{
	const struct sim_exec_ctx *exec = entry->ctx->exec;
	CUstream stream = entry->stream;

	if (stream->swept == queue.sweep)
		return true;
	if (stream->kind == STREAM_LEGACY)
		return exec->swept_blocking == queue.sweep;
	return stream_is_blocking(stream) && exec->swept_legacy == queue.sweep;
}

static void mark_stays(const struct entry *entry)
{
	struct sim_exec_ctx *exec = entry->ctx->exec;

	entry->stream->swept = queue.sweep;
	if (entry->stream->kind == STREAM_LEGACY)
		exec->swept_legacy = queue.sweep;
	if (entry->stream->kind == STREAM_LEGACY || stream_is_blocking(entry->stream))
		exec->swept_blocking = queue.sweep;
}

static void entry_free(struct entry *entry)
{
	list_del(&entry->node);
	graph_run_free(entry->run);
	op_fini(&entry->op);
	free(entry);
}

static void finish(struct entry *entry, uint64_t end_ns)
{
	CUstream stream = entry->stream;

	stream_advance(stream, end_ns);
	count(stream, -1);
	entry_free(entry);
	stream_release(stream);
	pthread_cond_broadcast(&queue.done);
}

/* call the program's function, without the lock; false when the context ended meanwhile */
static bool call_host(struct entry *entry, const struct op_host *host)
{
	struct op_host call = *host;
	CUresult status = entry->ctx->sticky;

	entry->is_running = true;
	sim_unlock();
	in_callback = true;
	if (call.callback)
		call.callback(call.stream, status, call.data);
	else if (status == CUDA_SUCCESS)
		call.fn(call.data);
	in_callback = false;
	sim_lock();
	entry->is_running = false;
	return !entry->is_dropped;
}

enum step {
	STEP_STAYS,
	STEP_DONE,
	STEP_CALLED, /* the lock was dropped: the list may have changed */
};

static void wake_by(uint64_t *wake_ns, uint64_t when_ns)
{
	*wake_ns = size_min(*wake_ns, when_ns);
}

static enum step step_graph(struct entry *entry, uint64_t now_ns, uint64_t *wake_ns)
{
	const struct op *host = NULL;

	if (graph_run_step(entry->run, entry->ctx, now_ns, stream_ready_ns(entry->stream, now_ns),
			   &host, wake_ns)) {
		finish(entry, graph_run_end_ns(entry->run));
		return STEP_DONE;
	}
	if (!host)
		return STEP_STAYS;
	if (call_host(entry, &host->host))
		graph_run_host_done(entry->run, clock_now_ns());
	else
		entry_free(entry);
	return STEP_CALLED;
}

static enum step step_host(struct entry *entry, uint64_t now_ns, uint64_t *wake_ns)
{
	uint64_t ready_ns = stream_ready_ns(entry->stream, now_ns);

	if (ready_ns > now_ns) {
		wake_by(wake_ns, ready_ns);
		return STEP_STAYS;
	}
	if (call_host(entry, &entry->op.host))
		finish(entry, clock_now_ns());
	else
		entry_free(entry);
	return STEP_CALLED;
}

static enum step step(struct entry *entry, uint64_t now_ns, uint64_t *wake_ns)
{
	uint64_t ready_ns = stream_ready_ns(entry->stream, now_ns);

	switch (entry->op.kind) {
	case OP_HOST:
		return step_host(entry, now_ns, wake_ns);
	case OP_GRAPH:
		return step_graph(entry, now_ns, wake_ns);
	case OP_MEMOP:
		if (ready_ns > now_ns) {
			wake_by(wake_ns, ready_ns);
			return STEP_STAYS;
		}
		if (!memop_step(&entry->op.memop)) {
			wake_by(wake_ns, now_ns + POLL_NS);
			return STEP_STAYS;
		}
		finish(entry, now_ns);
		return STEP_DONE;
	case OP_WAIT:
		if (!op_is_ready(&entry->op)) {
			/* its record is in the queue too and wakes us, unless it is another
			 * process's */
			if (entry->op.event.record->is_foreign)
				wake_by(wake_ns, now_ns + POLL_NS);
			return STEP_STAYS;
		}
		break;
	case OP_EMPTY:
	case OP_KERNEL:
	case OP_COPY:
	case OP_SET:
	case OP_RECORD:
	case OP_ALLOC:
	case OP_FREE:
		break;
	}
	finish(entry, op_run(entry->ctx, &entry->op, now_ns, ready_ns));
	return STEP_DONE;
}

/* work off what can be; returns when to look again at the latest */
static uint64_t sweep(void)
{
	uint64_t wake_ns = UINT64_MAX;
	struct list *at = queue.entries.next;

	queue.sweep++;
	while (at != &queue.entries) {
		struct entry *entry = list_entry(at, struct entry, node);
		enum step result = STEP_STAYS;

		at = at->next;
		if (!is_behind(entry))
			result = step(entry, clock_now_ns(), &wake_ns);
		if (result == STEP_CALLED)
			return 0;
		if (result == STEP_STAYS)
			mark_stays(entry);
	}
	return wake_ns;
}

void queue_run_calls(void)
{
	while (!list_is_empty(&queue.calls)) {
		struct call *call = list_entry(queue.calls.next, struct call, node);

		list_del(&call->node);
		sim_unlock();
		in_callback = true;
		call->fn(call->data);
		in_callback = false;
		free(call);
		sim_lock();
	}
}

static void *helper(void *arg)
{
	(void)arg;
	sim_lock();
	for (;;) {
		uint64_t wake_ns = sweep();
		struct timespec ts = {
			.tv_sec = (time_t)(wake_ns / NS_PER_S),
			.tv_nsec = (long)(wake_ns % NS_PER_S),
		};
		if (wake_ns == UINT64_MAX)
			pthread_cond_wait(&queue.work, &sim.lock);
		else if (wake_ns)
			pthread_cond_timedwait(&queue.work, &sim.lock, &ts);
	}
	return NULL;
}

static bool start_helper(void)
{
	pthread_condattr_t clock;
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int r;

	if (queue.has_helper)
		return true;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&queue.work, &clock);
	pthread_condattr_destroy(&clock);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all); /* the program's signals go to the program's threads */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&thread, &attr, helper, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	queue.has_helper = r == 0;
	return r == 0;
}

void queue_call(CUhostFn fn, void *data)
{
	struct call *call = calloc(1, sizeof(*call));

	if (!call)
		return; /* a destructor that is never called: what it frees is lost with it */
	call->fn = fn;
	call->data = data;
	list_append(&queue.calls, &call->node);
}

CUresult queue_add(CUstream stream, struct op *op)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry || !start_helper()) {
		free(entry);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (op->kind == OP_GRAPH) {
		entry->run = graph_run_new(op->graph);
		if (!entry->run) {
			free(entry);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	entry->op = *op;
	entry->stream = stream;
	entry->ctx = stream->ctx;
	list_append(&queue.entries, &entry->node);
	count(stream, 1);
	pthread_cond_signal(&queue.work);
	return CUDA_SUCCESS;
}

void queue_drain(CUcontext ctx, CUstream stream)
{
	for (;;) {
		struct sim_exec_ctx *exec = ctx->exec;
		bool busy = false;
		CUstream s;

		if (!exec)
			return;
		if (stream && stream->kind != STREAM_LEGACY) {
			busy = slab_is(&stream_slab, stream) && stream->pending;
		} else if (stream) {
			busy = exec->blocking_pending;
		} else {
			list_for_each (s, &exec->streams, node)
				busy |= s->pending;
		}
		if (!busy)
			return;
		pthread_cond_wait(&queue.done, &sim.lock);
	}
}

void queue_wait_record(CUcontext ctx, struct record *record)
{
	while (!record_is_known(record) && ctx->exec) {
		if (!record->is_foreign) {
			pthread_cond_wait(&queue.done, &sim.lock);
			continue;
		}
		sim_unlock();
		timeline_sleep_until(clock_now_ns() + POLL_NS);
		sim_lock();
	}
}

void queue_forget(CUcontext ctx)
{
	struct entry *entry, *tmp;

	list_for_each_safe (entry, tmp, &queue.entries, node) {
		if (entry->ctx != ctx)
			continue;
		if (entry->is_running) {
			entry->is_dropped = true; /* the helper frees it when the call returns */
			list_del(&entry->node);
		} else {
			entry_free(entry);
		}
	}
	pthread_cond_broadcast(&queue.done);
}
