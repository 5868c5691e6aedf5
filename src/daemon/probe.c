// SPDX-License-Identifier: Apache-2.0
#include "daemon/probe.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fmt.h"
#include "base/log.h"
#include "base/paths.h"
#include "daemon/daemon.h"
#include "daemon/gpus.h"
#include "daemon/helper.h"
#include "daemon/probe_wire.h"
#include "policy/ledger.h"

#define PROBE_MOST_NS  (10 * NS_PER_S)  /* from its start to its figure */
#define PROBE_SHOWN_NS (NS_PER_S / 2)   /* from its context until NVML shows it */
#define PROBE_GONE_NS  (2 * NS_PER_S)   /* from its death until NVML must have noticed */
#define PROBE_LOOK_NS  (20 * NS_PER_MS) /* between two looks whether it is gone */
#define PROBE_AGAIN_NS (60 * NS_PER_S)  /* after a failure */

_Static_assert(PROBE_FD == HELPER_FD, "the same descriptor");
_Static_assert(PROBE_MOST_NS < LEDGER_PROBE_NS, "a probe ends before nobody waits for it");

struct probe {
	struct probes *all;
	unsigned gpu;
	pid_t pid; /* negative: it is dead, and what it held may not be gone yet */
	int pidfd;
	int sock; /* -1: told to end */
	sd_event_source *death, *io, *timer;
	uint64_t ready_ns; /* its context is there since; 0: not yet */
	uint64_t dead_ns;
	bool is_seen; /* in the sample at hand */
};

struct probes {
	struct daemon *daemon;
	char program[PATHS_MAX]; /* "": there is none */
	struct probe *of[LEDGER_MAX_GPUS];
	uint64_t failed_ns[LEDGER_MAX_GPUS];
};

static struct probe *probe_free(struct probe *p)
{
	if (!p)
		return NULL;
	sd_event_source_disable_unref(p->death);
	sd_event_source_disable_unref(p->io);
	sd_event_source_disable_unref(p->timer);
	if (p->sock >= 0)
		close(p->sock);
	if (p->pidfd >= 0)
		close(p->pidfd);
	free(p);
	return NULL;
}

/* it has said all, or will say nothing: let it end */
static void hang_up(struct probe *p)
{
	p->io = sd_event_source_disable_unref(p->io);
	if (p->sock >= 0)
		close(p->sock);
	p->sock = -1;
}

static void end(struct probe *p)
{
	struct probes *all = p->all;
	unsigned gpu = p->gpu; /* read before p is freed, whatever order a compiler likes */

	ledger_probe_end(all->daemon->ledger, gpu, clock_now_ns());
	all->of[gpu] = probe_free(p);
}

static void fail(struct probe *p, const char *why)
{
	struct probes *all = p->all;
	uint64_t now = clock_now_ns();

	if (p->sock < 0)
		return;
	log_info("GPU %s: the cost of a context was not measured: %s",
		 gpus_at(all->daemon->gpus, p->gpu)->label, why);
	all->failed_ns[p->gpu] = now;
	ledger_probe_failed(all->daemon->ledger, p->gpu, now);
	hang_up(p);
	if (p->pid > 0)
		(void)kill(p->pid, SIGKILL); /* ours and not yet reaped, so the number is right */
}

static int arm(struct probe *p, uint64_t ns)
{
	int r = sd_event_source_set_time_relative(p->timer, ns / NS_PER_US);

	return r < 0 ? r : sd_event_source_set_enabled(p->timer, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct probe *p = userdata;

	(void)source, (void)usec;
	if (p->pid < 0) {
		gpus_want(p->all->daemon->gpus, p->gpu);
		if (clock_now_ns() - p->dead_ns >= PROBE_GONE_NS || arm(p, PROBE_LOOK_NS) < 0)
			end(p); /* NVML shows it still, or is silent: a stranger, then */
		return 0;
	}
	(void)kill(p->pid, SIGKILL); /* ours and not yet reaped, so the number is right */
	fail(p, "it hangs");
	return 0;
}

static int on_death(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct probe *p = userdata;
	siginfo_t si = { 0 };

	(void)source, (void)revents;
	(void)waitid(P_PIDFD, (id_t)fd, &si,
		     WEXITED | WNOHANG); /* reaps; nothing else to be done */
	p->death = sd_event_source_disable_unref(p->death);
	p->dead_ns = clock_now_ns();
	fail(p, "it died");
	gpus_want(p->all->daemon->gpus, p->gpu);
	p->pid = -p->pid;
	if (arm(p, PROBE_LOOK_NS) < 0)
		end(p);
	return 0;
}

static int on_said(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct probe *p = userdata;
	struct probe_said said;
	ssize_t n = recv(fd, &said, sizeof(said), MSG_DONTWAIT);

	(void)source, (void)revents;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != sizeof(said)) {
		if (n != 0) /* else it is about to die */
			fail(p, "it does not speak our language");
		p->io = sd_event_source_disable_unref(p->io);
		return 0;
	}
	said.text[sizeof(said.text) - 1] = '\0';
	if (!said.is_ready) {
		fail(p, said.text);
		return 0;
	}
	p->ready_ns = clock_now_ns();
	gpus_want(p->all->daemon->gpus, p->gpu);
	return 0;
}

