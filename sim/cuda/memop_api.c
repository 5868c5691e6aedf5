// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/memop.h"

#define BATCH_MAX 256

static CUresult submit(CUcontext ctx, CUstream handle, enum stream_default dflt,
		       CUstreamBatchMemOpParams *ops, unsigned count, unsigned flags)
{
	struct op op = { .kind = OP_MEMOP,
			 .memop = { .ops = ops, .count = count, .flags = flags } };
	CUstream stream;
	CUresult r;

	if (!ops || !count || count > BATCH_MAX || flags)
		return CUDA_ERROR_INVALID_VALUE;
	r = stream_get(ctx, handle, dflt, &stream);
	if (r == CUDA_SUCCESS)
		r = memop_check(&op.memop);
	return r == CUDA_SUCCESS ? op_submit(stream, &op) : r;
}

static CUresult one(CUcontext ctx, CUstream handle, enum stream_default dflt,
		    CUstreamBatchMemOpType type, CUdeviceptr address, uint64_t value,
		    unsigned flags)
{
	CUstreamBatchMemOpParams op = { .pad = { 0 } };
	bool wait =
		type == CU_STREAM_MEM_OP_WAIT_VALUE_32 || type == CU_STREAM_MEM_OP_WAIT_VALUE_64;
	bool wide =
		type == CU_STREAM_MEM_OP_WAIT_VALUE_64 || type == CU_STREAM_MEM_OP_WRITE_VALUE_64;

	op.operation = type;
	if (wait) {
		op.waitValue.address = address;
		op.waitValue.flags = flags;
	} else {
		op.writeValue.address = address;
		op.writeValue.flags = flags;
	}
	if (wait && wide)
		op.waitValue.value64 = value;
	else if (wait)
		op.waitValue.value = (cuuint32_t)value;
	else if (wide)
		op.writeValue.value64 = value;
	else
		op.writeValue.value = (cuuint32_t)value;
	return submit(ctx, handle, dflt, &op, 1, 0);
}

/* the two generations of each call differ only in what the device had to support */
#define VALUE_CALL(api, type, value_type)                                                       \
	STREAM_TWINS(api, api##_ptsz,                                                           \
		     (CUstream stream, CUdeviceptr addr, value_type value, unsigned flags),     \
		     SIM_CTX | SIM_LOCK, one(call.ctx, stream, dflt, type, addr, value, flags), \
		     "%p, %#llx, %#llx, %#x", (void *)stream, addr, (unsigned long long)value,  \
		     flags)

VALUE_CALL(cuStreamWaitValue32, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)
VALUE_CALL(cuStreamWaitValue32_v2, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)
VALUE_CALL(cuStreamWaitValue64, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)
VALUE_CALL(cuStreamWaitValue64_v2, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)
VALUE_CALL(cuStreamWriteValue32, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)
VALUE_CALL(cuStreamWriteValue32_v2, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)
VALUE_CALL(cuStreamWriteValue64, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)
VALUE_CALL(cuStreamWriteValue64_v2, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)

STREAM_TWINS(cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz,
	     (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
	      unsigned int flags),
	     SIM_CTX | SIM_LOCK, submit(call.ctx, stream, dflt, paramArray, count, flags),
	     "%p, %u, %p, %#x", (void *)stream, count, (void *)paramArray, flags)

STREAM_TWINS(cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz,
	     (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
	      unsigned int flags),
	     SIM_CTX | SIM_LOCK, submit(call.ctx, stream, dflt, paramArray, count, flags),
	     "%p, %u, %p, %#x", (void *)stream, count, (void *)paramArray, flags)
