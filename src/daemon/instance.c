// SPDX-License-Identifier: Apache-2.0
#include "daemon/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "gpu/proc.h"

#define INSTANCE_BACKLOG 1024

#define LEFT_NS \
	(NS_PER_S / 2) /* a child of an allotd that was killed holds on until it has exec'd */
#define LEFT_LOOK_US 5000

/* who the file names, in @text */
static void read_holder(int fd, char *text, size_t size)
{
	ssize_t n = pread(fd, text, size - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
}

/*
 * Lock @fd.  While the holder that the file names is no process any more, what it left behind is
 * waited for: a helper inherits the lock between vfork and exec.
 */
static int lock_now(int fd, char *holder, size_t size)
{
	uint64_t end = clock_now_ns() + LEFT_NS;
	uint64_t pid;

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return -errno;
		read_holder(fd, holder, size);
		if (parse_u64(holder, 1, INT_MAX, &pid, NULL) < 0 || kill((pid_t)pid, 0) == 0 ||
		    errno != ESRCH || clock_now_ns() >= end)
			return -EBUSY;
		usleep(LEFT_LOOK_US);
	}
	return 0;
}

/* a locked file that names its holder; the descriptor, or -EBUSY with the holder's number */
static int lock_file(const char *path, const char *what, struct err *err)
{
	AUTO_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	char text[24] = "";
	int r;

	if (fd < 0)
		return err_set(err, -errno, "cannot open '%s': %s", path, strerror(errno));
	r = lock_now(fd, text, sizeof(text));
	if (r == -EBUSY)
		return err_set(
			err, r,
			"another allotd (pid %s) already uses the %s: lock '%s'; end it first "
			"(kill: its jobs go on), or name other paths",
			text[0] ? text : "unknown", what, path);
	if (r < 0)
		return err_set(err, r, "cannot lock '%s': %s", path, strerror(-r));
	(void)str_print(text, sizeof(text), "%d\n", getpid());
	/* the number is for people: the lock holds without it */
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, strlen(text), 0) < 0)
		return err_set(err, -errno, "cannot write '%s': %s", path, strerror(errno));
	return TAKE_FD(fd);
}

static int absolute(const char *path, char *buf, size_t size, struct err *err)
{
	char cwd[PATHS_MAX];

	if (path[0] == '/')
		return str_copy(buf, size, path)
			       ? 0
			       : err_set(err, -ENAMETOOLONG, "path '%s' is too long", path);
	if (!getcwd(cwd, sizeof(cwd)))
		return err_set(err, -errno, "cannot tell the working folder: %s", strerror(errno));
	return str_print(buf, size, "%s/%s", cwd, path)
		       ? 0
		       : err_set(err, -ENAMETOOLONG, "path '%s/%s' is too long", cwd, path);
}

static int decide_paths(struct instance *in, const char *socket_path, const char *state,
			struct err *err)
{
	char own_socket[PATHS_MAX], own_state[PATHS_MAX];
	char *slash;
	int r;

	if (in->is_system) {
		(void)str_copy(own_socket, sizeof(own_socket), PATHS_SYSTEM_SOCKET);
		(void)str_copy(own_state, sizeof(own_state), PATHS_SYSTEM_STATE);
	} else if (paths_user_socket(own_socket, sizeof(own_socket)) < 0 ||
		   paths_user_state(own_state, sizeof(own_state)) < 0) {
		return err_set(err, -ENAMETOOLONG, "the XDG folders have too long names");
	}
	r = absolute(socket_path ? socket_path : own_socket, in->socket, sizeof(in->socket), err);
	if (r == 0)
		r = absolute(state ? state : own_state, in->state_dir, sizeof(in->state_dir), err);
	if (r < 0)
		return r;
	(void)str_copy(in->runtime_dir, sizeof(in->runtime_dir), in->socket);
	slash = strrchr(in->runtime_dir, '/');
	if (slash == in->runtime_dir)
		slash++;
	*slash = '\0';
	return 0;
}

/* the service's own folder is open to all, so that they reach the socket; a user's is private */
static int make_folder(const char *path, mode_t mode, bool must_be_ours, struct err *err)
{
	char parent[PATHS_MAX];
	char *slash;
	int r;

	(void)str_copy(parent, sizeof(parent), path);
	slash = strrchr(parent, '/');
	if (slash && slash != parent) {
		*slash = '\0';
		r = fd_mkdir_parents(parent, 0755);
		if (r < 0)
			return err_set(err, r, "cannot make folder '%s': %s", parent, strerror(-r));
	}
	if (must_be_ours)
		return fd_mkdir_private(path, err);
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return err_set(err, -errno, "cannot make folder '%s': %s", path, strerror(errno));
	return 0;
}

int instance_init(struct instance *in, const char *socket_path, const char *state, bool is_user,
		  struct err *err)
{
	char path[PATHS_MAX + 8];
	int r;

