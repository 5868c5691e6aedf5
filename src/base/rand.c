// SPDX-License-Identifier: Apache-2.0
#include "base/rand.h"

uint64_t rand_next(struct rand_state *r)
{
	uint64_t z = (r->s += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t rand_below(struct rand_state *r, uint64_t n)
{
	return rand_next(r) % n;
}
