// SPDX-License-Identifier: Apache-2.0
/*
 * allotd as a whole, with clients that say anything to it: messages of every type in every order
 * from keepers, their children and strangers, with descriptors and without, half of them never
 * reading, some hanging up; a sampler that lies about GPUs and processes; tenants that scribble in
 * their pages and ring their bells; an allotd that ends, and the next one.  After each step the
 * books hold (ledger_check); what is heard from allotd is well formed; at the end everything is
 * taken apart and nothing is left (AddressSanitizer).
 *
 * The actors are processes that share our descriptors, so that the kernel vouches for them: two
 * keepers, each with a child.  They only connect; we speak on their sockets.
 *
 * Input: steps, see step().
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/size.h"
#include "base/str.h"
#include "config/config.h"
#include "daemon/credit.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/jobs.h"
#include "daemon/peers.h"
#include "daemon/restart.h"
#include "daemon/sampler.h"
#include "daemon/scope.h"
#include "daemon/server.h"
#include "daemon/store.h"
#include "fuzz.h"
#include "fuzz_text.h"
#include "gpu/proc.h"
#include "policy/ledger.h"

#define ACTORS       4 /* keeper, its child, keeper, its child */
#define CONNS        3 /* of each */
#define STEPS_MAX    64
#define RESTARTS_MAX 3
#define ROUNDS       8 /* of the loop after a step */
#define CARD         (24 * GIB)

struct actor {
	pid_t pid;
	int order[2], done[2];
	int conn[CONNS];
	int page_fd, bell;
	struct credit_page *page;
};

static struct actor actors[ACTORS];
static struct daemon d;
static struct config config;
static struct sockaddr_un address;
static socklen_t address_len;
static char dir[64];
static const uint8_t *bytes;
static size_t left;
static bool is_asked; /* the sampler */
static unsigned n_restarts;

static unsigned take(void)
{
	if (!left)
		return 0;
	left--;
	return *bytes++;
}

static uint64_t take_u64(void)
{
	unsigned kind = take();
	uint64_t v = 0;

	if (kind < 64)
		return (uint64_t)1 << kind;
	if (kind < 128)
		return kind - 64;
	if (kind < 192)
		return (uint64_t)(kind - 127) * 256 * MIB;
	for (unsigned i = 0; i < 8; i++)
		v = v << 8 | take();
	return v;
}

/* ---- the sampler, in place of allotd's side of it ---- */

struct sampler {
	int unused;
};
static struct sampler the_sampler;

int sampler_new(sd_event *event, const char *driver_dir, const struct sampler_ops *ops,
		void *context, struct sampler **ret, struct err *err)
{
	(void)event, (void)driver_dir, (void)ops, (void)context, (void)err;
	*ret = &the_sampler;
	return 0;
}

struct sampler *sampler_free(struct sampler *s)
{
	(void)s;
	return NULL;
}

bool sampler_is_free(const struct sampler *s)
{
	(void)s;
	return !is_asked;
}

uint64_t sampler_free_at_ns(const struct sampler *s)
{
	(void)s;
	return 0;
}

int sampler_ask(struct sampler *s, uint64_t gpus)
{
	(void)s, (void)gpus;
	is_asked = true;
	return 0;
}

bool sampler_is_opening(const struct sampler *s)
{
	(void)s;
	return false;
}

const char *sampler_trouble(const struct sampler *s)
{
	(void)s;
	return "";
}

/* ---- cgroups: there are none ---- */

struct scopes {
	int unused;
};

int scopes_new(struct daemon *it, struct scopes **ret)
{
	(void)it;
	*ret = NULL;
	return 0;
}

struct scopes *scopes_free(struct scopes *s)
{
	return s;
}

void scopes_restore(struct daemon *it)
{
	(void)it;
}

bool scopes_text(const struct scopes *s, char *buf, size_t size)
{
	(void)s, (void)size;
	buf[0] = '\0';
	return false;
}

void scope_begin(struct job *job)
{
	(void)job;
}

void scope_over(struct job *job)
{
	(void)job;
}

bool scope_signal(struct job *job, int signal)
{
	(void)job, (void)signal;
	return false;
}

const char *scope_path(const struct job *job)
{
	(void)job;
	return "";
}

struct job *scope_whose(struct daemon *it, pid_t pid)
{
	(void)it, (void)pid;
	return NULL;
}

static void fill_gpu(struct sampler_gpu *gpu, uint32_t index)
{
	*gpu = (struct sampler_gpu){ .kind = SAMPLER_GPU,
				     .known = SAMPLER_MEMORY | SAMPLER_PROCESSES,
				     .index = index,
				     .total_bytes = CARD };
	memset(gpu->uuid.bytes, (int)index + 1, sizeof(gpu->uuid.bytes));
	(void)str_copy(gpu->driver_version, sizeof(gpu->driver_version), "1.0");
	(void)str_print(gpu->pci_bus_id, sizeof(gpu->pci_bus_id), "0000:%02x:00.0", index + 1);
}

