// SPDX-License-Identifier: Apache-2.0
#include "shim/capture.h"
#include "base/cleanup.h"

#include <stdatomic.h>
#include <stddef.h>

#include "shim/real.h"
#include "shim/wiped.h"

#define CAPTURES_MAX 256

/* one capture; `thread` is written last and cleared first, 0: unused */
struct capture {
	_Atomic uintptr_t thread;
	_Atomic uint64_t stream;
	_Atomic uint32_t mode;
};

struct captures {
	_Atomic uint32_t n_active;
	_Atomic uint32_t n_global;
	struct capture capture[CAPTURES_MAX];
};

static void *_Atomic captures_memory;

static struct captures *captures(void)
{
	return atomic_load_explicit(&captures_memory, memory_order_acquire);
}

static uintptr_t this_thread(void)
{
	static _Thread_local char here __attribute__((tls_model("initial-exec")));

	return (uintptr_t)&here;
}

/* the thread's own default stream is another one in each thread */
static uint64_t stream_key(CUstream stream, bool per_thread)
{
	uintptr_t s = (uintptr_t)stream;

	if (s == (uintptr_t)CU_STREAM_PER_THREAD || (s == 0 && per_thread))
		return this_thread() | 1;
	return s;
}

bool capture_any(void)
{
	struct captures *c = captures();

	return c && atomic_load_explicit(&c->n_active, memory_order_relaxed) > 0;
}

HOT bool capture_forbids_wait(void)
{
	struct captures *c = captures();
	uintptr_t self = this_thread();

	if (!capture_any())
		return false;
	if (atomic_load(&c->n_global) > 0)
		return true;
	for (unsigned i = 0; i < CAPTURES_MAX; i++)
		if (atomic_load(&c->capture[i].thread) == self)
			return true;
	return false;
}

void capture_began(CUstream stream, bool per_thread, CUstreamCaptureMode mode)
{
	struct captures *c = wiped_once(&captures_memory, sizeof(*c));

	if (!c)
		return;
	atomic_fetch_add(&c->n_active, 1);
	if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
		atomic_fetch_add(&c->n_global, 1);
	for (unsigned i = 0; i < CAPTURES_MAX; i++) {
		uintptr_t none = 0;

		if (!atomic_compare_exchange_strong(&c->capture[i].thread, &none, UINTPTR_MAX))
			continue;
		atomic_store(&c->capture[i].stream, stream_key(stream, per_thread));
		atomic_store(&c->capture[i].mode, (uint32_t)mode);
		atomic_store(&c->capture[i].thread, this_thread());
		return;
	}
	/* no room to remember whose it is: it has to pass for nobody's, and ends uncounted */
	if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
		atomic_fetch_sub(&c->n_global, 1);
	atomic_fetch_sub(&c->n_active, 1);
}

void capture_ended(CUstream stream, bool per_thread)
{
	struct captures *c = captures();
	uint64_t key = stream_key(stream, per_thread);

	for (unsigned i = 0; capture_any() && i < CAPTURES_MAX; i++) {
		uintptr_t thread = atomic_load(&c->capture[i].thread);

		if (thread == 0 || thread == UINTPTR_MAX ||
		    atomic_load(&c->capture[i].stream) != key ||
		    !atomic_compare_exchange_strong(&c->capture[i].thread, &thread, UINTPTR_MAX))
			continue;
		if (atomic_load(&c->capture[i].mode) == CU_STREAM_CAPTURE_MODE_GLOBAL)
			atomic_fetch_sub(&c->n_global, 1);
		atomic_fetch_sub(&c->n_active, 1);
		atomic_store(&c->capture[i].stream, 0);
		atomic_store(&c->capture[i].thread, 0);
		return;
	}
}

HOT bool capture_graph(CUstream stream, bool per_thread, CUgraph *ret_graph)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	pfn_cuStreamGetCaptureInfo_v2 *info =
		per_thread ? real_cuStreamGetCaptureInfo_v2_ptsz : real_cuStreamGetCaptureInfo_v2;

	*ret_graph = NULL;
	if (!capture_any())
		return false;
	if (info(stream, &status, NULL, ret_graph, NULL, NULL) == CUDA_SUCCESS)
		return status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (per_thread)
		return real_cuStreamIsCapturing_ptsz(stream, &status) == CUDA_SUCCESS &&
		       status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return real_cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
	       status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}
