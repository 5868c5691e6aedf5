// SPDX-License-Identifier: Apache-2.0
#include "daemon/unmanaged.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/log.h"
#include "base/size.h"
#include "base/str.h"
#include "config/config.h"
#include "daemon/commands.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/sampler_wire.h"
#include "gpu/proc.h"
#include "gpu/proc_kind.h"
#include "policy/ledger.h"

#define UNMANAGED_BUCKETS 1024
#define UNMANAGED_PIDFDS  1024 /* held at a time: the clients need theirs */
#define LEARN_TRIES       3
#define UNMANAGED_TELL    16             /* lines of one sample; the rest is counted in one more */
#define UNMANAGED_TWICE   (1 * NS_PER_S) /* between the samples that show it */

_Static_assert(LEDGER_MAX_GPUS <= 64, "a bit each");

struct entry {
	struct list in_bucket, all;
	pid_t pid;
	int pidfd;       /* -1: not held, and nothing is known */
	bool is_learned; /* looked at, whatever came of it */
	unsigned tries;  /* … so often */
	bool is_told;    /* to the log */
	uint64_t epoch;  /* of the registry, when it was nobody's */
	uint64_t gpus;   /* that show it */
	uint64_t seen;   /* … in the sample that runs: bit of its GPU */
	uint64_t bytes;  /* on the GPU that showed it last; WIRE_UNKNOWN_U64 */
	struct unmanaged_facts facts;
	uint64_t doomed_ns; /* the first sample that showed it to be ended; 0 */
	uint64_t term_ns;   /* SIGTERM was sent; 0 */
	bool is_killed;     /* SIGKILL was */
	char command[WIRE_COMMAND_MAX];
};

struct unmanaged {
	struct daemon *daemon;
	struct list buckets[UNMANAGED_BUCKETS];
	struct list all;
	unsigned n, n_pidfds;
	unsigned n_learned; /* in the sample that runs */
	bool is_warned;
	uint64_t configured_ticks; /* when the configuration that holds was taken */
	bool is_kill[LEDGER_MAX_GPUS];
	uint64_t since_ticks[LEDGER_MAX_GPUS];
	uint64_t killed[LEDGER_MAX_GPUS];
};

static uint64_t bit_of(unsigned gpu)
{
	return (uint64_t)1 << gpu;
}

/* as start times count: clock ticks since boot */
static uint64_t ticks_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * (uint64_t)sysconf(_SC_CLK_TCK) +
	       (uint64_t)t.tv_nsec * (uint64_t)sysconf(_SC_CLK_TCK) / NS_PER_S;
}

int unmanaged_new(struct daemon *d, struct unmanaged **ret)
{
	struct unmanaged *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->daemon = d;
	unmanaged_configured(u);
	list_init(&u->all);
	for (unsigned i = 0; i < UNMANAGED_BUCKETS; i++)
		list_init(&u->buckets[i]);
	*ret = u;
	return 0;
}

static void entry_free(struct unmanaged *u, struct entry *e)
{
	if (e->pidfd >= 0) {
		close(e->pidfd);
		u->n_pidfds--;
	}
	list_del(&e->in_bucket);
	list_del(&e->all);
	u->n--;
	free(e);
}

struct unmanaged *unmanaged_free(struct unmanaged *u)
{
	struct entry *e, *tmp;

	if (!u)
		return NULL;
	list_for_each_safe (e, tmp, &u->all, all)
		entry_free(u, e);
	free(u);
	return NULL;
}

static struct list *bucket_of(struct unmanaged *u, pid_t pid)
{
	return &u->buckets[(unsigned)pid % UNMANAGED_BUCKETS];
}

static struct entry *find(const struct unmanaged *u, pid_t pid)
{
	struct entry *e;

	list_for_each (e, bucket_of((struct unmanaged *)u, pid), in_bucket)
		if (e->pid == pid)
			return e;
	return NULL;
}

static struct entry *entry_new(struct unmanaged *u, pid_t pid)
{
	struct entry *e = u->n < UNMANAGED_MAX ? calloc(1, sizeof(*e)) : NULL;

	if (!e)
		return NULL;
	e->pid = pid;
	e->pidfd = -1;
	list_append(bucket_of(u, pid), &e->in_bucket);
	list_append(&u->all, &e->all);
	u->n++;
	return e;
}

/* ---- policy ---- */

/* NVML numbers processes as the host does: in a container the same number is somebody else */
static bool can_tell_who(const struct daemon *d)
{
	return d->is_simulated || proc_is_in_first_namespace(d->proc_root);
}

