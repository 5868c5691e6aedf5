// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_MANAGER_H
#define DAEMON_MANAGER_H

/*
 * systemd as the maker of scopes, asked over D-Bus: the system's manager for the system's allotd,
 * the user's for a user's own.  Which bus that is, is libsystemd's affair
 * (DBUS_SYSTEM_BUS_ADDRESS, DBUS_SESSION_BUS_ADDRESS, XDG_RUNTIME_DIR).
 *
 * Everything is asynchronous on allotd's loop: a call is queued, the answer is told by `done`, at
 * the latest after MANAGER_CALL_NS with -ETIMEDOUT.  A connection that was lost is made anew by the
 * next call.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct manager;

/** manager_done - the answer for @job: 0 or -errno; -EHOSTUNREACH: there is no systemd behind it */
typedef void manager_done(void *context, uint64_t job, int result);

/** manager_rules - was this machine started by systemd, so that the tree of cgroups is its? */
bool manager_rules(void);

/** manager_new - 0; -ENOENT when there is no systemd here; -errno when its bus cannot be had */
int manager_new(sd_event *event, bool is_user, manager_done *done, void *context,
		struct manager **ret);
struct manager *manager_free(struct manager *m);

/**
 * manager_start_scope - a transient scope with @keeper in it
 * @slice: the one that the keeper is in now; "": the manager's default
 * Returns 0, and `done` comes; or -errno.
 */
int manager_start_scope(struct manager *m, uint64_t job, const char *unit, const char *slice,
			const char *description, pid_t keeper);

/** manager_attach - further processes into a scope that is there; returns as above */
int manager_attach(struct manager *m, uint64_t job, const char *unit, const int32_t *pids,
		   unsigned n);

/**
 * manager_slice - the slice to ask for, for a keeper in the cgroup @path
 *
 * The innermost slice that the manager knows on the way there, so that the user's limits and
 * accounts stay what they are.  False when there is none: the default.
 */
bool manager_slice(const char *path, bool is_user, char *buf, size_t size);

#endif
