// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "sim/cuda/exec.h"

/*
 * Events between processes.  What they share is one number in a small file of the state's folder:
 * when the last record is done.  Each side keeps the file mapped for as long as it lives, since
 * queued work may still write there; the file's name goes with the event that made it.
 */

#define HANDLE_MAGIC 0x45766e74u

struct handle {
	uint32_t magic, pid, number;
};

static uint32_t next_number = 1;

static bool path_of(char path[PATH_MAX], uint32_t pid, uint32_t number)
{
	return str_print(path, PATH_MAX, "%s/event.%u.%u", sim_state_dir_path(sim.state), pid,
			 number);
}

static struct event_stamp *map(const char *path, int flags)
{
	AUTO_FD int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	void *at;

	if (fd < 0 || (flags && ftruncate(fd, sizeof(struct event_stamp)) < 0))
		return NULL;
	at = mmap(NULL, sizeof(struct event_stamp), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return at == MAP_FAILED ? NULL : at;
}

void event_ipc_fini(CUevent event)
{
	char path[PATH_MAX];

	if (event->stamp_number && path_of(path, (uint32_t)getpid(), event->stamp_number))
		(void)unlink(path); /* others who opened it go on */
}

static CUresult get_handle(CUipcEventHandle *ret, CUevent event)
{
	struct handle handle = { HANDLE_MAGIC, (uint32_t)getpid(), 0 };
	char path[PATH_MAX];
	CUresult r;

	if (!ret || !event)
		return CUDA_ERROR_INVALID_VALUE;
	r = event_check(event);
	if (r != CUDA_SUCCESS)
		return r;
	if (!(event->flags & CU_EVENT_INTERPROCESS) || (event->stamp && !event->stamp_number))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!event->stamp) {
		uint32_t number = next_number++;

		event->stamp =
			path_of(path, handle.pid, number) ? map(path, O_CREAT | O_EXCL) : NULL;
		if (!event->stamp)
			return CUDA_ERROR_OPERATING_SYSTEM;
		event->stamp_number = number;
		if (event->record) {
			event->record->stamp = event->stamp;
			atomic_store(&event->stamp->ts_ns, event->record->is_known
								   ? event->record->ts_ns
								   : EVENT_STAMP_PENDING);
		}
	}
	handle.number = event->stamp_number;
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, &handle, sizeof(handle));
	return CUDA_SUCCESS;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
	return SIM_CALL(cuIpcGetEventHandle, SIM_CTX | SIM_LOCK, get_handle(pHandle, event),
			"%p, %p", (void *)pHandle, (void *)event);
}

/* what was opened once: it can be opened again when its event, and even its process, is gone */
static struct event_stamp *known_stamp(const struct handle *handle)
{
	static struct known {
		struct known *next;
		struct handle handle;
		struct event_stamp *stamp;
	} * all;
	char path[PATH_MAX];
	struct known *k;

	for (k = all; k; k = k->next)
		if (k->handle.pid == handle->pid && k->handle.number == handle->number)
			return k->stamp;
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->handle = *handle;
	k->stamp = path_of(path, handle->pid, handle->number) ? map(path, 0) : NULL;
	if (!k->stamp) {
		free(k);
		return NULL;
	}
	k->next = all;
	all = k;
	return k->stamp;
}

static CUresult open_handle(CUcontext ctx, CUevent *ret, const CUipcEventHandle *from)
{
	struct event_stamp *stamp;
	struct handle handle;
	CUevent event;
	CUresult r;

	memcpy(&handle, from, sizeof(handle));
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (handle.magic != HANDLE_MAGIC)
		return CUDA_ERROR_MAP_FAILED;
	if (handle.pid == (uint32_t)getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	stamp = known_stamp(&handle);
	if (!stamp)
		return CUDA_ERROR_MAP_FAILED;
	r = event_new(ctx, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, &event);
	if (r != CUDA_SUCCESS)
		return r;
	event->stamp = stamp;
	*ret = event;
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	return SIM_CALL(cuIpcOpenEventHandle, SIM_CTX | SIM_LOCK,
			open_handle(call.ctx, phEvent, &handle), "%p", (void *)phEvent);
}

CUresult event_refresh(CUevent event)
{
	struct record *record = event->record;
	uint64_t ts_ns;

	if (!event->stamp)
		return CUDA_SUCCESS;
	ts_ns = atomic_load(&event->stamp->ts_ns);
	if (!ts_ns || (record && (!record->is_known || record->ts_ns == ts_ns)))
		return CUDA_SUCCESS; /* never recorded, or our own record is the last */
	record = record_new();
	if (!record)
		return CUDA_ERROR_OUT_OF_MEMORY;
	record->stamp = event->stamp;
	record->is_foreign = true;
	record->is_known = ts_ns != EVENT_STAMP_PENDING;
	record->ts_ns = record->is_known ? ts_ns : 0;
	record_unref(event->record);
	event->record = record;
	return CUDA_SUCCESS;
}

bool record_is_known(struct record *record)
{
	uint64_t ts_ns;

	if (record->is_known || !record->is_foreign)
		return record->is_known;
	ts_ns = atomic_load(&record->stamp->ts_ns);
	record->is_known = ts_ns != EVENT_STAMP_PENDING;
	record->ts_ns = record->is_known ? ts_ns : 0;
	return record->is_known;
}
