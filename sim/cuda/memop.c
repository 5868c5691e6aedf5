// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/memop.h"

static bool is_wide(CUstreamBatchMemOpType type)
{
	return type == CU_STREAM_MEM_OP_WAIT_VALUE_64 || type == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static CUresult check_address(CUdeviceptr address, bool wide, bool is_write)
{
	size_t bytes = wide ? 8 : 4;

	if (address % bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_ptr_check(address, bytes, is_write);
}

CUresult memop_check(const struct op_memop *memop)
{
	for (unsigned i = 0; i < memop->count; i++) {
		const CUstreamBatchMemOpParams *op = &memop->ops[i];
		CUresult r = CUDA_SUCCESS;

		switch (op->operation) {
		case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		case CU_STREAM_MEM_OP_WAIT_VALUE_64:
			if (op->waitValue.flags &
			    ~(unsigned)(CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH))
				return CUDA_ERROR_INVALID_VALUE;
			r = check_address(op->waitValue.address, is_wide(op->operation), false);
			break;
		case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		case CU_STREAM_MEM_OP_WRITE_VALUE_64:
			if (op->writeValue.flags &
			    ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
				return CUDA_ERROR_INVALID_VALUE;
			r = check_address(op->writeValue.address, is_wide(op->operation), true);
			break;
		case CU_STREAM_MEM_OP_BARRIER:
		case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
			break;
		default:
			return CUDA_ERROR_INVALID_VALUE;
		}
		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}

/* the program's threads write there at any time, so this is an atomic look */
static uint64_t value_at(CUdeviceptr address, bool wide)
{
	if (wide)
		return __atomic_load_n((const uint64_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
	return __atomic_load_n((const uint32_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
}

static bool wait_is_met(const CUstreamBatchMemOpParams *op)
{
	bool wide = is_wide(op->operation);
	uint64_t mask = wide ? UINT64_MAX : UINT32_MAX;
	uint64_t wanted = wide ? op->waitValue.value64 : op->waitValue.value;
	uint64_t value = value_at(op->waitValue.address, wide);

	switch (op->waitValue.flags & CU_STREAM_WAIT_VALUE_NOR) {
	case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic, as a counter that may wrap */
		return wide ? (int64_t)(value - wanted) >= 0
			    : (int32_t)((uint32_t)value - (uint32_t)wanted) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return value == wanted;
	case CU_STREAM_WAIT_VALUE_AND:
		return (value & wanted) != 0;
	default:
		return (~(value | wanted) & mask) != 0;
	}
}

static void write_value(const CUstreamBatchMemOpParams *op)
{
	uintptr_t address = (uintptr_t)op->writeValue.address;

	if (is_wide(op->operation))
		__atomic_store_n((uint64_t *)address, op->writeValue.value64, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)address, op->writeValue.value, __ATOMIC_RELEASE);
}

bool memop_step(struct op_memop *memop)
{
	for (; memop->done < memop->count; memop->done++) {
		const CUstreamBatchMemOpParams *op = &memop->ops[memop->done];

		if (op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
		    op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64) {
			if (!wait_is_met(op))
				return false;
		} else if (op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
			   op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64) {
			write_value(op);
		}
	}
	return true;
}

bool memop_is_ready(const struct op_memop *memop)
{
	for (unsigned i = 0; i < memop->count; i++) {
		const CUstreamBatchMemOpParams *op = &memop->ops[i];

		if ((op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
		     op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64) &&
		    !wait_is_met(op))
			return false; /* a write before it in the batch is seen when queued */
	}
	return true;
}

void memop_run(const struct op_memop *memop)
{
	struct op_memop all = *memop;

	all.done = 0;
	(void)memop_step(&all); /* memop_is_ready said that every wait is met */
}