/* an answer: about these processes and others, with any figures that sampler.c lets through */
static void sample(void)
{
	struct sampler_done done = { .kind = SAMPLER_DONE, .is_ok = 1, .n_gpus = 2 };
	struct sampler_proc procs[8];
	struct sampler_gpu gpu;
	unsigned how = take(), n;

	if (!is_asked)
		gpus_begin(d.gpus, SAMPLER_ALL, clock_now_ns());
	fill_gpu(&gpu, how & 1);
	if (how & 2)
		gpu.known = take();
	if (how & 4) {
		gpu.total_bytes = 1 + take_u64() % ((uint64_t)1 << 50);
		gpu.reserved_bytes = take_u64() % gpu.total_bytes;
	}
	gpu.used_bytes = (how & 8 ? take_u64() : CARD / 2) % (gpu.total_bytes + 1);
	if (how & 16)
		gpu.uuid.bytes[0] = (uint8_t)take();
	n = how >> 5;
	for (unsigned i = 0; i < n; i++) {
		unsigned who = take();

		procs[i] = (struct sampler_proc){ .pid = who < 128   ? actors[who % ACTORS].pid
							 : who < 192 ? (int32_t)who
								     : (int32_t)take_u64(),
						  .bytes = take_u64() % (gpu.total_bytes + 1) };
		memset((char *)&procs[i] + 4, (int)(who & 1), 1); /* is_known */
	}
	gpu.n_processes = n;
	is_asked = false;
	gpus_on_gpu(d.gpus, &gpu, procs, n);
	gpus_on_done(d.gpus, how & 64 ? &done : NULL);
}

/* ---- actors ---- */

static void serve(struct actor *a)
{
	int fd;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(a->order[0], &fd, sizeof(fd)) == sizeof(fd)) {
		int r = connect(fd, (const struct sockaddr *)&address, address_len);

		if (write(a->done[1], &r, sizeof(r)) != sizeof(r))
			break;
	}
	_exit(0);
}

static pid_t share_and_fork(void)
{
	return (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
}

static void begin_actors(void)
{
	int pids[2];

	for (unsigned i = 0; i < ACTORS; i++)
		if (pipe2(actors[i].order, O_CLOEXEC) < 0 || pipe2(actors[i].done, O_CLOEXEC) < 0)
			abort();
	if (pipe2(pids, O_CLOEXEC) < 0)
		abort();
	for (unsigned i = 0; i < ACTORS; i += 2) {
		pid_t child;

		actors[i].pid = share_and_fork();
		if (actors[i].pid == 0) {
			child = share_and_fork();
			if (child == 0)
				serve(&actors[i + 1]);
			if (write(pids[1], &child, sizeof(child)) != sizeof(child))
				_exit(1);
			serve(&actors[i]);
		}
		if (actors[i].pid < 0 || read(pids[0], &child, sizeof(child)) != sizeof(child))
			abort();
		actors[i + 1].pid = child;
	}
}

static void hang_up(struct actor *a, unsigned at)
{
	if (a->conn[at] >= 0)
		close(a->conn[at]);
	a->conn[at] = -1;
}

static int connection(struct actor *a, unsigned at)
{
	int r = -1, fd;
	ssize_t n;

	if (a->conn[at] >= 0)
		return a->conn[at];
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || write(a->order[1], &fd, sizeof(fd)) != sizeof(fd))
		abort();
	do /* libFuzzer's alarm */
		n = read(a->done[0], &r, sizeof(r));
	while (n < 0 && errno == EINTR);
	if (n != sizeof(r) || r < 0)
		abort();
	a->conn[at] = fd;
	return fd;
}

static void drop_page(struct actor *a)
{
	if (a->page)
		credit_page_unmap(a->page);
	if (a->page_fd >= 0)
		close(a->page_fd);
	if (a->bell >= 0)
		close(a->bell);
	a->page = NULL;
	a->page_fd = a->bell = -1;
}

static void take_fd(struct actor *a, int fd)
{
	struct credit_page *page;

	if (credit_page_adopt(fd, &page, NULL) == 0) {
		int bell = TAKE_FD(a->bell);

		drop_page(a);
		a->bell = bell;
		a->page = page;
		a->page_fd = fd;
		return;
	}
	if (a->bell >= 0)
		close(a->bell);
	a->bell = fd;
}

