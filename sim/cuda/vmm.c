// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/vmm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/state/share.h"

#define BUCKETS   1024
#define FD_PREFIX "/memfd:allot-sim-vmm:"

static struct list buckets[BUCKETS];
static CUmemGenericAllocationHandle last_id = 0x10000;

static struct list *bucket_of(CUmemGenericAllocationHandle id)
{
	struct list *bucket = &buckets[id % BUCKETS];

	if (!bucket->next)
		list_init(bucket);
	return bucket;
}

struct vmm_handle *vmm_handle_find(CUmemGenericAllocationHandle id)
{
	struct list *bucket = bucket_of(id);
	struct vmm_handle *handle;

	list_for_each (handle, bucket, node) {
		if (handle->id == id && handle->references)
			return handle;
	}
	return NULL;
}

static void end_handle(struct vmm_handle *handle)
{
	bool is_moved = handle->share_id && sim_state_close_share(sim.state, handle->share_id);

	va_phys_fini(&handle->phys);
	if (handle->charged_bytes && is_moved)
		sim_uncharge_moved(handle->device, SIM_USE_ALLOC, handle->charged_bytes);
	else if (handle->charged_bytes)
		sim_uncharge(handle->device, SIM_USE_ALLOC, handle->charged_bytes);
	list_del(&handle->node);
	free(handle);
}

void vmm_handle_settle(struct vmm_handle *handle)
{
	if (!handle->references && !handle->mappings)
		end_handle(handle);
}

static struct vmm_handle *handle_new(const CUmemAllocationProp *prop, struct sim_device *device)
{
	struct vmm_handle *handle = calloc(1, sizeof(*handle));

	if (!handle)
		return NULL;
	handle->id = ++last_id;
	handle->prop = *prop;
	handle->device = device;
	handle->references = 1;
	list_append(bucket_of(handle->id), &handle->node);
	return handle;
}

/* Creating. */

