// SPDX-License-Identifier: Apache-2.0
#include "daemon/manager.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#define MANAGER_CALL_NS (5 * NS_PER_S)
#define SYSTEMD_NAME    "org.freedesktop.systemd1"
#define SYSTEMD_PATH    "/org/freedesktop/systemd1"
#define SYSTEMD_MANAGER "org.freedesktop.systemd1.Manager"

struct manager {
	sd_event *event;
	bool is_user;
	sd_bus *bus;
	manager_done *done;
	void *context;
};

/* what an answer needs to know of its question */
struct call {
	struct manager *manager;
	uint64_t job;
};

static int connect_bus(struct manager *m)
{
	int r;

	if (m->bus && sd_bus_is_open(m->bus) > 0)
		return 0;
	m->bus = sd_bus_close_unref(m->bus);
	r = m->is_user ? sd_bus_open_user(&m->bus) : sd_bus_open_system(&m->bus);
	if (r >= 0)
		r = sd_bus_attach_event(m->bus, m->event, SD_EVENT_PRIORITY_NORMAL);
	if (r < 0)
		m->bus = sd_bus_close_unref(m->bus);
	return r < 0 ? r : 0;
}

bool manager_rules(void)
{
	return sd_booted() > 0;
}

int manager_new(sd_event *event, bool is_user, manager_done *done, void *context,
		struct manager **ret)
{
	const char *named =
		secure_getenv(is_user ? "DBUS_SESSION_BUS_ADDRESS" : "DBUS_SYSTEM_BUS_ADDRESS");
	struct manager *m;
	int r;

	if (!manager_rules() && !named)
		return -ENOENT;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->event = event;
	m->is_user = is_user;
	m->done = done;
	m->context = context;
	r = connect_bus(m);
	if (r < 0) {
		manager_free(m);
		return manager_rules() ? r : -ENOENT;
	}
	*ret = m;
	return 0;
}

struct manager *manager_free(struct manager *m)
{
	if (m) {
		sd_bus_close_unref(m->bus);
		free(m);
	}
	return NULL;
}

static int on_reply(sd_bus_message *reply, void *userdata, sd_bus_error *ret_error)
{
	struct call *call = userdata;
	const sd_bus_error *error = sd_bus_message_get_error(reply);
	int r = 0;

	(void)ret_error;
	if (error) {
		r = -sd_bus_message_get_errno(reply);
		if (sd_bus_error_has_name(error, SD_BUS_ERROR_SERVICE_UNKNOWN) ||
		    sd_bus_error_has_name(error, SD_BUS_ERROR_NAME_HAS_NO_OWNER))
			r = -EHOSTUNREACH;
		log_debug("systemd on job %llu: %s", (unsigned long long)call->job,
			  error->message ? error->message : error->name);
	}
	call->manager->done(call->manager->context, call->job, r < 0 ? r : 0);
	return 1;
}

/* @call is freed with the question, answered or not */
static int ask(struct manager *m, sd_bus_message *msg, uint64_t job)
{
	struct call *call = calloc(1, sizeof(*call));
	sd_bus_slot *slot;
	int r;

	if (!call)
		return -ENOMEM;
	*call = (struct call){ .manager = m, .job = job };
	r = sd_bus_call_async(m->bus, &slot, msg, on_reply, call, MANAGER_CALL_NS / NS_PER_US);
	if (r < 0) {
		free(call);
		return r;
	}
	(void)sd_bus_slot_set_destroy_callback(slot, free); /* cannot fail for a slot */
	(void)sd_bus_slot_set_floating(slot, 1);
	sd_bus_slot_unref(slot);
	return 0;
}

static int begin(struct manager *m, const char *method, sd_bus_message **ret)
{
	int r = connect_bus(m);

	return r < 0 ? r
		     : sd_bus_message_new_method_call(m->bus, ret, SYSTEMD_NAME, SYSTEMD_PATH,
						      SYSTEMD_MANAGER, method);
}

static int add_scope(sd_bus_message *msg, const char *unit, const char *slice,
		     const char *description, pid_t keeper)
{
	int r = sd_bus_message_append(msg, "ss", unit, "fail");

	if (r >= 0)
		r = sd_bus_message_open_container(msg, 'a', "(sv)");
	if (r >= 0)
		r = sd_bus_message_append(msg, "(sv)(sv)(sv)", "Description", "s", description,
					  "PIDs", "au", 1, (uint32_t)keeper, "CollectMode", "s",
					  "inactive-or-failed");
	if (r >= 0 && *slice)
		r = sd_bus_message_append(msg, "(sv)", "Slice", "s", slice);
	if (r >= 0)
		r = sd_bus_message_close_container(msg);
	return r < 0 ? r : sd_bus_message_append(msg, "a(sa(sv))", 0);
}

int manager_start_scope(struct manager *m, uint64_t job, const char *unit, const char *slice,
			const char *description, pid_t keeper)
{
	sd_bus_message *msg = NULL;
	int r = begin(m, "StartTransientUnit", &msg);

	if (r >= 0)
		r = add_scope(msg, unit, slice, description, keeper);
	if (r >= 0)
		r = ask(m, msg, job);
	sd_bus_message_unref(msg);
	return r < 0 ? r : 0;
}

int manager_attach(struct manager *m, uint64_t job, const char *unit, const int32_t *pids,
		   unsigned n)
{
	sd_bus_message *msg = NULL;
	int r = begin(m, "AttachProcessesToUnit", &msg);

	if (r >= 0)
		r = sd_bus_message_append(msg, "ss", unit, "");
	if (r >= 0)
		r = sd_bus_message_append_array(msg, 'u', pids, n * sizeof(pids[0]));
	if (r >= 0)
		r = ask(m, msg, job);
	sd_bus_message_unref(msg);
	return r < 0 ? r : 0;
}

/* what is the user's manager's begins below user@UID.service */
static const char *part_of_user(const char *path)
{
	const char *at = strstr(path, "/user@");

	at = at ? strchr(at + 1, '/') : NULL;
	return at ? at : "";
}

bool manager_slice(const char *path, bool is_user, char *buf, size_t size)
{
	static const char suffix[] = ".slice";
	bool is_found = false;

	if (is_user)
		path = part_of_user(path);
	while (*path == '/') {
		size_t len = strcspn(++path, "/");

		if (len < sizeof(suffix) || len >= size ||
		    strncmp(path + len - strlen(suffix), suffix, strlen(suffix)) != 0)
			break;
		memcpy(buf, path, len);
		buf[len] = '\0';
		is_found = true;
		path += len;
	}
	return is_found;
}
