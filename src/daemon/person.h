// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_PERSON_H
#define DAEMON_PERSON_H

/*
 * What people and their tools ask.  Anybody may look; a job is changed and cancelled by its owner,
 * by root and by whom the configuration names.  From inside a job only that job (or one nested in
 * it) can be changed, and only made narrower, whoever asks.
 */

struct daemon;
struct peer;
struct wire_message;

void person_ps(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void person_status(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void person_set(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void person_cancel(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void person_daemon(struct daemon *d, struct peer *peer, const struct wire_message *msg);

#endif