	*in = (struct instance){ .state_lock = -1, .socket_lock = -1, .sim_lock = -1 };
	in->is_system = !is_user && geteuid() == 0;
	claims_init(&in->claims, CLAIM_FOLDER, PROC_ROOT, geteuid());
	r = decide_paths(in, socket_path, state, err);
	/* a folder that the caller named may be shared, /tmp for instance; a user's own may not */
	if (r == 0)
		r = make_folder(in->runtime_dir, 0755, is_user || (!in->is_system && !socket_path),
				err);
	if (r == 0)
		r = make_folder(in->state_dir, 0700, true, err);
	if (r < 0)
		return r;
	if (!str_print(path, sizeof(path), "%s/lock", in->state_dir))
		return err_set(err, -ENAMETOOLONG, "path '%s' is too long", in->state_dir);
	in->state_lock = lock_file(path, "state folder", err);
	if (in->state_lock < 0)
		return in->state_lock;
	if (!str_print(path, sizeof(path), "%s.lock", in->socket))
		return err_set(err, -ENAMETOOLONG, "path '%s' is too long", in->socket);
	in->socket_lock = lock_file(path, "socket", err);
	return in->socket_lock < 0 ? in->socket_lock : 0;
}

/* the lock tells about allotd; this tells about anybody else who listens there */
static int remove_dead_socket(const struct sockaddr_un *address, struct err *err)
{
	AUTO_FD int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (probe < 0)
		return err_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	if (lstat(address->sun_path, &st) < 0)
		return errno == ENOENT ? 0
				       : err_set(err, -errno, "cannot look at '%s': %s",
						 address->sun_path, strerror(errno));
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, -EEXIST, "'%s' exists and is no socket: move it away",
			       address->sun_path);
	if (connect(probe, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
	    errno == EAGAIN || errno == EPROTOTYPE)
		return err_set(err, -EADDRINUSE, "somebody already answers on '%s'",
			       address->sun_path);
	if (errno != ECONNREFUSED)
		return err_set(err, -errno, "cannot tell whether '%s' is alive: %s",
			       address->sun_path, strerror(errno));
	if (unlink(address->sun_path) < 0)
		return err_set(err, -errno, "cannot remove the dead socket '%s': %s",
			       address->sun_path, strerror(errno));
	return 0;
}

/* with its mode and group from the first moment: whoever is let in is never turned away */
static int bind_for(const struct instance *in, int fd, const struct sockaddr_un *address,
		    mode_t mode, gid_t gid)
{
	gid_t own = getegid();
	mode_t old;
	int r;

	if (in->is_system && gid != (gid_t)-1 && setegid(gid) < 0)
		return -errno;
	old = umask(in->is_system ? ~mode & 0777 : 0177);
	r = bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno : 0;
	umask(old);
	if (getegid() != own && setegid(own) < 0 && r == 0)
		r = -errno;
	return r;
}

int instance_listen(struct instance *in, mode_t mode, gid_t gid, struct err *err)
{
	AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int r;

	if (fd < 0)
		return err_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	if (!str_copy(address.sun_path, sizeof(address.sun_path), in->socket))
		return err_set(err, -ENAMETOOLONG, "socket path '%s' is too long", in->socket);
	r = remove_dead_socket(&address, err);
	if (r < 0)
		return r;
	r = bind_for(in, fd, &address, mode, gid);
	if (r < 0)
		return err_set(err, r, "cannot bind '%s': %s", in->socket, strerror(-r));
	in->is_bound = true;
	if (listen(fd, INSTANCE_BACKLOG) < 0)
		return err_set(err, -errno, "cannot listen on '%s': %s", in->socket,
			       strerror(errno));
	return TAKE_FD(fd);
}

int instance_claim_sim(struct instance *in, const char *dir, struct err *err)
{
	char path[PATHS_MAX + 16];

	if (!str_print(path, sizeof(path), "%s/allotd.lock", dir))
		return err_set(err, -ENAMETOOLONG, "path '%s' is too long", dir);
	in->sim_lock = lock_file(path, "simulated GPUs of this folder", err);
	return in->sim_lock < 0 ? in->sim_lock : 0;
}

int instance_allow(struct instance *in, mode_t mode, gid_t gid, struct err *err)
{
	if (!in->is_system)
		return 0;
	/* the group first: the mode may be meant for it */
	if ((gid != (gid_t)-1 && chown(in->socket, (uid_t)-1, gid) < 0) ||
	    chmod(in->socket, mode) < 0)
		return err_set(err, -errno, "cannot set who may open '%s': %s", in->socket,
			       strerror(errno));
	return 0;
}

void instance_fini(struct instance *in)
{
	if (in->is_bound)
		(void)unlink(in->socket); /* a leftover is found dead by the next one */
	claims_fini(&in->claims);
	if (in->sim_lock >= 0)
		close(in->sim_lock);
	if (in->socket_lock >= 0)
		close(in->socket_lock);
	if (in->state_lock >= 0)
		close(in->state_lock);
	in->state_lock = in->socket_lock = in->sim_lock = -1;
	in->is_bound = false;
}
