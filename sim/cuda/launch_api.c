// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/launch.h"

static CUresult submit(CUcontext ctx, CUstream handle, enum stream_default dflt,
		       const struct launch *launch)
{
	unsigned char buffer[LAUNCH_PARAMS_MAX];
	CUstream stream;
	struct op op;
	CUresult r;

	if (!launch->function)
		return CUDA_ERROR_INVALID_HANDLE;
	r = stream_get(ctx, handle, dflt, &stream);
	if (r == CUDA_SUCCESS)
		r = launch_op(stream->ctx, launch, buffer, &op);
	return r == CUDA_SUCCESS ? op_submit(stream, &op) : r;
}

#define LAUNCH_PARAMS                                                                       \
	(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, \
	 unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,            \
	 unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)

STREAM_TWINS(cuLaunchKernel, cuLaunchKernel_ptsz, LAUNCH_PARAMS, SIM_CTX | SIM_LOCK,
	     submit(call.ctx, hStream, dflt,
		    &(struct launch){ .function = f,
				      .grid = { gridDimX, gridDimY, gridDimZ },
				      .block = { blockDimX, blockDimY, blockDimZ },
				      .shared_bytes = sharedMemBytes,
				      .params = kernelParams,
				      .extra = extra }),
	     "%p, %u, %u, %u, %u, %u, %u, %u, %p, %p, %p", (void *)f, gridDimX, gridDimY, gridDimZ,
	     blockDimX, blockDimY, blockDimZ, sharedMemBytes, (void *)hStream, (void *)kernelParams,
	     (void *)extra)

STREAM_TWINS(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz,
	     (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
	      unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
	      unsigned int sharedMemBytes, CUstream hStream, void **kernelParams),
	     SIM_CTX | SIM_LOCK,
	     submit(call.ctx, hStream, dflt,
		    &(struct launch){ .function = f,
				      .grid = { gridDimX, gridDimY, gridDimZ },
				      .block = { blockDimX, blockDimY, blockDimZ },
				      .shared_bytes = sharedMemBytes,
				      .params = kernelParams,
				      .is_cooperative = true }),
	     "%p, %u, %u, %u, %u, %u, %u, %u, %p, %p", (void *)f, gridDimX, gridDimY, gridDimZ,
	     blockDimX, blockDimY, blockDimZ, sharedMemBytes, (void *)hStream, (void *)kernelParams)

/* clusters, carve-outs, domains … change nothing here; what changes a launch's checks is read */
static CUresult read_attrs(const CUlaunchConfig *config, struct launch *launch, CUevent *ret_event)
{
	if (config->numAttrs && !config->attrs)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < config->numAttrs; i++) {
		const CUlaunchAttribute *attr = &config->attrs[i];

		if (attr->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
			launch->is_cooperative = attr->value.cooperative != 0;
		} else if (attr->id == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
			launch->priority = attr->value.priority;
		} else if (attr->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) {
			*ret_event = attr->value.programmaticEvent.event;
		} else if (attr->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
			*ret_event = attr->value.launchCompletionEvent.event;
		} else if (attr->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
			unsigned dim[3] = { attr->value.clusterDim.x, attr->value.clusterDim.y,
					    attr->value.clusterDim.z };

			for (int d = 0; d < 3; d++) {
				if (!dim[d] || launch->grid[d] % dim[d])
					return CUDA_ERROR_INVALID_CLUSTER_SIZE;
			}
		} else if ((unsigned)attr->id >
			   CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING) {
			return CUDA_ERROR_INVALID_VALUE;
		}
	}
	return CUDA_SUCCESS;
}

static CUresult submit_ex(CUcontext ctx, const CUlaunchConfig *config, CUfunction f,
			  enum stream_default dflt, void **params, void **extra)
{
	struct launch launch = { .function = f, .params = params, .extra = extra };
	CUevent event = NULL;
	struct op record = { .kind = OP_RECORD };
	CUstream stream;
	CUresult r;

	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(launch.grid, &config->gridDimX, sizeof(launch.grid));
	memcpy(launch.block, &config->blockDimX, sizeof(launch.block));
	launch.shared_bytes = config->sharedMemBytes;
	r = read_attrs(config, &launch, &event);
	if (r == CUDA_SUCCESS && event)
		r = event_check(event);
	if (r == CUDA_SUCCESS)
		r = submit(ctx, config->hStream, dflt, &launch);
	if (r != CUDA_SUCCESS || !event)
		return r;
	/* an event that fires inside the kernel fires at its end here: later, never too early */
	r = stream_get(ctx, config->hStream, dflt, &stream);
	if (r != CUDA_SUCCESS)
		return r;
	if (capture_stream_is_active(stream))
		return capture_record(stream, event, 0);
	record.event.event = event;
	record.event.record = event_new_record(event);
	return record.event.record ? op_submit(stream, &record) : CUDA_ERROR_OUT_OF_MEMORY;
}

STREAM_TWINS(cuLaunchKernelEx, cuLaunchKernelEx_ptsz,
	     (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra),
	     SIM_CTX | SIM_LOCK, submit_ex(call.ctx, config, f, dflt, kernelParams, extra),
	     "%p, %p, %p, %p", (const void *)config, (void *)f, (void *)kernelParams, (void *)extra)

static CUresult cooperative_multi(CUcontext ctx, const CUDA_LAUNCH_PARAMS *list, unsigned count,
				  unsigned flags)
{
	if (!list || !count || count > sim.device_count || flags > 3)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		const CUDA_LAUNCH_PARAMS *one = &list[i];
		struct launch launch = { .function = one->function,
					 .grid = { one->gridDimX, one->gridDimY, one->gridDimZ },
					 .block = { one->blockDimX, one->blockDimY,
						    one->blockDimZ },
					 .shared_bytes = one->sharedMemBytes,
					 .params = one->kernelParams,
					 .is_cooperative = true };
		CUresult r;

		if (!one->hStream || one->hStream == CU_STREAM_LEGACY)
			return CUDA_ERROR_INVALID_VALUE; /* a stream of its own is demanded */
		r = submit(ctx, one->hStream, DEFAULT_LEGACY, &launch);
		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
					      unsigned int numDevices, unsigned int flags)
{
	return SIM_CALL(cuLaunchCooperativeKernelMultiDevice, SIM_CTX | SIM_LOCK,
			cooperative_multi(call.ctx, launchParamsList, numDevices, flags),
			"%p, %u, %#x", (void *)launchParamsList, numDevices, flags);
}
