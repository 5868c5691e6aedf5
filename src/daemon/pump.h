// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_PUMP_H
#define DAEMON_PUMP_H

/*
 * After every event of the loop: what the ledger says is due is carried out, the sampler is asked
 * when its figures are wanted, and the one timer is set for the next thing that time alone brings.
 * So no handler needs to think of anybody but its own asker.
 */

struct daemon;
struct pump;

int pump_new(struct daemon *d, struct pump **ret);
struct pump *pump_free(struct pump *p);

#endif
