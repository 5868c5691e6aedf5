// SPDX-License-Identifier: Apache-2.0
/*
 * As much of systemd's manager as allotd asks for, on a bus of its own: a socket on which this
 * program is bus and manager in one.
 *
 *   fake_systemd SOCKET FOLDER [MODE]
 *
 * Scopes become folders below FOLDER, in the slice named, and are taken away when they are empty.
 * Every call is a line on stdout.  MODE: slow (moves after a while), silent (never answers), refuse
 * (an error), empty (a bus without systemd).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#define SLOW_US 150000
#define TIDY_US 20000
#define MAX     32

static const char *top, *mode = "";
static sd_event *event;
static char units[MAX][600]; /* the folders of the scopes */
static bool was_used[MAX];   /* somebody was moved into it */
static unsigned n_units;

struct late {
	char folder[600];
	uint32_t pids[MAX];
	size_t n;
};

static void move_all(const char *folder, const uint32_t *pids, size_t n)
{
	char path[700], text[16];

	(void)snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
	for (size_t i = 0; i < n; i++) {
		int fd = open(path, O_WRONLY | O_CLOEXEC);
		int len = snprintf(text, sizeof(text), "%" PRIu32, pids[i]);

		if (fd < 0 || write(fd, text, (size_t)len) < 0)
			printf("cannot move %s: %s\n", text, strerror(errno));
		if (fd >= 0)
			close(fd);
	}
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct late *late = userdata;

	(void)source, (void)usec;
	move_all(late->folder, late->pids, late->n);
	for (unsigned i = 0; i < n_units; i++)
		if (strcmp(units[i], late->folder) == 0)
			was_used[i] = true;
	free(late);
	return 0;
}

/* a slice's folder: user-0.slice is in user.slice */
static void make_folder(const char *slice, const char *unit, char *buf, size_t size)
{
	char path[500];

	(void)snprintf(path, sizeof(path), "%s", top);
	for (const char *dash = slice; *slice && dash;) {
		size_t len = strlen(path);

		dash = strchr(dash, '-');
		(void)snprintf(path + len, sizeof(path) - len, "/%.*s%s",
			       dash ? (int)(dash - slice) : (int)strlen(slice), slice,
			       dash ? ".slice" : "");
		dash = dash ? dash + 1 : NULL;
		(void)mkdir(path, 0755); /* it may be there */
	}
	(void)snprintf(buf, size, "%s/%s", path, unit);
	(void)mkdir(buf, 0755); /* an error shows when it is moved to */
}

