// SPDX-License-Identifier: Apache-2.0
#include "daemon/server.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "config/config.h"
#include "daemon/adopt.h"
#include "daemon/commands.h"
#include "daemon/credit.h"
#include "daemon/daemon.h"
#include "daemon/deaths.h"
#include "daemon/gpus.h"
#include "daemon/jobs.h"
#include "daemon/late.h"
#include "daemon/life.h"
#include "daemon/pages.h"
#include "daemon/peers.h"
#include "daemon/person.h"
#include "daemon/probe.h"
#include "daemon/programs.h"
#include "daemon/pump.h"
#include "daemon/restart.h"
#include "daemon/runs.h"
#include "daemon/sampler.h"
#include "daemon/scope.h"
#include "daemon/shares.h"
#include "daemon/show.h"
#include "daemon/simdir.h"
#include "daemon/store.h"
#include "daemon/unmanaged.h"
#include "gpu/proc.h"

void server_dispatch(struct daemon *d, struct peer *peer, const struct wire_message *msg, int *fds,
		     unsigned n_fds)
{
	if (restart_put_off(d, peer, msg))
		return;
	if (peer->process)
		gpus_note_activity(d->gpus);
	switch (msg->type) {
	case WIRE_ATTACH:
		programs_attach(d, peer, msg, fds, n_fds);
		return;
	case WIRE_NEED:
		programs_need(d, peer, msg);
		return;
	case WIRE_OVERDRAFT_DONE:
		programs_overdraft_done(d, peer, msg);
		return;
	case WIRE_CONTEXT_DONE:
		programs_context_done(d, peer, msg);
		return;
	case WIRE_SETTLE:
		programs_settle(d, peer, msg);
		return;
	case WIRE_VIEW:
		programs_view(d, peer, msg);
		return;
	case WIRE_PROCS:
		programs_procs(d, peer, msg);
		return;
	case WIRE_SHARE_OUT:
		shares_out(d, peer, msg);
		return;
	case WIRE_SHARE_IN:
		shares_in(d, peer, msg);
		return;
	case WIRE_SHARE_CLOSE:
		shares_close(d, peer, msg);
		return;
	case WIRE_SHARE_FREED:
		shares_freed(d, peer, msg);
		return;
	case WIRE_RUN:
		jobs_run(d, peer, msg);
		return;
	case WIRE_STARTED:
		jobs_started(d, peer, msg);
		return;
	case WIRE_ENDED:
		jobs_ended(d, peer, msg);
		return;
	case WIRE_RESUME:
		jobs_resume(d, peer, msg);
		return;
	case WIRE_KEPT:
		jobs_kept(d, peer, msg, fds, n_fds);
		return;
	case WIRE_END:
		jobs_all_kept(d, peer, msg);
		return;
	case WIRE_PS:
		person_ps(d, peer, msg);
		return;
	case WIRE_STATUS:
		person_status(d, peer, msg);
		return;
	case WIRE_SET:
		person_set(d, peer, msg);
		return;
	case WIRE_CANCEL:
		person_cancel(d, peer, msg);
		return;
	case WIRE_CONFIG:
		settings_list(d, peer, msg);
		return;
	case WIRE_RELOAD:
		settings_reload_asked(d, peer, msg);
		return;
	case WIRE_ADOPT:
		adopt_process(d, peer, msg, fds, n_fds);
		return;
	case WIRE_SHOW:
		show_job(d, peer, msg);
		return;
	case WIRE_WHY:
		show_why(d, peer, msg);
		return;
	case WIRE_WAIT:
		runs_wait(d, peer, msg);
		return;
	case WIRE_DAEMON:
		person_daemon(d, peer, msg);
		return;
	default: /* an answer, or a message from allotd, where a request belongs */
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE, "%s is no request",
			    wire_name(msg->type));
		peer_end(peer);
	}
}

static void on_message(void *context, struct peer *peer, const struct wire_message *msg, int *fds,
		       unsigned n_fds)
{
	server_dispatch(context, peer, msg, fds, n_fds);
}

static void on_closed(void *context, struct peer *peer)
{
	struct daemon *d = context;

	restart_closed(d, peer);
	list_del(&peer->waiting);
	programs_closed(d, peer);
	jobs_closed(d, peer);
}

static void on_short_of_descriptors(void *context)
{
	struct daemon *d = context;

	pages_drop(d->pages);
}

static const struct peers_ops peers_ops = {
	.message = on_message,
	.closed = on_closed,
	.short_of_descriptors = on_short_of_descriptors,
};
static const struct sampler_ops sampler_ops = { .gpu = gpus_on_gpu, .done = gpus_on_done };

