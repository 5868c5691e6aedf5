// SPDX-License-Identifier: Apache-2.0
#include "daemon/claim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/parse.h"
#include "base/paths.h"
#include "base/str.h"
#include "gpu/proc.h"
#include "policy/ledger.h"

#define CLAIM_BACKLOG  4096 /* who asks for our name is not accepted, only looked at */
#define CLAIM_FDS_MAX  4096 /* descriptors of one process that are looked at */
#define CLAIM_LINE_MAX 512
#define CLAIM_TRIES    8

_Static_assert(CLAIMS_MAX >= LEDGER_MAX_GPUS, "all that the ledger can have");

/* who holds something, as far as it is known */
struct holder {
	pid_t pid; /* 0: unknown */
	uid_t uid;
	bool has_uid;
};

void claims_init(struct claims *c, const char *folder, const char *proc_root, uid_t uid)
{
	*c = (struct claims){ .folder = folder, .proc_root = proc_root, .uid = uid };
}

/* by the holder alone, before it lets go; what is left is no harm */
static void remove_files(const struct claims *c, const uint8_t uuid[16])
{
	static const char *const kinds[] = { "holder", "lock" };
	struct fmt_buf gpu;

	(void)fmt_uuid(&gpu, "GPU-", uuid);
	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		char path[PATHS_MAX];

		if (str_print(path, sizeof(path), "%s/%s.%s", c->folder, gpu.s, kinds[i]))
			(void)unlink(path);
	}
}

void claims_fini(struct claims *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		if (c->all[i].lock >= 0) {
			remove_files(c, c->all[i].uuid);
			close(c->all[i].lock);
		}
		if (c->all[i].name >= 0)
			close(c->all[i].name);
	}
	c->n = 0;
}

static const char *holder_text(const struct holder *h, char *buf, size_t size)
{
	if (h->pid && h->has_uid)
		(void)str_print(buf, size, "uid %u (pid %d)", h->uid, h->pid);
	else if (h->has_uid)
		(void)str_print(buf, size, "uid %u", h->uid);
	else
		(void)str_copy(buf, size, "somebody who cannot be told");
	return buf;
}

/* ---- root's lock ---- */

/* nobody but root may have a hand in the folder; else what stands in it means nothing */
static int check_folder(const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH)) ? 0 : -EPERM;
}

/* "PID START" of root's allotd, when it still lives */
static bool read_holder(const struct claims *c, const char *gpu, struct holder *ret)
{
	char path[PATHS_MAX], text[64];
	unsigned long long start;
	uid_t uid;
	int pid;

	if (check_folder(c->folder) < 0 ||
	    !str_print(path, sizeof(path), "%s/%s.holder", c->folder, gpu) ||
	    fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0 ||
	    sscanf(text, "%d %llu", &pid, &start) != 2 || pid <= 0 ||
	    !proc_is_same(c->proc_root, pid, start) || proc_uid(c->proc_root, pid, &uid) < 0)
		return false;
	*ret = (struct holder){ .pid = pid, .uid = uid, .has_uid = true };
	return uid == 0;
}

static int write_holder(const struct claims *c, const char *gpu)
{
	char path[PATHS_MAX], text[64];
	struct proc_info me;
	int r = proc_read(c->proc_root, getpid(), &me);

	if (r < 0)
		return r;
	if (!str_print(path, sizeof(path), "%s/%s.holder", c->folder, gpu))
		return -ENAMETOOLONG;
	(void)str_print(text, sizeof(text), "%d %" PRIu64 "\n", getpid(), me.start_ticks);
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0)
		return -errno;
	r = fchmod(fd, 0644) < 0 ? -errno : 0; /* whatever the umask is */
	return r < 0 ? r : fd_write_all(fd, text, strlen(text));
}

/* locked, and still the file of that name: whoever ends takes it away; -EWOULDBLOCK, -errno */
static int open_locked(const char *path)
{
	struct stat ours, there;

	for (int i = 0; i < CLAIM_TRIES; i++) {
		AUTO_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &ours) < 0)
			return -errno;
		if (lstat(path, &there) == 0 && there.st_ino == ours.st_ino &&
		    there.st_dev == ours.st_dev)
			return TAKE_FD(fd);
	}
	return -EAGAIN;
}

/* the descriptor, or -errno */
static int take_lock(struct claims *c, const char *gpu, struct err *err)
{
	struct holder holder = { 0 };
	char path[PATHS_MAX], who[64];
	int r = fd_mkdir_parents(c->folder, 0755);

	if (r == 0)
		r = check_folder(c->folder);
	if (r < 0)
		return err_set(err, r, "folder '%s' is not root's alone: %s", c->folder,
			       strerror(-r));
	if (!str_print(path, sizeof(path), "%s/%s.lock", c->folder, gpu))
		return err_set(err, -ENAMETOOLONG, "path '%s' is too long", c->folder);
	AUTO_FD int fd = open_locked(path);

	if (fd < 0) {
		if (fd != -EWOULDBLOCK)
			return err_set(err, fd, "cannot lock '%s': %s", path, strerror(-fd));
		(void)read_holder(c, gpu, &holder); /* only to say who it is */
		return err_set(err, -EBUSY, "root's allotd of %s already shares out %s",
			       holder_text(&holder, who, sizeof(who)), gpu);
	}
	r = write_holder(c, gpu);
	return r < 0 ? err_set(err, r, "cannot say in '%s' who we are: %s", c->folder, strerror(-r))
		     : TAKE_FD(fd);
}

/* ---- the name ---- */

static socklen_t make_name(const char *gpu, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)str_print(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "allotd-%s", gpu);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(ret->sun_path + 1));
}

/* the inode of the socket bound to the abstract @name, by /proc/net/unix; 0: not there */
static uint64_t inode_of(const struct claims *c, const char *name)
{
	char path[PATHS_MAX], line[CLAIM_LINE_MAX];
	uint64_t found = 0;
	FILE *f;

	(void)str_print(path, sizeof(path), "%s/net/unix", c->proc_root);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f)) {
		unsigned long long inode;
		const char *at = strchr(line, '@');
		size_t len = strlen(name);

		if (at && strncmp(at + 1, name, len) == 0 && at[1 + len] == '\n' &&
		    sscanf(line, "%*s %*s %*s %*s %*s %*s %llu", &inode) == 1)
			found = inode;
	}
	if (f)
		fclose(f);
	return found;
}

static bool has_socket(const struct claims *c, pid_t pid, const char *link)
{
	char path[PATHS_MAX], target[64];
	const struct dirent *e;
	bool is_found = false;
	DIR *dir;

	(void)str_print(path, sizeof(path), "%s/%d/fd", c->proc_root, pid);
	dir = opendir(path);
	for (int i = 0; dir && !is_found && i < CLAIM_FDS_MAX && (e = readdir(dir)); i++) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
		is_found = strcmp(target, link) == 0;
	}
	if (dir)
		closedir(dir);
	return is_found;
}

/* one that bound the name and does not listen: whose descriptor is it?  Root sees all of them */
static void find_silent(const struct claims *c, const char *name, struct holder *ret)
{
	uint64_t inode = inode_of(c, name), pid;
	DIR *proc = inode ? opendir(c->proc_root) : NULL;
	const struct dirent *e;
	char link[64];

	(void)str_print(link, sizeof(link), "socket:[%" PRIu64 "]", inode);
	while (proc && !ret->pid && (e = readdir(proc)))
		if (parse_u64(e->d_name, 1, INT32_MAX, &pid, NULL) == 0 &&
		    has_socket(c, (pid_t)pid, link)) {
			ret->pid = (pid_t)pid;
			ret->has_uid = proc_uid(c->proc_root, (pid_t)pid, &ret->uid) == 0;
		}
	if (proc)
		closedir(proc);
}

static void find_holder(const struct claims *c, const struct sockaddr_un *name, socklen_t len,
			struct holder *ret)
{
	AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred cred;
	socklen_t size = sizeof(cred);

	*ret = (struct holder){ 0 };
	if (fd >= 0 && connect(fd, (const struct sockaddr *)name, len) == 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0)
		*ret = (struct holder){ .pid = cred.pid, .uid = cred.uid, .has_uid = true };
	else
		find_silent(c, name->sun_path + 1, ret);
}

static int name_is_taken(struct claims *c, const char *gpu, const struct sockaddr_un *name,
			 socklen_t len, bool has_lock, struct err *err)
{
	struct holder holder;
	char who[64];

	find_holder(c, name, len, &holder);
	(void)holder_text(&holder, who, sizeof(who));
	if (c->uid == 0 && has_lock && !(holder.has_uid && holder.uid == 0)) {
		(void)str_print(c->note, sizeof(c->note),
				"%s sits on the name of %s: what runs under an allotd of theirs "
				"counts as unmanaged; end it",
				who, gpu);
		return 0;
	}
	return err_set(err, -EBUSY,
		       "the allotd of %s already shares out %s: use its socket, or run allotd as "
		       "a system service for everybody",
		       who, gpu);
}

/* 0; *ret is the descriptor, or stays -1 where a squatter has it */
static int take_name(struct claims *c, const char *gpu, bool has_lock, int *ret, struct err *err)
{
	AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un name;
	socklen_t len = make_name(gpu, &name);

	if (fd < 0)
		return err_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	if (bind(fd, (const struct sockaddr *)&name, len) < 0) {
		if (errno == EADDRINUSE)
			return name_is_taken(c, gpu, &name, len, has_lock, err);
		return err_set(err, -errno, "cannot claim %s: %s", gpu, strerror(errno));
	}
	if (listen(fd, CLAIM_BACKLOG) < 0)
		return err_set(err, -errno, "cannot claim %s: %s", gpu, strerror(errno));
	*ret = TAKE_FD(fd);
	return 0;
}

int claims_gpu(struct claims *c, const uint8_t uuid[16], struct err *err)
{
	struct claimed claimed = { .lock = -1, .name = -1 };
	struct fmt_buf gpu;
	struct holder holder;
	char who[64];
	int r;

	(void)fmt_uuid(&gpu, "GPU-", uuid);
	for (unsigned i = 0; i < c->n; i++)
		if (memcmp(c->all[i].uuid, uuid, sizeof(c->all[i].uuid)) == 0)
			return 0;
	if (c->n == CLAIMS_MAX)
		return err_set(err, -ENOSPC, "cannot claim %s: there are too many GPUs", gpu.s);
	if (c->uid == 0) {
		claimed.lock = take_lock(c, gpu.s, err);
		if (claimed.lock == -EBUSY)
			return -EBUSY;
		/* a root without rights over /run, as in a container: the name must do */
		if (claimed.lock < 0)
			(void)str_print(c->note, sizeof(c->note), "%s", err ? err->text : "");
	} else if (read_holder(c, gpu.s, &holder)) {
		return err_set(err, -EBUSY,
			       "the system's allotd, %s, already shares out %s: use its socket",
			       holder_text(&holder, who, sizeof(who)), gpu.s);
	}
	r = take_name(c, gpu.s, claimed.lock >= 0, &claimed.name, err);
	if (r < 0) {
		if (claimed.lock >= 0)
			close(claimed.lock);
		return r;
	}
	memcpy(claimed.uuid, uuid, sizeof(claimed.uuid));
	c->all[c->n++] = claimed;
	return 0;
}