/* all that has come; allotd says nothing that is no message */
static void hear(struct actor *a, unsigned at)
{
	_Alignas(8) unsigned char buf[WIRE_MAX_MESSAGE];
	union {
		char buf[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control;

	while (a->conn[at] >= 0) {
		struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
		struct msghdr m = { .msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = control.buf,
				    .msg_controllen = sizeof(control.buf) };
		struct wire_message msg;
		ssize_t n = recvmsg(a->conn[at], &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			hang_up(a, at);
			return;
		}
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
			for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
				int fd;

				memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
				take_fd(a, fd);
			}
		if (wire_decode(buf, (size_t)n, &msg, NULL) < 0)
			abort();
	}
}

/* ---- one allotd ---- */

static const struct job_spec *none(void *context)
{
	(void)context;
	return NULL;
}

static int listener(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, address_len) < 0 ||
	    listen(fd, 64) < 0)
		abort();
	return fd;
}

/* @is_back: with the jobs of before, whose keepers are awaited */
static void begin_daemon(bool is_back)
{
	struct sampler_done done = { .kind = SAMPLER_DONE, .is_ok = 1, .n_gpus = 2 };
	struct store *store = d.store;
	struct sampler_gpu gpu;

	d = (struct daemon){ .is_simulated = true,
			     .proc_root = PROC_ROOT,
			     .ready_fd = -1,
			     .config = &config,
			     .config_next = &config };
	d.store = store;
	if (!d.store && (store_open(dir, "fuzz", &d.store, NULL) < 0))
		abort();
	registry_init(&d.registry);
	is_asked = false;
	if (sd_event_new(&d.event) < 0 || server_begin_parts(&d) < 0 ||
	    sampler_new(d.event, "", NULL, NULL, &d.sampler, NULL) < 0 ||
	    server_listen(&d, listener(), (uid_t)-1) < 0 || peers_accept(d.peers) < 0)
		abort();
	if (!is_back)
		d.restart = restart_free(d.restart); /* nobody comes back */
	for (uint32_t i = 0; i < 2; i++) {
		fill_gpu(&gpu, i);
		gpus_on_gpu(d.gpus, &gpu, NULL, 0);
	}
	gpus_on_done(d.gpus, &done);
}

static void end_daemon(void)
{
	server_end_parts(&d);
	d.event = sd_event_unref(d.event);
}

static void forget_jobs(void)
{
	if (store_rewrite(d.store, none, NULL) < 0)
		abort();
}

static void clean_up(void)
{
	static const char *const files[] = { "allot.db", "allot.db-wal", "allot.db-shm" };
	char path[96];

	store_close(d.store);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (str_print(path, sizeof(path), "%s/%s", dir, files[i]))
			(void)unlink(path);
	(void)rmdir(dir);
}

static void begin(void)
{
	(void)setenv("ALLOT_LOG", "error", 0);
	log_setup("fuzz", LOG_LEVEL_ERROR);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)str_copy(dir, sizeof(dir),
		       access("/dev/shm", W_OK) ? "/tmp/allot-fuzz-daemon.XXXXXX"
						: "/dev/shm/allot-fuzz-daemon.XXXXXX");
	if (!mkdtemp(dir))
		abort();
	address.sun_family = AF_UNIX;
	(void)str_print(address.sun_path + 1, sizeof(address.sun_path) - 1, "allot-fuzz-%d",
			getpid());
	address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				  strlen(address.sun_path + 1));
	config_defaults(&config);
	begin_actors();
	for (unsigned i = 0; i < ACTORS; i++) {
		actors[i].page_fd = actors[i].bell = -1;
		for (unsigned at = 0; at < CONNS; at++)
			actors[i].conn[at] = -1;
	}
	(void)atexit(clean_up);
}

/* ---- steps ---- */

static const uint8_t types[] = {
#define WIRE_MSG(upper, lower, number, text) number,
#include "wire/messages.def"
};

static int fd_of(struct actor *a, unsigned kind)
{
	switch (kind % 8) {
	case 0:
		return a->page_fd;
	case 1:
		return actors[(a - actors + 1) % ACTORS].page_fd;
	case 2:
		return a->conn[0];
	case 3:
		return a->bell;
	default:
		return -1;
	}
}