#define DESCRIPTORS_MIN 32

/* a descriptor for each connection, process and page; sockets of 4096 processes need it */
static int raise_descriptor_limit(struct err *err)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 0;
	if (limit.rlim_max < DESCRIPTORS_MIN) /* it would listen, and be able to hear nobody */
		return err_set(err, -EMFILE,
			       "may open %llu files, and needs %d to serve anybody: start it with "
			       "a higher limit (ulimit -n, LimitNOFILE=)",
			       (unsigned long long)limit.rlim_max, DESCRIPTORS_MIN);
	if (limit.rlim_cur == limit.rlim_max)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		log_warn("cannot raise the limit of open files: %s, ignoring", strerror(errno));
	return 0;
}

static int choose_driver(struct daemon *d, const struct server_options *o, struct err *err)
{
	static const char *const parts[] = { "libcuda.so.1", "libnvidia-ml.so.1" };
	const char *dir = d->config->daemon_driver;
	AUTO_FREE char *real = NULL;

	d->is_simulated = o->is_simulated;
	if (o->is_simulated)
		return simdir_make(&d->instance, o->profile, d->driver_dir, sizeof(d->driver_dir),
				   err);
	if (!*dir)
		return 0;
	real = realpath(dir, NULL);
	if (!real)
		return err_set(err, -errno, "driver folder '%s': %s", dir, strerror(errno));
	if (!str_copy(d->driver_dir, sizeof(d->driver_dir), real))
		return err_set(err, -ENAMETOOLONG, "driver folder '%s' is too long", real);
	for (unsigned i = 0; i < ARRAY_SIZE(parts); i++) {
		char path[PATHS_MAX + 32];

		(void)str_print(path, sizeof(path), "%s/%s", real, parts[i]);
		if (access(path, R_OK) < 0)
			return err_set(err, -errno,
				       "driver folder '%s' has no %s that can be read: %s", real,
				       parts[i], strerror(errno));
	}
	return 0;
}

static int open_store(struct daemon *d, struct err *err)
{
	char boot_id[64] = "unknown";

	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot_id, sizeof(boot_id)) < 0)
		log_warn("cannot read the machine's boot id, ignoring");
	boot_id[strcspn(boot_id, "\n")] = '\0';
	return store_open(d->instance.state_dir, boot_id, &d->store, err);
}

