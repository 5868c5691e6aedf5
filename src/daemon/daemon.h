// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

/*
 * What allotd is made of.  One thread, one sd-event loop; nothing here blocks or sleeps.
 *
 *   peers      connections: bytes in and out, who the kernel says they are
 *   registry   jobs and processes of this allotd, found by id and by pid
 *   ledger     every decision (src/policy)
 *   pump       after every event: carries out what the ledger says is due, sets the timers
 *   jobs, programs, person   one handler a message, by who asks
 *   gpus       what the sampler saw, given to the ledger; names of GPUs
 *   unmanaged  the programs that came past allot, and the policy for them
 *   sampler    the child that alone talks to NVML
 *   credit     the pages shared with the processes
 *   pages      some of them ready ahead
 *   late       what is left to do for a process when its ATTACH is answered
 *   deaths     the pidfds of all processes
 *   scopes     the jobs' own cgroups
 *   settings   the configuration (src/config): which file, what holds, reload
 *   runs       jobs until a while after their end: exit status, log, who waits for it
 *   show       everything of one job, and what it waits for
 *   probe      what a context costs, before somebody needs one
 *   store      what a restart must know (SQLite)
 *   restart    from store, keepers and shims back to the same figures
 *
 * Handlers never call each other's answers: they change the ledger, and the pump answers.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "base/list.h"
#include "daemon/instance.h"
#include "daemon/registry.h"
#include "daemon/settings.h"
#include "wire/wire.h"

struct peers;
struct deaths;
struct late;
struct commands;
struct pages;
struct store;
struct sampler;
struct gpus;
struct unmanaged;
struct probes;
struct pump;
struct restart;
struct scopes;
struct runs;
struct ledger;

struct daemon {
	sd_event *event;
	struct instance instance;
	struct peers *peers;
	struct ledger *ledger;
	struct store *store;
	struct sampler *sampler;
	struct gpus *gpus;
	struct unmanaged *unmanaged;
	struct probes *probes;
	struct pump *pump;
	struct late *late;
	struct commands *commands;
	struct deaths *deaths;
	struct pages *pages;
	struct scopes *scopes;
	struct runs *runs;
	struct restart *restart; /* NULL once everybody is back */
	struct registry registry;
	const char *proc_root;
	char driver_dir[WIRE_PATH_MAX]; /* "" = the loader's choice */
	bool is_simulated;
	uint64_t started_ns;
	int ready_fd;                       /* told once when people are served; -1 */
	struct config *config;              /* that holds; never NULL */
	struct config *config_next;         /* that the next start would have; never NULL */
	struct settings_where config_place; /* where both came from */
	bool has_service_manager;           /* systemd is told how we are (sd_notify) */
};

#endif