void unmanaged_set_policy(struct unmanaged *u, unsigned gpu, bool is_kill)
{
	is_kill = is_kill && u->daemon->instance.is_system;
	if (is_kill && !can_tell_who(u->daemon)) {
		if (!u->is_warned)
			log_error("unmanaged: kill is not carried out: allotd runs in a PID "
				  "namespace of "
				  "its own, where NVML's numbers may be those of others; start it "
				  "in the "
				  "host's");
		u->is_warned = true;
		is_kill = false;
	}
	if (u->is_kill[gpu] == is_kill)
		return;
	u->is_kill[gpu] = is_kill;
	u->since_ticks[gpu] = u->configured_ticks;
	log_info("GPU %s: unmanaged programs that begin from now on are %s",
		 gpus_at(u->daemon->gpus, gpu)->label, is_kill ? "ended" : "shown");
}

void unmanaged_configured(struct unmanaged *u)
{
	u->configured_ticks = ticks_now();
}

bool unmanaged_is_kill(const struct unmanaged *u, unsigned gpu)
{
	return u->is_kill[gpu];
}

uint64_t unmanaged_killed(const struct unmanaged *u, unsigned gpu)
{
	return u->killed[gpu];
}

/* ---- who they are ---- */

static bool is_self(pid_t pid, void *context)
{
	return pid == *(const pid_t *)context;
}

/* below allotd, or allotd below it */
static bool is_own(const struct daemon *d, pid_t pid)
{
	pid_t self = getpid();

	return proc_find_ancestor(d->proc_root, pid, is_self, &self) == self ||
	       proc_find_ancestor(d->proc_root, self, is_self, &pid) == pid;
}

static void learn(struct unmanaged *u, struct entry *e)
{
	const struct daemon *d = u->daemon;
	struct unmanaged_facts *f = &e->facts;
	struct proc_info info;

	e->is_learned = true;
	(void)commands_read(d->commands, d->proc_root, e->pid, e->command, sizeof(e->command));
	f->uid = (uid_t)-1;
	f->is_known = false;
	if (e->pidfd < 0 && u->n_pidfds < UNMANAGED_PIDFDS) {
		e->pidfd = fd_pidfd_open(e->pid);
		u->n_pidfds += e->pidfd >= 0;
	}
	if (e->pidfd < 0)
		return;
	if (proc_read(d->proc_root, e->pid, &info) < 0 || info.state == 'Z' ||
	    proc_uid(d->proc_root, e->pid, &f->uid) < 0)
		return;
	f->start_ticks = info.start_ticks;
	f->is_own = is_own(d, e->pid);
	f->is_mps = proc_is_mps(d->proc_root, e->pid);
	f->is_display = proc_is_display(d->proc_root, e->pid);
	f->is_foreign = proc_is_foreign(d->proc_root, e->pid);
	/* all of that was of the process behind the pidfd, if that one is alive now */
	f->is_known = pidfd_is_alive(e->pidfd);
}

bool unmanaged_is_known(struct unmanaged *u, pid_t pid)
{
	const struct entry *e = find(u, pid);

	return e && e->pidfd >= 0 && e->epoch == u->daemon->registry.epoch &&
	       pidfd_is_alive(e->pidfd);
}

/* ---- a sample ---- */

void unmanaged_begin(struct unmanaged *u, unsigned gpu)
{
	struct entry *e;

	u->n_learned = 0;
	list_for_each (e, &u->all, all)
		e->seen &= ~bit_of(gpu);
}

void unmanaged_saw(struct unmanaged *u, unsigned gpu, const struct sampler_proc *proc)
{
	struct entry *e = find(u, proc->pid);

	/* the number is somebody else's by now */
	if (e && e->pidfd >= 0 && !pidfd_is_alive(e->pidfd)) {
		entry_free(u, e);
		e = NULL;
	}
	if (!e)
		e = entry_new(u, proc->pid);
	if (!e)
		return;
	e->gpus |= bit_of(gpu);
	e->seen |= bit_of(gpu);
	e->epoch = u->daemon->registry.epoch;
	e->bytes = proc->is_known ? proc->bytes : WIRE_UNKNOWN_U64;
	/* who draws or works through MPS on one GPU is spared on all, and for good */
	e->facts.kinds =
		proc->kinds | (e->facts.kinds & (SAMPLER_PROC_GRAPHICS | SAMPLER_PROC_MPS));
	/* descriptors may have been short, or /proc in a change */
	if (!e->facts.is_known && e->tries < LEARN_TRIES && u->n_learned < UNMANAGED_LEARN) {
		u->n_learned++;
		e->tries++;
		learn(u, e);
	}
}

static void tell(const struct unmanaged *u, unsigned gpu, struct entry *e, unsigned *n_told)
{
	struct fmt_buf bytes;
	char user[24] = "?";

	if (e->is_told || !e->is_learned || (e->facts.kinds & SAMPLER_PROC_GRAPHICS))
		return;
	e->is_told = true;
	if ((*n_told)++ >= UNMANAGED_TELL)
		return;
	if (e->facts.uid != (uid_t)-1)
		(void)str_print(user, sizeof(user), "%u", e->facts.uid);
	log_warn("GPU %s: unmanaged process %d (%s) of uid %s holds %s",
		 gpus_at(u->daemon->gpus, gpu)->label, e->pid,
		 e->command[0] ? e->command : "not seen from here", user,
		 e->bytes == WIRE_UNKNOWN_U64 ? "an unknown amount" : fmt_size(&bytes, e->bytes));
}

static uint64_t grace_ns(const struct unmanaged *u)
{
	return u->daemon->config->jobs_kill_grace;
}

static bool send_signal(const struct entry *e, int signal)
{
	return syscall(SYS_pidfd_send_signal, e->pidfd, signal, NULL, 0) == 0;
}

/* is it still that process, nobody's, and to be ended?  By now it may be another program */
static bool is_certain(struct unmanaged *u, unsigned gpu, struct entry *e)
{
	uint64_t start_ticks = e->facts.start_ticks;
	struct daemon *d = u->daemon;
	struct proc_info info;

	if (process_by_pid(&d->registry, e->pid) || registry_whose(d, e->pid, &info))
		return false;
	learn(u, e);
	return e->facts.start_ticks == start_ticks &&
	       unmanaged_judge(&e->facts, u->since_ticks[gpu]) == UNMANAGED_END;
}

/* one step towards its end; true: more is to come */
static bool end_one(struct unmanaged *u, unsigned gpu, struct entry *e, uint64_t now_ns)
{
	const char *label = gpus_at(u->daemon->gpus, gpu)->label;

	if (unmanaged_judge(&e->facts, u->since_ticks[gpu]) != UNMANAGED_END) {
		e->doomed_ns = 0;
		return false;
	}
	if (!e->doomed_ns) {
		e->doomed_ns = now_ns;
		return true;
	}
	if (now_ns - e->doomed_ns < UNMANAGED_TWICE)
		return true;
	if (e->term_ns) {
		if (e->is_killed || now_ns - e->term_ns < grace_ns(u))
			return !e->is_killed;
		if (!is_certain(u, gpu, e))
			return true;
		e->is_killed = true;
		if (send_signal(e, SIGKILL))
			log_warn("GPU %s: unmanaged process %d (%s) did not end: SIGKILL", label,
				 e->pid, e->command);
		return false;
	}
	if (!is_certain(u, gpu, e))
		return true; /* looked at again in the next sample */
	e->term_ns = now_ns;
	u->killed[gpu]++;
	log_warn("GPU %s: unmanaged process %d (%s) of uid %u: SIGTERM, by the policy of this GPU",
		 label, e->pid, e->command, e->facts.uid);
	(void)send_signal(e, SIGTERM); /* gone meanwhile: so much the better */
	return true;
}

bool unmanaged_end(struct unmanaged *u, unsigned gpu, uint64_t now_ns)
{
	struct entry *e, *tmp;
	bool is_busy = false;
	unsigned n_told = 0;

	list_for_each_safe (e, tmp, &u->all, all) {
		if (!(e->gpus & bit_of(gpu)))
			continue;
		if (!(e->seen & bit_of(gpu))) {
			e->gpus &= ~bit_of(gpu);
			if (!e->gpus)
				entry_free(u, e);
			continue;
		}
		tell(u, gpu, e, &n_told);
		is_busy = is_busy || !e->is_learned;
		if (u->is_kill[gpu])
			is_busy = end_one(u, gpu, e, now_ns) || is_busy;
	}
	if (n_told > UNMANAGED_TELL)
		log_warn("GPU %s: and %u unmanaged processes more ('allot ps' lists them)",
			 gpus_at(u->daemon->gpus, gpu)->label, n_told - UNMANAGED_TELL);
	return is_busy;
}

/* ---- for people ---- */

static void fill_reason(const struct unmanaged *u, unsigned gpu, const struct entry *e,
			struct wire_ps_item *m)
{
	bool is_kill = u->is_kill[gpu];
	enum unmanaged_verdict v = unmanaged_judge(&e->facts, is_kill ? u->since_ticks[gpu] : 0);
	const char *why = unmanaged_verdict_text(v);

	if (is_kill && e->term_ns)
		(void)str_copy(m->reason, sizeof(m->reason),
			       e->is_killed ? "killed by the policy kill"
					    : "asked to end by the policy kill");
	else if (v == UNMANAGED_END)
		(void)str_copy(m->reason, sizeof(m->reason),
			       is_kill ? "the policy kill will end it"
				       : "the policy kill would end its like");
	else
		(void)str_print(m->reason, sizeof(m->reason), "the policy kill %s it: %s",
				is_kill ? "spares" : "would spare", why);
}

bool unmanaged_fill(const struct unmanaged *u, unsigned gpu, pid_t pid, struct wire_ps_item *m)
{
	const struct entry *e = find(u, pid);

	if (!e || !e->is_learned)
		return false;
	m->uid = e->facts.uid;
	if (e->facts.kinds & SAMPLER_PROC_GRAPHICS)
		m->flags |= WIRE_PS_GRAPHICS;
	(void)str_copy(m->command, sizeof(m->command), e->command);
	fill_reason(u, gpu, e, m);
	return true;
}
