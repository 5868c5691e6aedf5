// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

/*
 * Checked and saturating arithmetic on byte counts.  Nothing in the tree adds or subtracts bytes
 * that a peer, a file or a user named without one of these.
 */

#include <stdbool.h>
#include <stdint.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define TIB ((uint64_t)1 << 40)

/** size_add - *ret = a + b; false (and *ret untouched) when it would wrap */
static inline bool size_add(uint64_t a, uint64_t b, uint64_t *ret)
{
	uint64_t r;

	if (__builtin_add_overflow(a, b, &r))
		return false;
	*ret = r;
	return true;
}

/** size_mul - *ret = a * b; false (and *ret untouched) when it would wrap */
static inline bool size_mul(uint64_t a, uint64_t b, uint64_t *ret)
{
	uint64_t r;

	if (__builtin_mul_overflow(a, b, &r))
		return false;
	*ret = r;
	return true;
}

/** size_sat_add - a + b, or UINT64_MAX */
static inline uint64_t size_sat_add(uint64_t a, uint64_t b)
{
	uint64_t r;

	return __builtin_add_overflow(a, b, &r) ? UINT64_MAX : r;
}

/** size_sat_sub - a - b, or 0: a count of bytes never wraps */
static inline uint64_t size_sat_sub(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/** size_round_up - the next multiple of @step (a power of two), saturating */
static inline uint64_t size_round_up(uint64_t n, uint64_t step)
{
	return size_sat_add(n, step - 1) & ~(step - 1);
}

static inline uint64_t size_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t size_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif
