// SPDX-License-Identifier: Apache-2.0
#include "daemon/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/size.h"
#include "base/str.h"
#include "config/config.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/peers.h"
#include "daemon/runs.h"
#include "gpu/proc.h"
#include "policy/ledger.h"

_Static_assert((int)CONFIG_CLASS_BATCH == WIRE_CLASS_BATCH &&
		       (int)CONFIG_FAIL_OPEN == WIRE_FAIL_OPEN &&
		       (int)CONFIG_FROM_ENVIRONMENT == WIRE_CONFIG_ENVIRONMENT &&
		       CONFIG_TEXT_MAX <= WIRE_VALUE_MAX,
	       "they go over the wire as they are");

/* ---- reading ---- */

static void add_mistake(struct config_report *report, const struct err *err)
{
	struct config_mistake *m = &report->at[report->n];

	if (report->n == CONFIG_MISTAKES_MAX)
		return;
	report->n++;
	*m = (struct config_mistake){ 0 };
	(void)str_copy(m->text, sizeof(m->text), err->text);
}

static int override(struct config *c, const struct settings_where *w, struct config_report *report)
{
	const struct {
		enum config_id id;
		const char *text;
	} flags[] = { { CONFIG_daemon_socket, w->socket },
		      { CONFIG_daemon_state, w->state },
		      { CONFIG_daemon_driver, w->driver } };
	const char *level = secure_getenv("ALLOT_LOG");
	enum log_level known;
	struct err err = { 0 };

	/* one that is no level was told when we began */
	if (level && log_level_parse(level, &known) == 0)
		(void)config_override(c, CONFIG_daemon_log_level, CONFIG_FROM_ENVIRONMENT, level,
				      NULL); /* the same words */
	for (unsigned i = 0; i < ARRAY_SIZE(flags); i++) {
		if (!flags[i].text ||
		    config_override(c, flags[i].id, CONFIG_FROM_FLAG, flags[i].text, &err) == 0)
			continue;
		(void)err_prefix(&err, 0, "--%s", config_options[flags[i].id].name);
		add_mistake(report, &err);
		return -EINVAL;
	}
	return 0;
}

int settings_load(const struct settings_where *w, struct config *ret, struct config_report *report)
{
	enum config_mode mode = w->is_system ? CONFIG_MODE_SYSTEM : CONFIG_MODE_USER;
	AUTO_FREE struct config *c = calloc(1, sizeof(*c));
	struct err err = { 0 };
	int r;

	if (!c) {
		report->n = report->n_more = 0;
		(void)err_set(&err, -ENOMEM, "no memory to read it");
		add_mistake(report, &err);
		return -ENOMEM;
	}
	r = config_read_file(w->path, mode, c, report);
	if ((r == -ENOENT || r == -ENOTDIR) && w->may_be_missing) {
		report->n = report->n_more = 0;
		config_defaults(c);
		r = 0;
	}
	if (r == 0)
		r = override(c, w, report);
	if (r == 0)
		*ret = *c;
	return r;
}

void settings_log_mistakes(const char *path, const struct config_report *report)
{
	char line[PATHS_MAX + 320];

	for (unsigned i = 0; i < report->n; i++) {
		config_mistake_text(path, &report->at[i], line, sizeof(line));
		log_error("%s", line);
	}
	if (report->n_more)
		log_error("%s: and %u mistakes more", path, report->n_more);
}

/* ---- taking effect ---- */

gid_t settings_gid(const struct daemon *d)
{
	const struct config_group *group = &d->config->daemon_socket_group;

	return group->is_set ? group->gid : (gid_t)-1;
}