/* what sched_setattr(2) takes; the libc has no declaration of it */
struct sched_attr_v0 {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

#define SLICE_NS (100 * NS_PER_US)

/*
 * We run for some ten microseconds at a time and somebody always waits for the outcome: a short
 * slice lets the scheduler (Linux 6.12 and later) take us first when we wake up.  Elsewhere it is
 * not looked at.  Our children get the ordinary one.
 */
static void ask_for_short_slices(void)
{
	struct sched_attr_v0 attr = { .size = sizeof(attr),
				      .policy = SCHED_OTHER,
				      .flags = 1, /* SCHED_FLAG_RESET_ON_FORK */
				      .nice = getpriority(PRIO_PROCESS, 0),
				      .runtime = SLICE_NS };

	(void)syscall(SYS_sched_setattr, 0, &attr, 0); /* a nicety: it goes without */
}

/*
 * A full disk, and a reader that is gone, are errors of the call that met them.  A hang-up is read
 * by the loop, for which it is blocked; our children, who inherit this, do not heed it.
 */
static void ignore_signals(void)
{
	static const int signals[] = { SIGPIPE, SIGXFSZ, SIGHUP };

	for (unsigned i = 0; i < ARRAY_SIZE(signals); i++)
		(void)signal(signals[i], SIG_IGN); /* cannot fail for these */
}

/* the loop ends, the jobs go on: they are found again by the next allotd */
static int make_loop(struct daemon *d)
{
	sigset_t mask;
	int r = sd_event_new(&d->event);

	if (r < 0)
		return r;
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
		return -errno;
	r = sd_event_add_signal(d->event, NULL, SIGTERM, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(d->event, NULL, SIGINT, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(d->event, NULL, SIGHUP, settings_on_hangup, d);
	return r;
}

int server_begin_parts(struct daemon *d)
{
	int r;

	d->ledger = ledger_new(&credit_page_ops);
	r = d->ledger ? gpus_new(d, &d->gpus) : -ENOMEM;
	if (r >= 0)
		r = runs_new(d, &d->runs);
	if (r >= 0)
		r = unmanaged_new(d, &d->unmanaged);
	if (r >= 0)
		r = probes_new(d, &d->probes);
	if (r >= 0)
		r = restart_new(d, &d->restart);
	if (r >= 0)
		r = pump_new(d, &d->pump);
	if (r >= 0)
		r = late_new(d, &d->late);
	if (r >= 0)
		r = commands_new(&d->commands);
	if (r >= 0)
		r = deaths_new(d->event, life_dead, &d->deaths);
	if (r >= 0)
		r = pages_new(d->event, &d->pages);
	return r;
}

int server_listen(struct daemon *d, int listener, uid_t uid_only)
{
	return peers_new(d->event, listener, uid_only, &peers_ops, d, &d->peers);
}

void server_end_parts(struct daemon *d)
{
	/* whoever is connected finds its next allotd by itself: nothing is ended here */
	d->late = late_free(d->late);
	d->commands = commands_free(d->commands);
	d->pump = pump_free(d->pump);
	d->restart = restart_free(d->restart);
	d->sampler = sampler_free(d->sampler);
	d->scopes = scopes_free(d->scopes); /* the jobs keep their cgroups */
	d->runs = runs_free(d->runs);
	registry_fini(&d->registry);
	d->deaths = deaths_free(d->deaths);
	d->pages = pages_free(d->pages);
	d->peers = peers_free(d->peers);
	ledger_free(d->ledger);
	d->ledger = NULL;
	d->probes = probes_free(d->probes);
	d->gpus = gpus_free(d->gpus);
	d->unmanaged = unmanaged_free(d->unmanaged);
}

static int build(struct daemon *d, const struct server_options *o, struct err *err)
{
	const char *socket = d->config->daemon_socket, *state = d->config->daemon_state;
	AUTO_FD int listener = -1;
	int r = instance_init(&d->instance, *socket ? socket : NULL, *state ? state : NULL,
			      o->is_user, err);

	if (r == 0)
		r = choose_driver(d, o, err);
	if (r == 0)
		r = open_store(d, err);
	if (r < 0)
		return r;
	r = make_loop(d);
	if (r >= 0)
		r = server_begin_parts(d);
	if (r >= 0)
		r = scopes_new(d, &d->scopes);
	if (r < 0)
		return err_set(err, r, "cannot begin: %s", strerror(-r));
	r = sampler_new(d->event, d->driver_dir, &sampler_ops, d->gpus, &d->sampler, err);
	if (r < 0)
		return r;
	listener =
		instance_listen(&d->instance, d->config->daemon_socket_mode, settings_gid(d), err);
	if (listener < 0)
		return listener;
	r = server_listen(d, listener, d->instance.is_system ? (uid_t)-1 : geteuid());
	if (r < 0)
		return err_set(err, r, "cannot serve '%s': %s", d->instance.socket, strerror(-r));
	(void)TAKE_FD(listener);
	return settings_apply(d, err);
}

struct daemon *server_new(const struct server_options *options, struct err *err)
{
	struct daemon *d = calloc(1, sizeof(*d));

	if (!d) {
		(void)err_set(err, -ENOMEM, "no memory"); /* told by the caller */
		return NULL;
	}
	d->config = malloc(sizeof(*d->config));
	d->config_next = malloc(sizeof(*d->config_next));
	if (!d->config || !d->config_next) {
		(void)err_set(err, -ENOMEM, "no memory"); /* told by the caller */
		free(d->config);
		free(d->config_next);
		free(d);
		return NULL;
	}
	*d->config = *d->config_next = *options->config;
	d->config_place = options->where;
	d->has_service_manager = options->is_foreground;
	d->proc_root = PROC_ROOT;
	d->started_ns = clock_now_ns();
	d->ready_fd = options->ready_fd;
	d->instance.state_lock = d->instance.socket_lock = d->instance.sim_lock = -1;
	registry_init(&d->registry);
	ignore_signals();
	ask_for_short_slices();
	if (raise_descriptor_limit(err) < 0 || build(d, options, err) < 0)
		return server_free(d);
	return d;
}

int server_run(struct daemon *d)
{
	log_info("serving %s%s", d->instance.socket, d->is_simulated ? " (simulated GPUs)" : "");
	return sd_event_loop(d->event);
}

struct daemon *server_free(struct daemon *d)
{
	if (!d)
		return NULL;
	server_end_parts(d);
	d->store = store_close(d->store);
	sd_event_unref(d->event);
	if (d->ready_fd >= 0)
		close(d->ready_fd);
	instance_fini(&d->instance);
	free(d->config);
	free(d->config_next);
	free(d);
	return NULL;
}