/* one property: PIDs, Slice, or to be printed */
static int read_property(sd_bus_message *m, uint32_t *pids, size_t *n, char *slice, size_t size)
{
	const char *name, *type, *text = "";
	const void *array;
	size_t bytes;
	int r = sd_bus_message_read(m, "s", &name);

	if (r >= 0)
		r = sd_bus_message_peek_type(m, NULL, &type);
	if (r >= 0)
		r = sd_bus_message_enter_container(m, 'v', type);
	if (r >= 0 && strcmp(type, "au") == 0) {
		r = sd_bus_message_read_array(m, 'u', &array, &bytes);
		*n = r >= 0 ? bytes / sizeof(*pids) : 0;
		memcpy(pids, array, *n * sizeof(*pids));
		printf(" %s=%" PRIu32, name, *n ? pids[0] : 0);
	} else if (r >= 0) {
		r = sd_bus_message_read(m, "s", &text);
		printf(" %s=%s;", name, text);
		if (r >= 0 && strcmp(name, "Slice") == 0)
			(void)snprintf(slice, size, "%s", text);
	}
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int start_unit(sd_bus_message *m)
{
	struct late *late = calloc(1, sizeof(*late));
	const char *unit, *job_mode;
	char slice[256] = "";
	int r = sd_bus_message_read(m, "ss", &unit, &job_mode);

	if (r >= 0)
		r = sd_bus_message_enter_container(m, 'a', "(sv)");
	printf("StartTransientUnit %s %s", unit, job_mode);
	while (r >= 0 && (r = sd_bus_message_enter_container(m, 'r', "sv")) > 0) {
		r = read_property(m, late->pids, &late->n, slice, sizeof(slice));
		if (r >= 0)
			r = sd_bus_message_exit_container(m);
	}
	printf("\n");
	if (r < 0 || n_units == MAX) {
		free(late);
		return r;
	}
	if (strcmp(mode, "silent") == 0 || strcmp(mode, "refuse") == 0) {
		free(late);
		return strcmp(mode, "silent") == 0
			       ? 0
			       : sd_bus_reply_method_errorf(
					 m, "org.freedesktop.systemd1.UnitExists", "no");
	}
	make_folder(slice, unit, late->folder, sizeof(late->folder));
	memcpy(units[n_units++], late->folder, sizeof(late->folder));
	if (strcmp(mode, "slow") == 0)
		r = sd_event_add_time_relative(event, NULL, CLOCK_MONOTONIC, SLOW_US, 1, on_late,
					       late);
	else
		(void)on_late(NULL, 0, late);
	return r < 0 ? r : sd_bus_reply_method_return(m, "o", "/org/freedesktop/systemd1/job/1");
}

static int attach(sd_bus_message *m)
{
	const char *unit, *below;
	const void *pids;
	size_t bytes;
	int r = sd_bus_message_read(m, "ss", &unit, &below);

	if (r >= 0)
		r = sd_bus_message_read_array(m, 'u', &pids, &bytes);
	if (r < 0)
		return r;
	printf("AttachProcessesToUnit %s %zu\n", unit, bytes / sizeof(uint32_t));
	for (unsigned i = 0; i < n_units; i++)
		if (strcmp(strrchr(units[i], '/') + 1, unit) == 0)
			move_all(units[i], pids, bytes / sizeof(uint32_t));
	return sd_bus_reply_method_return(m, NULL);
}

static int on_message(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *member = sd_bus_message_get_member(m);

	(void)userdata, (void)error;
	if (!member || sd_bus_message_is_method_call(m, NULL, NULL) <= 0)
		return 0;
	if (strcmp(member, "Hello") == 0)
		return sd_bus_reply_method_return(m, "s", ":1.7");
	if (strcmp(mode, "empty") == 0)
		return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_SERVICE_UNKNOWN,
						  "there is nobody of that name");
	if (strcmp(member, "StartTransientUnit") == 0)
		return start_unit(m) < 0 ? -EBADMSG : 1;
	if (strcmp(member, "AttachProcessesToUnit") == 0)
		return attach(m);
	return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_UNKNOWN_METHOD, "%s", member);
}

static int on_connection(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	sd_id128_t id;
	sd_bus *bus;
	int r;

	(void)source, (void)revents, (void)userdata;
	if (peer < 0)
		return -errno;
	r = sd_id128_randomize(&id);
	if (r >= 0)
		r = sd_bus_new(&bus);
	if (r >= 0)
		r = sd_bus_set_fd(bus, peer, peer);
	if (r >= 0)
		r = sd_bus_set_server(bus, 1, id);
	if (r >= 0)
		r = sd_bus_start(bus);
	if (r >= 0)
		r = sd_bus_add_filter(bus, NULL, on_message, NULL);
	return r < 0 ? r : sd_bus_attach_event(bus, event, 0);
}

/* a scope whose last process has ended is no more */
static int tidy(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)userdata;
	for (unsigned i = 0; i < n_units; i++)
		if (was_used[i] && rmdir(units[i]) == 0)
			printf("gone %s\n", strrchr(units[i], '/') + 1);
	return sd_event_source_set_time(source, usec + TIDY_US) < 0
		       ? -EIO
		       : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	sd_event_source *timer;
	int fd;

	if (argc < 3)
		return 2;
	top = argv[2];
	mode = argc > 3 ? argv[3] : "";
	setvbuf(stdout, NULL, _IOLBF, 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", argv[1]);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)unlink(argv[1]);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, 8) < 0 || sd_event_new(&event) < 0 ||
	    sd_event_add_io(event, NULL, fd, EPOLLIN, on_connection, NULL) < 0 ||
	    sd_event_add_time_relative(event, &timer, CLOCK_MONOTONIC, TIDY_US, 1, tidy, NULL) < 0)
		return 1;
	printf("ready\n");
	return sd_event_loop(event) < 0;
}