static void send_message(struct actor *a, unsigned at, unsigned type, unsigned fd_kind)
{
	_Alignas(8) unsigned char packet[WIRE_MAX_MESSAGE] = { 0 };
	unsigned char payload[WIRE_MAX_MESSAGE] = { 0 };
	size_t room = (size_t)wire_size(type), n = take();
	struct iovec iov = { .iov_base = packet };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	int conn = connection(a, at), fd = fd_of(a, fd_kind), len;

	n = n < left ? n : left;
	memcpy(payload, bytes, n < room ? n : room);
	bytes += n;
	left -= n;
	/* a number of the input's usual ones in front, where most messages have the job's or slot
	 */
	len = wire_encode(packet, sizeof(packet), type, 1, payload);
	if (len < 0)
		abort();
	iov.iov_len = (size_t)len;
	if (fd >= 0) {
		m.msg_control = control.buf;
		m.msg_controllen = sizeof(control.buf);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	}
	(void)sendmsg(conn, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* what programs and keepers really say, so that the interesting states are reached */
static void say_usual(struct actor *a, unsigned at, unsigned what)
{
	struct wire_run run = { .request.bytes = (uint64_t)(take() % 32) * GIB,
				.limit.bytes = 0,
				.job_class = take() % 3,
				.n_gpus = 1 + take() % 2,
				.when_full_wait = 1,
				.when_full_ns = NS_PER_S,
				.admit_wait_ns = take() % 2 ? UINT64_MAX : 0,
				.name = "fuzz" };
	struct wire_attach attach = { .role = WIRE_ROLE_CUDA, .stream = (uint32_t)at };
	struct wire_need need = { .slot = take() % 2,
				  .kind = 1 + what % 2,
				  .bytes = take_u64() % (CARD + GIB),
				  .flags = take() % 2 };
	struct wire_context_done ctx = { .slot = need.slot, .ok = take() % 2 };
	struct wire_resume resume = { .job_id = 1 + take() % 4, .n_pages = 2 };
	struct wire_show show = { .job_id = resume.job_id }; /* the same bytes as WHY and WAIT */
	struct {
		unsigned type;
		const void *payload;
	} usual[] = {
		{ WIRE_RUN, &run },   { WIRE_ATTACH, &attach },    { WIRE_NEED, &need },
		{ WIRE_NEED, &need }, { WIRE_CONTEXT_DONE, &ctx }, { WIRE_RESUME, &resume },
		{ WIRE_SHOW, &show }, { WIRE_WHY, &show },         { WIRE_WAIT, &show },
	};
	_Alignas(8) unsigned char packet[WIRE_MAX_MESSAGE];
	int len = wire_encode(packet, sizeof(packet), usual[what % ARRAY_SIZE(usual)].type, 2,
			      usual[what % ARRAY_SIZE(usual)].payload);

	(void)send(connection(a, at), packet, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void scribble(struct actor *a)
{
	unsigned slot = take() % WIRE_MAX_GPUS;
	uint64_t one = 1;

	if (a->page) {
		atomic_store(&a->page->slot[slot].credit_bytes, take_u64());
		atomic_store(&a->page->slot[slot].granted_bytes, take_u64());
		atomic_store(&a->page->slot[slot].wanted, take());
		atomic_store(&a->page->slot[slot].moving_bytes, take_u64());
		atomic_store(&a->page->slot[slot].managed_bytes, take_u64());
		atomic_store(&a->page->slot[slot].elastic_bytes, take_u64());
	}
	if (a->bell >= 0)
		(void)!write(a->bell, &one, sizeof(one)); /* a full one rings as well */
}

static void run_loop(void)
{
	const char *wrong;

	for (unsigned i = 0; i < ROUNDS && sd_event_run(d.event, 0) > 0; i++)
		;
	wrong = ledger_check(d.ledger);
	if (wrong) {
		log_error("%s", wrong);
		abort();
	}
}

static void step(void)
{
	unsigned op = take(), who = take();
	struct actor *a = &actors[who % ACTORS];
	unsigned at = who / ACTORS % CONNS;

	switch (op % 8) {
	case 0:
	case 1:
		send_message(a, at, types[op / 8 % ARRAY_SIZE(types)], who / 16);
		break;
	case 2:
	case 3:
	case 4:
		say_usual(a, at, op / 8);
		break;
	case 5:
		sample();
		break;
	case 6:
		scribble(a);
		break;
	default:
		if ((op & 24) == 24 && n_restarts++ < RESTARTS_MAX) {
			end_daemon();
			begin_daemon(true);
		} else if (op & 8)
			hang_up(a, at);
		else
			hear(a, at);
	}
	run_loop();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!*dir)
		begin();
	bytes = data;
	left = size;
	n_restarts = 0;
	begin_daemon(false);
	run_loop();
	for (unsigned i = 0; i < STEPS_MAX && left; i++)
		step();
	for (unsigned i = 0; i < ACTORS; i++) {
		for (unsigned at = 0; at < CONNS; at++) {
			hear(&actors[i], at);
			hang_up(&actors[i], at);
		}
		drop_page(&actors[i]);
	}
	run_loop();
	end_daemon();
	forget_jobs();
	return 0;
}
