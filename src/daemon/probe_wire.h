// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_PROBE_WIRE_H
#define DAEMON_PROBE_WIRE_H

/*
 * Between allotd and its child allot-probe: SOCK_SEQPACKET on descriptor 3 of the child, both of
 * the same build.  The child says one PROBE_SAID, and ends when the other end is closed.
 */

#include <stdint.h>

#include "wire/wire.h"

#define PROBE_FD 3

struct probe_said {
	uint32_t is_ready; /* what was asked for is there */
	uint32_t pad;
	char text[WIRE_TEXT_MAX]; /* why not */
};

#endif
