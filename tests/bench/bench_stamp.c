// SPDX-License-Identifier: Apache-2.0
/* Prints CLOCK_MONOTONIC in ns at the moment it runs: the end of the way from a start to main. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"

int main(void)
{
	printf("%" PRIu64 "\n", clock_now_ns());
	return 0;
}
