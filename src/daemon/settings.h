// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_SETTINGS_H
#define DAEMON_SETTINGS_H

/*
 * allotd's configuration while it runs: where it is read from, what of it holds, and reload.
 *
 * Two of them are kept: `config`, which holds, and `config_next`, which the next start would have.
 * They differ in options that take effect at a start alone.  A reload takes the whole file or, when
 * it has a mistake, nothing of it; all mistakes are told to the log and to whoever asked.  Flags
 * and the environment go before the file, also then.
 *
 * settings_load is for before anything is served: it may be called without a daemon.  A reload
 * reads one regular file of 1 MiB at the most; the loop stands still for that.
 */

#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "base/paths.h"

struct config;
struct config_report;
struct daemon;
struct err;
struct peer;
struct wire_message;
struct wire_run;

/** where the configuration comes from; the flags' texts live as long as the program */
struct settings_where {
	char path[PATHS_MAX]; /* of the file */
	bool may_be_missing;
	bool is_system;
	const char *socket, *state, *driver; /* flags; NULL: not given */
};

/**
 * settings_load - the file, then the environment, then the flags
 * Returns 0; or a negative errno with every mistake in @report.
 */
int settings_load(const struct settings_where *where, struct config *ret,
		  struct config_report *report);

/** settings_log_mistakes - one line each */
void settings_log_mistakes(const char *path, const struct config_report *report);

/** settings_apply - make what holds take effect everywhere; 0, or -errno with a text */
int settings_apply(struct daemon *d, struct err *err);

/** settings_gid - the group that the socket belongs to; -1: it stays as it is */
gid_t settings_gid(const struct daemon *d);

/** settings_look_for_gpus - the GPUs are known: tell of those that `gpus` names in vain */
void settings_look_for_gpus(const struct daemon *d);

/** settings_fill_run - what a job's request leaves to the configuration (WIRE_RUN_USUAL_…) */
void settings_fill_run(struct daemon *d, const struct peer *peer, struct wire_run *m);

/** settings_gave_vram - is the request of this job (already filled) the configuration's? */
bool settings_gave_vram(const struct daemon *d, const struct wire_run *m);

/** settings_is_admin - may this person change everybody's jobs, by the configuration? */
bool settings_is_admin(const struct daemon *d, const struct peer *peer);

/** settings_on_hangup - SIGHUP: reload */
int settings_on_hangup(sd_event_source *source, const struct signalfd_siginfo *info,
		       void *userdata);

/** settings_notify - tell systemd, when it waits for that */
void settings_notify(const struct daemon *d, const char *state);

void settings_list(struct daemon *d, struct peer *peer, const struct wire_message *msg);
void settings_reload_asked(struct daemon *d, struct peer *peer, const struct wire_message *msg);

#endif