static int start(struct probes *all, unsigned number, struct probe *p)
{
	struct daemon *d = all->daemon;
	const struct gpu *gpu = gpus_at(d->gpus, number);
	char *argv[6] = { (char *)"allot-probe" };
	unsigned n = 1;
	struct fmt_buf uuid;
	int r;

	if (d->driver_dir[0]) {
		argv[n++] = (char *)"--driver";
		argv[n++] = d->driver_dir;
	}
	argv[n++] = (char *)"context";
	argv[n] = (char *)fmt_uuid(&uuid, gpus_uuid_prefix(gpu), gpu->last.uuid.bytes);
	r = helper_spawn(all->program, argv, &p->sock, &p->pid, &p->pidfd);
	if (r >= 0)
		r = sd_event_add_io(d->event, &p->death, p->pidfd, EPOLLIN, on_death, p);
	if (r >= 0)
		r = sd_event_add_io(d->event, &p->io, p->sock, EPOLLIN, on_said, p);
	if (r >= 0)
		r = sd_event_add_time_relative(d->event, &p->timer, CLOCK_MONOTONIC,
					       PROBE_MOST_NS / NS_PER_US, NS_PER_MS / NS_PER_US,
					       on_timer, p);
	if (r < 0 && p->pid) {
		(void)kill(p->pid, SIGKILL);
		(void)waitpid(p->pid, NULL, 0); /* a fresh child: it cannot hang yet */
	}
	return r;
}

void probe_want(struct probes *all, unsigned gpu)
{
	struct daemon *d = all->daemon;
	uint64_t now = clock_now_ns();
	struct probe *p;
	int r = -ENOMEM;

	if (!all->program[0] || gpu >= LEDGER_MAX_GPUS || all->of[gpu] ||
	    ledger_gpu_context_bytes(d->ledger, gpu) ||
	    (all->failed_ns[gpu] && now - all->failed_ns[gpu] < PROBE_AGAIN_NS) ||
	    !ledger_probe_begin(d->ledger, gpu, now))
		return;
	p = calloc(1, sizeof(*p));
	if (p) {
		*p = (struct probe){ .all = all, .gpu = gpu, .pidfd = -1, .sock = -1 };
		r = start(all, gpu, p);
	}
	if (r >= 0) {
		all->of[gpu] = p;
		return;
	}
	log_warn("cannot start '%s': %s, ignoring", all->program, strerror(-r));
	all->failed_ns[gpu] = now;
	ledger_probe_end(d->ledger, gpu, now);
	probe_free(p);
}

bool probe_saw(struct probes *all, unsigned gpu, const struct sampler_proc *proc, uint64_t begun_ns)
{
	struct probe *p = all->of[gpu];
	struct fmt_buf size;

	if (!p || (proc->pid != p->pid && proc->pid != -p->pid))
		return false;
	p->is_seen = true;
	if (p->sock < 0 || !p->ready_ns || begun_ns < p->ready_ns)
		return true;
	if (!proc->is_known || !proc->bytes) {
		fail(p, "NVML does not say what it holds");
		return true;
	}
	ledger_probe_measured(all->daemon->ledger, gpu, proc->bytes, clock_now_ns());
	log_info("GPU %s: a context costs %s", gpus_at(all->daemon->gpus, gpu)->label,
		 fmt_size(&size, proc->bytes));
	hang_up(p);
	return true;
}

void probe_sampled(struct probes *all, unsigned gpu, uint64_t begun_ns, bool is_known)
{
	struct probe *p = all->of[gpu];
	bool was_seen = p && p->is_seen;

	if (!p)
		return;
	p->is_seen = false;
	if (p->dead_ns) {
		if (begun_ns >= p->dead_ns && !was_seen)
			end(p);
	} else if (p->ready_ns && begun_ns >= p->ready_ns && !was_seen) {
		if (is_known && begun_ns < p->ready_ns + PROBE_SHOWN_NS)
			gpus_want(all->daemon->gpus, gpu);
		else
			fail(p, is_known ? "NVML does not show it" : "NVML shows no processes");
	}
}

int probes_new(struct daemon *d, struct probes **ret)
{
	static const char *const places[] = { "allot-probe", "../libexec/allot/allot-probe",
					      "../daemon/allot-probe", NULL };
	struct probes *all = calloc(1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	all->daemon = d;
	if (paths_beside(places, all->program, sizeof(all->program)) < 0) {
		all->program[0] = '\0';
		log_warn("allot-probe is missing beside allotd: the cost of a context is not "
			 "measured before the first is made");
	}
	*ret = all;
	return 0;
}

struct probes *probes_free(struct probes *all)
{
	if (!all)
		return NULL;
	for (unsigned i = 0; i < LEDGER_MAX_GPUS; i++) {
		if (all->of[i] && all->of[i]->pid > 0)
			(void)kill(all->of[i]->pid, SIGKILL); /* init reaps it */
		probe_free(all->of[i]);
	}
	free(all);
	return NULL;
}
