// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_RAND_H
#define BASE_RAND_H

/* A small repeatable generator (splitmix64) for tests, simulators and jitter; not for secrets. */

#include <stdint.h>

struct rand_state {
	uint64_t s;
};

uint64_t rand_next(struct rand_state *r);

/** rand_below - 0 … n-1; n must not be 0 */
uint64_t rand_below(struct rand_state *r, uint64_t n);

#endif