/* said, for it may be a typing error; no mistake, for a card may be away for a while */
void settings_look_for_gpus(const struct daemon *d)
{
	const struct config *c = d->config;

	for (unsigned i = 0; gpus_count(d->gpus) && i < c->n_gpus; i++) {
		bool is_there = false;

		for (unsigned g = 0; g < gpus_count(d->gpus); g++) {
			const struct sampler_gpu *gpu = &gpus_at(d->gpus, g)->last;

			is_there |= config_entry_is_for(&c->gpus[i], gpu->uuid.bytes, gpu->index,
							gpu->pci_bus_id, gpu->model);
		}
		if (!is_there)
			log_warn("%s:%u: this machine has no GPU '%s', ignoring", c->file,
				 c->gpus[i].line, c->gpus[i].name);
	}
}

int settings_apply(struct daemon *d, struct err *err)
{
	const struct config *c = d->config;

	log_set_level((enum log_level)c->daemon_log_level);
	ledger_set_sample_ns(d->ledger, c->daemon_sample_interval);
	peers_set_limits(d->peers, (unsigned)c->limits_max_connections,
			 (unsigned)c->limits_max_connections_per_user);
	gpus_configure(d->gpus);
	if (d->runs)
		runs_trim(d->runs);
	settings_look_for_gpus(d);
	return instance_allow(&d->instance, c->daemon_socket_mode, settings_gid(d), err);
}

void settings_fill_run(struct daemon *d, const struct peer *peer, struct wire_run *m)
{
	const struct config *c = d->config;
	const struct config_vram *vram = &c->jobs_vram;
	struct proc_info info;

	if (m->flags & WIRE_RUN_USUAL_CLASS)
		m->job_class = c->jobs_class;
	if (m->flags & WIRE_RUN_USUAL_FAIL_POLICY)
		m->fail_policy = c->jobs_fail_policy;
	if (m->flags & WIRE_RUN_USUAL_WHEN_FULL) {
		m->when_full_wait = c->jobs_when_full.may_wait;
		m->when_full_ns = c->jobs_when_full.ns;
	}
	if (m->flags & WIRE_RUN_USUAL_WAIT)
		m->admit_wait_ns = c->jobs_wait_timeout == UINT64_MAX
					   ? UINT64_MAX
					   : size_sat_sub(c->jobs_wait_timeout, m->admit_wait_ns);
	if (!(m->flags & WIRE_RUN_USUAL_VRAM) || (!vram->request.bytes && !vram->request.permille))
		return;
	/* a run inside a job lives in that job's part */
	if (peer->pid > 0 && registry_whose(d, peer->pid, &info))
		return;
	m->request = (struct wire_amount){ vram->request.bytes, vram->request.permille, 0 };
	m->limit = (struct wire_amount){ vram->limit.bytes, vram->limit.permille, 0 };
}

bool settings_gave_vram(const struct daemon *d, const struct wire_run *m)
{
	return (m->flags & WIRE_RUN_USUAL_VRAM) && (m->request.bytes || m->request.permille) &&
	       m->request.bytes == d->config->jobs_vram.request.bytes &&
	       m->request.permille == d->config->jobs_vram.request.permille;
}

bool settings_is_admin(const struct daemon *d, const struct peer *peer)
{
	uint32_t gids[PEER_GROUPS_MAX + 1];
	unsigned n;

	if (d->config->daemon_admins.n == 0)
		return false;
	n = peer_groups(peer, gids, (unsigned)ARRAY_SIZE(gids));
	return config_is_admin(d->config, peer->uid, gids, n);
}

/* ---- reload ---- */

void settings_notify(const struct daemon *d, const char *state)
{
	if (d->has_service_manager)
		(void)sd_notify(0, state); /* nobody there: fine */
}

struct change {
	enum wire_reloaded_kind kind;
	char text[WIRE_TEXT_MAX];
};

#define CHANGES_MAX (CONFIG_N_OPTIONS + 1)

/* is what `gpus` says the same?  By the entries' words: where in the file they stand is no matter
 */
