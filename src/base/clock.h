// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

/* Time for measuring and waiting: CLOCK_MONOTONIC in nanoseconds; wall time only for people. */

#include <stddef.h>
#include <stdint.h>

#define NS_PER_US ((uint64_t)1000)
#define NS_PER_MS ((uint64_t)1000000)
#define NS_PER_S  ((uint64_t)1000000000)

/** clock_now_ns - CLOCK_MONOTONIC.  Any thread; never fails. */
uint64_t clock_now_ns(void);

/** clock_rfc3339 - now, as "2026-11-30T20:15:04Z", into @buf of at least 21 bytes */
void clock_rfc3339(char *buf, size_t size);

#endif
