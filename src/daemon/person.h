// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_PERSON_H
#define DAEMON_PERSON_H

/*
 * What people and their tools ask.  Anybody may look; a job is changed and cancelled by its owner,
 * by root and by whom the configuration names.  From inside a job only that job (or one nested in
 * it) can be changed, and only made narrower, whoever asks.
 */

#include <stdint.h>

struct daemon;
struct job;
struct peer;
struct wire_message;

void person_ps(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void person_status(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void person_set(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void person_cancel(struct daemon *d, struct peer *peer, const struct wire_message *msg);
/** person_list_job - the processes of a job as PS_ITEM, at the least one line; how many */
uint64_t person_list_job(struct daemon *d, struct peer *peer, uint32_t id, struct job *job);

void person_daemon(struct daemon *d, struct peer *peer, const struct wire_message *msg);

#endif