static bool are_gpus_same(const struct config *a, const struct config *b)
{
	char x[CONFIG_TEXT_MAX], y[CONFIG_TEXT_MAX];

	if (a->n_gpus != b->n_gpus)
		return false;
	for (unsigned i = 0; i < a->n_gpus; i++) {
		const struct config_gpu_entry *e = &a->gpus[i], *f = &b->gpus[i];

		if (e->set != f->set || e->is_model != f->is_model || strcmp(e->name, f->name) != 0)
			return false;
		for (unsigned id = 0; id < CONFIG_N_GPU_OPTIONS; id++) {
			if (!(e->set & 1u << id))
				continue;
			config_gpu_text(&e->values, id, x);
			config_gpu_text(&f->values, id, y);
			if (strcmp(x, y) != 0)
				return false;
		}
	}
	return true;
}

/* what differs between what holds and @next, for people */
static unsigned compare(const struct config *now, const struct config *next,
			struct change changes[CHANGES_MAX])
{
	char old[CONFIG_TEXT_MAX], fresh[CONFIG_TEXT_MAX];
	unsigned n = 0;

	for (unsigned id = 0; id < CONFIG_N_OPTIONS; id++) {
		const struct config_option *o = &config_options[id];
		bool needs_restart = (o->flags & CONFIG_RESTART) != 0;

		config_text(now, id, old);
		config_text(next, id, fresh);
		if (strcmp(old, fresh) == 0)
			continue;
		changes[n].kind = needs_restart ? WIRE_RELOADED_RESTART : WIRE_RELOADED_CHANGE;
		(void)str_print(changes[n].text, sizeof(changes[n].text),
				"%s.%s: %.180s → %.180s%s", o->section, o->name,
				*old ? old : "(usual)", *fresh ? fresh : "(usual)",
				needs_restart ? " from the next start on" : "");
		n++;
	}
	if (!are_gpus_same(now, next)) {
		changes[n].kind = WIRE_RELOADED_CHANGE;
		(void)str_print(changes[n].text, sizeof(changes[n].text),
				"gpus: %u entries → %u entries", now->n_gpus, next->n_gpus);
		n++;
	}
	return n;
}

/* @next holds from now on, but for what a running allotd cannot change; undone when it fails */
static int adopt(struct daemon *d, const struct config *next, struct err *err)
{
	AUTO_FREE struct config *old = malloc(sizeof(*old));
	int r;

	if (!old)
		return err_set(err, -ENOMEM, "no memory");
	*old = *d->config;
	*d->config = *next;
	for (unsigned id = 0; id < CONFIG_N_OPTIONS; id++)
		if (config_options[id].flags & CONFIG_RESTART)
			config_copy_option(d->config, old, id);
	r = settings_apply(d, err);
	if (r < 0) {
		*d->config = *old;
		(void)settings_apply(d, NULL); /* as it was; the failure is told */
	} else {
		*d->config_next = *next;
	}
	return r;
}

/**
 * reload - 0 with what was changed (@ret_n of @changes); or -errno with mistakes in @report
 */
static int reload(struct daemon *d, struct config_report *report,
		  struct change changes[CHANGES_MAX], unsigned *ret_n)
{
	AUTO_FREE struct config *next = malloc(sizeof(*next));
	struct err err = { 0 };
	int r;

	report->n = report->n_more = 0;
	if (!next)
		r = err_set(&err, -ENOMEM, "no memory");
	else
		r = settings_load(&d->config_place, next, report);
	if (r == 0) {
		*ret_n = compare(d->config, next, changes);
		r = adopt(d, next, &err);
	}
	if (r < 0 && !report->n)
		add_mistake(report, &err);
	if (r < 0) {
		settings_log_mistakes(d->config_place.path, report);
		log_error("the configuration was not read again: nothing is changed");
		return r;
	}
	log_info("the configuration was read again (%s): %u changes", d->config_place.path, *ret_n);
	for (unsigned i = 0; i < *ret_n; i++)
		log_info("%s", changes[i].text);
	return 0;
}

static int notified_reload(struct daemon *d, struct config_report *report,
			   struct change changes[CHANGES_MAX], unsigned *ret_n)
{
	char state[64];
	int r;

