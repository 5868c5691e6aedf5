// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_SHOW_H
#define DAEMON_SHOW_H

/* Everything of one job, and what it waits for.  Anybody may look. */

#include <stdint.h>

struct daemon;
struct peer;
struct wire_message;

void show_job(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void show_why(struct daemon *d, struct peer *peer, const struct wire_message *msg);

/** show_send - one JOB message about a job that lives or has a run */
void show_send(struct daemon *d, struct peer *peer, uint32_t request_id, uint64_t job_id);

#endif
