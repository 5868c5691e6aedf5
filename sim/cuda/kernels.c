// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/kernels.h"

#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "sim/cuda/memory.h"

#define THREADS_PER_SM 2048

static uint64_t u64_at(const unsigned char *params, uint32_t offset)
{
	uint64_t v;

	memcpy(&v, params + offset, sizeof(v));
	return v;
}

static uint32_t u32_at(const unsigned char *params, uint32_t offset)
{
	uint32_t v;

	memcpy(&v, params + offset, sizeof(v));
	return v;
}

/* the array of @n elements behind a parameter; NULL with *ret_fault set when a kernel would fault
 */
static void *array_at(CUcontext ctx, uint64_t ptr, uint64_t n, size_t size, bool is_write,
		      CUresult *ret_fault)
{
	uint64_t bytes;

	if (!n)
		return NULL;
	if (!size_mul(n, size, &bytes) || ptr % size ||
	    sim_ptr_reach(ctx, ptr, bytes, is_write) != CUDA_SUCCESS) {
		*ret_fault =
			ptr % size ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS;
		return NULL;
	}
	return (void *)(uintptr_t)ptr;
}

static CUresult fill_u32(CUcontext ctx, const unsigned char *params)
{
	CUresult fault = CUDA_SUCCESS;
	uint64_t n = u64_at(params, 16);
	uint32_t *ptr = array_at(ctx, u64_at(params, 0), n, sizeof(*ptr), true, &fault);
	uint32_t value = u32_at(params, 8);

	for (uint64_t i = 0; ptr && i < n; i++)
		ptr[i] = value;
	return fault;
}

static CUresult add_u32(CUcontext ctx, const unsigned char *params)
{
	CUresult fault = CUDA_SUCCESS;
	uint64_t n = u64_at(params, 16);
	uint32_t *ptr = array_at(ctx, u64_at(params, 0), n, sizeof(*ptr), true, &fault);
	uint32_t addend = u32_at(params, 8);

	for (uint64_t i = 0; ptr && i < n; i++)
		ptr[i] += addend;
	return fault;
}

static CUresult saxpy_f32(CUcontext ctx, const unsigned char *params)
{
	CUresult fault = CUDA_SUCCESS;
	uint64_t n = u64_at(params, 24);
	float *y = array_at(ctx, u64_at(params, 0), n, sizeof(*y), true, &fault);
	const float *x = array_at(ctx, u64_at(params, 8), n, sizeof(*x), false, &fault);
	float a;

	memcpy(&a, params + 16, sizeof(a));
	for (uint64_t i = 0; y && x && i < n; i++)
		y[i] = fmaf(a, x[i], y[i]);
	return fault;
}

static CUresult sum_u64(CUcontext ctx, const unsigned char *params)
{
	CUresult fault = CUDA_SUCCESS;
	uint64_t n = u64_at(params, 8);
	const uint64_t *in = array_at(ctx, u64_at(params, 0), n, sizeof(*in), false, &fault);
	uint64_t *out = array_at(ctx, u64_at(params, 16), 1, sizeof(*out), true, &fault);
	uint64_t sum = 0;

	if (fault != CUDA_SUCCESS)
		return fault;
	for (uint64_t i = 0; in && i < n; i++)
		sum += in[i];
	*out = sum;
	return CUDA_SUCCESS;
}

static CUresult no_effect(CUcontext ctx, const unsigned char *params)
{
	(void)ctx;
	(void)params;
	return CUDA_SUCCESS;
}

static uint64_t bytes_ns(uint64_t bytes, const struct sim_device_info *info)
{
	uint64_t rate = info->device_copy_bytes_per_s ? info->device_copy_bytes_per_s : 1;

	return (uint64_t)((unsigned __int128)bytes * NS_PER_S / rate);
}

static uint64_t stream_4_bytes_ns(const unsigned char *params, const struct kernel_shape *shape,
				  const struct sim_device_info *info)
{
	uint64_t bytes;

	(void)shape;
	return size_mul(u64_at(params, 16), 4, &bytes) ? bytes_ns(bytes, info) : 0;
}

static uint64_t saxpy_ns(const unsigned char *params, const struct kernel_shape *shape,
			 const struct sim_device_info *info)
{
	uint64_t bytes;

	(void)shape;
	return size_mul(u64_at(params, 24), 12, &bytes) ? bytes_ns(bytes, info) : 0;
}

/* one thread, one load after the other: about 10 ns each once the cache line is there */
static uint64_t sum_ns(const unsigned char *params, const struct kernel_shape *shape,
		       const struct sim_device_info *info)
{
	uint64_t ns;

	(void)shape;
	(void)info;
	return size_mul(u64_at(params, 8), 10, &ns) ? ns : 0;
}

/* every thread spins, so blocks that find no room come in a further wave */
static uint64_t spin_ns(const unsigned char *params, const struct kernel_shape *shape,
			const struct sim_device_info *info)
{
	uint64_t room = (uint64_t)info->sms * THREADS_PER_SM;
	uint64_t threads = 1, waves, ns;

	for (int i = 0; i < 3; i++)
		threads *= (uint64_t)shape->grid[i] * shape->block[i];
	waves = room ? (threads + room - 1) / room : 1;
	return size_mul(u64_at(params, 0), size_max(waves, 1), &ns) ? ns : 0;
}

static uint64_t empty_ns(const unsigned char *params, const struct kernel_shape *shape,
			 const struct sim_device_info *info)
{
	(void)params;
	(void)shape;
	(void)info;
	return 0;
}

static const struct kernel_effect effects[] = {
	{ "allot_fill_u32", 3, { 8, 4, 8 }, fill_u32, stream_4_bytes_ns },
	{ "allot_add_u32", 3, { 8, 4, 8 }, add_u32, stream_4_bytes_ns },
	{ "allot_saxpy_f32", 4, { 8, 8, 4, 8 }, saxpy_f32, saxpy_ns },
	{ "allot_sum_u64", 3, { 8, 8, 8 }, sum_u64, sum_ns },
	{ "allot_spin_ns", 1, { 8 }, no_effect, spin_ns },
	{ "allot_empty", 0, { 0 }, no_effect, empty_ns },
};

const struct kernel_effect *kernel_effect_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(effects); i++) {
		if (!strcmp(effects[i].name, name))
			return &effects[i];
	}
	return NULL;
}

uint32_t kernel_effect_offset(const struct kernel_effect *effect, unsigned index)
{
	uint32_t offset = 0;

	for (unsigned i = 0;; i++) {
		uint32_t size = effect->param_bytes[i];

		offset = (offset + size - 1) & ~(size - 1);
		if (i == index)
			return offset;
		offset += size;
	}
}

uint32_t kernel_effect_bytes(const struct kernel_effect *effect)
{
	unsigned last = effect->param_count - 1;

	if (!effect->param_count)
		return 0;
	return kernel_effect_offset(effect, last) + effect->param_bytes[last];
}
