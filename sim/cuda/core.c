// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/log.h"
#include "sim/cuda/sim.h"
#include "sim/cuda/start.h"
#include "sim/cuda/trace.h"

struct sim sim = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* one page that the kernel wipes in a forked child; its first byte says "same process" */
static volatile char *same_process;

static CUresult map_fork_page(void)
{
	void *page;

	if (same_process) {
		*same_process = 1;
		return CUDA_SUCCESS;
	}
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (madvise(page, 4096, MADV_WIPEONFORK)) {
		munmap(page, 4096);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	same_process = page;
	*same_process = 1;
	return CUDA_SUCCESS;
}

bool sim_is_usable(void)
{
	return __atomic_load_n(&sim.is_initialised, __ATOMIC_ACQUIRE) && *same_process;
}

static CUresult open_state(void)
{
	char dir[4096];
	struct err err = { 0 };
	int r;

	if (sim.state) /* cuInit found no visible device, and is called again */
		return CUDA_SUCCESS;
	r = sim_state_dir((const void *)open_state, dir, sizeof(dir), &err);
	if (!r)
		r = sim_state_open(dir, &sim.state, &err);
	if (!r) {
		r = sim_state_attach(sim.state);
		if (r)
			err_set(&err, r, "'%s': no room for one more process", dir);
	}
	if (!r)
		return CUDA_SUCCESS;
	/* the driver would be silent here; a simulator that cannot start says why */
	log_error("simulated driver: %s", err.text);
	sim_state_close(sim.state);
	sim.state = NULL;
	return r == -ENOSPC ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NO_DEVICE;
}

static CUresult start(void)
{
	CUresult result;

	/* in a child of a process that found no device: the state is the parent's */
	if (same_process && !*same_process)
		sim.state = NULL;
	result = map_fork_page();
	if (!result)
		result = open_state();
	if (result)
		return result;
	return sim_devices_init();
}

CUresult sim_start(void)
{
	CUresult result = CUDA_SUCCESS;

	/* before the lock, which a thread of the parent may have held */
	if (__atomic_load_n(&sim.is_initialised, __ATOMIC_ACQUIRE) && !*same_process)
		return CUDA_ERROR_NOT_INITIALIZED;
	sim_lock();
	if (!sim.is_initialised)
		result = start();
	if (!result)
		__atomic_store_n(&sim.is_initialised, true, __ATOMIC_RELEASE);
	sim_unlock();
	return result;
}

static CUresult check_context(struct sim_call *call)
{
	call->ctx = sim_ctx_current();
	if (!call->ctx)
		return call->needs & SIM_MAY_CTX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
	if (call->ctx->is_destroyed)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return call->needs & SIM_STALE ? CUDA_SUCCESS : call->ctx->sticky;
}

CUresult sim_enter(struct sim_call *call)
{
	CUresult result = CUDA_SUCCESS;

	if (!(call->needs & SIM_NO_INIT) && !sim_is_usable())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (sim_exec_in_callback())
		return CUDA_ERROR_NOT_PERMITTED;
	if (sim_is_traced())
		result = sim_fault(call->symbol);
	if (!result && call->needs & (SIM_CTX | SIM_MAY_CTX))
		result = check_context(call);
	if (!result && call->needs & SIM_LOCK) {
		sim_lock();
		call->is_locked = true;
	}
	return result;
}

CUresult sim_leave(struct sim_call *call, CUresult result, const char *fmt, ...)
{
	va_list args;

	if (call->is_locked)
		sim_unlock();
	if (sim_is_traced()) {
		va_start(args, fmt);
		sim_log_call(cuda_symbols[call->symbol].name, result, fmt, args);
		va_end(args);
	}
	return result;
}

int sim_unsupported(const char *symbol);

int sim_unsupported(const char *symbol)
{
	if (!sim_is_usable())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (sim_is_traced())
		sim_log_plain(symbol, CUDA_ERROR_NOT_SUPPORTED);
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuInit(unsigned int Flags)
{
	return SIM_CALL(cuInit, SIM_NO_INIT, Flags ? CUDA_ERROR_INVALID_VALUE : sim_start(),
			"flags=%u", Flags);
}