	(void)str_print(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
			(unsigned long long)(clock_now_ns() / NS_PER_US));
	settings_notify(d, state);
	r = reload(d, report, changes, ret_n);
	settings_notify(d, r < 0 ? "READY=1\nSTATUS=the configuration has mistakes, see the log; "
				   "what was read before holds"
				 : "READY=1\nSTATUS=");
	return r;
}

int settings_on_hangup(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct change changes[CHANGES_MAX];
	struct config_report report;
	unsigned n;

	(void)source, (void)info;
	(void)notified_reload(userdata, &report, changes, &n); /* it tells */
	return 0;
}

void settings_reload_asked(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	const char *path = d->config_place.path;
	struct change changes[CHANGES_MAX];
	struct config_report report;
	struct wire_reloaded m = { 0 };
	struct wire_end end = { 0 };
	unsigned n = 0;

	if (peer->uid != 0 && peer->uid != geteuid()) {
		peer_refuse(peer, msg->request_id, WIRE_CODE_NOT_PERMITTED,
			    "the configuration is read again for root%s alone",
			    geteuid() ? " and whom this allotd belongs to" : "");
		return;
	}
	if (notified_reload(d, &report, changes, &n) < 0) {
		m.kind = WIRE_RELOADED_MISTAKE;
		for (unsigned i = 0; i < report.n; i++) {
			config_mistake_text(path, &report.at[i], m.text, sizeof(m.text));
			peer_send(peer, WIRE_RELOADED, msg->request_id, &m);
		}
		peer_refuse(peer, msg->request_id, WIRE_CODE_USAGE,
			    "%u mistakes in '%.300s': nothing is changed", report.n + report.n_more,
			    path);
		return;
	}
	for (; end.count < n; end.count++) {
		m.kind = changes[end.count].kind;
		(void)str_copy(m.text, sizeof(m.text), changes[end.count].text);
		peer_send(peer, WIRE_RELOADED, msg->request_id, &m);
	}
	peer_send(peer, WIRE_END, msg->request_id, &end);
}

/* ---- looking ---- */

struct listing {
	struct daemon *daemon;
	struct peer *peer;
	uint32_t request_id;
	uint64_t n;
};

static void list_one(const struct config_row *row, void *context)
{
	struct listing *l = context;
	const struct daemon *d = l->daemon;
	struct wire_config_item m = { .source = (uint32_t)row->origin.source,
				      .line = row->origin.line };
	char next[CONFIG_TEXT_MAX];

	(void)str_copy(m.key, sizeof(m.key), row->key);
	(void)str_copy(m.value, sizeof(m.value), row->value);
	(void)str_copy(m.usual, sizeof(m.usual), row->usual);
	if (row->origin.source == CONFIG_FROM_FILE)
		(void)str_copy(m.file, sizeof(m.file), d->config->file);
	if (row->flags & CONFIG_RESTART) {
		m.flags |= WIRE_CONFIG_RESTART;
		config_text(d->config_next, (enum config_id)row->id, next);
		if (strcmp(m.value, next) != 0)
			(void)str_print(m.note, sizeof(m.note), "from the next start on: %.400s",
					*next ? next : "(usual)");
	}
	/* where they really are */
	if (row->id == CONFIG_daemon_socket && !m.value[0])
		(void)str_copy(m.value, sizeof(m.value), d->instance.socket);
	if (row->id == CONFIG_daemon_state && !m.value[0])
		(void)str_copy(m.value, sizeof(m.value), d->instance.state_dir);
	peer_send(l->peer, WIRE_CONFIG_ITEM, l->request_id, &m);
	l->n++;
}

void settings_list(struct daemon *d, struct peer *peer, const struct wire_message *msg)
{
	struct listing l = { d, peer, msg->request_id, 0 };
	struct wire_end end = { 0 };

	config_each(d->config, list_one, &l);
	end.count = l.n;
	peer_send(peer, WIRE_END, msg->request_id, &end);
}