static bool is_host(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

static CUresult check_prop(const CUmemAllocationProp *prop)
{
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return sim_device(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	return is_host(&prop->location) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_handle_types(const CUmemAllocationProp *prop)
{
	unsigned types = prop->requestedHandleTypes;

	if (types & CU_MEM_HANDLE_TYPE_FABRIC)
		return CUDA_ERROR_NOT_PERMITTED;
	return types & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
		       ? CUDA_ERROR_NOT_SUPPORTED
		       : CUDA_SUCCESS;
}

/* The memory's name tells an importer in another process whose it is. */
static CUresult back_handle(struct vmm_handle *handle, size_t bytes)
{
	char name[64];
	bool is_shared =
		handle->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	int r;

	snprintf(name, sizeof(name), "allot-sim-vmm:%d:%d",
		 handle->device ? (int)handle->device->index : -1, (int)handle->prop.location.type);
	r = va_phys_init(&handle->phys, bytes, is_shared ? name : NULL);
	return r ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *ret, size_t bytes,
		       const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct sim_device *device = NULL;
	struct vmm_handle *handle;
	CUresult result;

	if (!ret || flags || !bytes || bytes % VMM_GRAIN)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_prop(prop);
	if (!result)
		result = check_handle_types(prop);
	if (result)
		return result;
	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
		device = sim_device(prop->location.id);
		if (sim_charge(device, SIM_USE_ALLOC, bytes))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	handle = handle_new(prop, device);
	if (!handle) {
		if (device)
			sim_uncharge(device, SIM_USE_ALLOC, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	handle->charged_bytes = device ? bytes : 0;
	result = back_handle(handle, bytes);
	if (result) {
		handle->references = 0;
		vmm_handle_settle(handle);
		return result;
	}
	*ret = handle->id;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	return SIM_CALL(cuMemCreate, SIM_LOCK, create(handle, size, prop, flags),
			"bytes=%zu location=%d id=%d", size, prop ? (int)prop->location.type : -1,
			prop ? prop->location.id : -1);
}

static CUresult release(CUmemGenericAllocationHandle id)
{
	struct vmm_handle *handle = vmm_handle_find(id);

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	handle->references--;
	vmm_handle_settle(handle);
	return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	return SIM_CALL(cuMemRelease, SIM_LOCK, release(handle), "handle=%#llx", handle);
}

static CUresult granularity(size_t *ret, const CUmemAllocationProp *prop,
			    CUmemAllocationGranularity_flags option)
{
	/* the driver does not look what the properties say */
	if (!ret || !prop || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = VMM_GRAIN;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity_, const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option)
{
	return SIM_CALL(cuMemGetAllocationGranularity, SIM_INIT,
			granularity(granularity_, prop, option), "option=%d", (int)option);
}

static CUresult properties(CUmemAllocationProp *prop, CUmemGenericAllocationHandle id)
{
	const struct vmm_handle *handle = vmm_handle_find(id);

	if (!prop || !handle)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = handle->prop;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						CUmemGenericAllocationHandle handle)
{
	return SIM_CALL(cuMemGetAllocationPropertiesFromHandle, SIM_LOCK, properties(prop, handle),
			"handle=%#llx", handle);
}

/* Sharing. */

static uint64_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* each export is an open file of its own, as the driver's are */
static int reopen(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

static CUresult export_fd(int *ret, CUmemGenericAllocationHandle id, CUmemAllocationHandleType type,
			  unsigned long long flags)
{
	struct vmm_handle *handle = vmm_handle_find(id);
	int fd;

	if (!ret || !handle || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(handle->prop.requestedHandleTypes & type))
		return CUDA_ERROR_INVALID_VALUE;
	fd = reopen(handle->phys.fd);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (handle->charged_bytes && !handle->share_id &&
	    sim_state_share(sim.state, handle->device->index, inode_of(fd), handle->charged_bytes,
			    false) == 0)
		handle->share_id = inode_of(fd);
	*ret = fd;
	return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType handleType,
				      unsigned long long flags)
{
	return SIM_CALL(cuMemExportToShareableHandle, SIM_LOCK,
			export_fd(shareableHandle, handle, handleType, flags),
			"handle=%#llx type=%d", handle, (int)handleType);
}

/* whose memory @fd is; false when it is none of a simulator's */
bool vmm_identify_fd(int fd, CUmemLocation *location, size_t *bytes)
{
	char path[64], target[128];
	struct stat st;
	int index, type;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0 || fstat(fd, &st))
		return false;
	target[n] = '\0';
	if (strncmp(target, FD_PREFIX, strlen(FD_PREFIX)) ||
	    sscanf(target + strlen(FD_PREFIX), "%d:%d", &index, &type) != 2)
		return false;
	location->type = (CUmemLocationType)type;
	location->id = 0;
	*bytes = (size_t)st.st_size;
	for (unsigned i = 0; index >= 0 && i < sim.device_count; i++) {
		if (sim.devices[i].index == (unsigned)index) {
			location->id = (int)i;
			return true;
		}
	}
	return index < 0;
}

/* its owner's as long as there is one, or others' that have it open; else ours from now on */
static bool open_share(struct vmm_handle *handle, uint64_t id, size_t bytes)
{
	int r = handle->device ? sim_state_open_share(sim.state, id, 0) : -EINVAL;

	if (r == -ENOENT) {
		if (sim_charge(handle->device, SIM_USE_ALLOC, bytes))
			return false;
		handle->charged_bytes = bytes;
		r = sim_state_share(sim.state, handle->device->index, id, bytes, false);
	}
	if (r == 0)
		handle->share_id = id;
	return true;
}

static CUresult import_fd(CUmemGenericAllocationHandle *ret, int fd, CUmemAllocationHandleType type)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	}; /* no handle types: what was imported cannot be exported again */
	struct vmm_handle *handle;
	size_t bytes;

	if (type == CU_MEM_HANDLE_TYPE_FABRIC)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!ret || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	if (!vmm_identify_fd(fd, &prop.location, &bytes))
		return CUDA_ERROR_UNKNOWN;
	handle = handle_new(&prop, prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE
					   ? sim_device(prop.location.id)
					   : NULL);
	if (!handle)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (va_phys_init_fd(&handle->phys, fd, bytes) || !open_share(handle, inode_of(fd), bytes)) {
		handle->references = 0;
		vmm_handle_settle(handle);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = handle->id;
	return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
					CUmemAllocationHandleType shHandleType)
{
	return SIM_CALL(cuMemImportFromShareableHandle, SIM_LOCK,
			import_fd(handle, (int)(intptr_t)osHandle, shHandleType), "fd=%d type=%d",
			(int)(intptr_t)osHandle, (int)shHandleType);
}
