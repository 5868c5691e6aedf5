// SPDX-License-Identifier: Apache-2.0
/*
 * allot-sampler: the child of allotd that alone talks to NVML.  It answers the questions that come
 * in on descriptor 3 (sampler_wire.h) until that is closed, and may hang with the driver whenever
 * the driver pleases: allotd gives it up then and starts another one.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/sampler_wire.h"
#include "gpu/nvml.h"

struct state {
	const char *driver_dir;
	struct gpu_nvml *nvml; /* NULL: to be opened by the next question */
	struct gpu_sample sample;
};

static int send_packet(const void *packet, size_t size)
{
	ssize_t n;

	do
		n = send(SAMPLER_FD, packet, size, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static int send_processes(const struct gpu_sample *s, uint64_t sequence)
{
	struct sampler_procs m = { .sequence = sequence,
				   .kind = SAMPLER_PROCS_OF_GPU,
				   .index = s->index };
	int r = 0;

	for (unsigned i = 0; i < s->n_procs && r == 0; i++) {
		bool is_known = s->procs[i].used_bytes != GPU_UNKNOWN_U64;

		m.procs[m.n++] = (struct sampler_proc){
			.pid = s->procs[i].pid,
			.is_known = is_known,
			.kinds = (uint16_t)s->procs[i].kinds,
			.bytes = is_known ? s->procs[i].used_bytes : 0,
		};
		if (m.n == SAMPLER_PROCS || i + 1 == s->n_procs) {
			r = send_packet(&m, sizeof(m));
			m.n = 0;
		}
	}
	return r;
}

static uint32_t known_of(const struct gpu_sample *s)
{
	uint32_t known = 0;

	if ((s->valid & GPU_HAS_TOTAL) && (s->valid & GPU_HAS_USED))
		known |= SAMPLER_MEMORY;
	if ((s->valid & GPU_HAS_PROCS) && !(s->flags & GPU_PROCS_CUT))
		known |= SAMPLER_PROCESSES;
	if (s->valid & GPU_HAS_UTILIZATION)
		known |= SAMPLER_UTILIZATION;
	if (s->valid & GPU_HAS_TEMPERATURE)
		known |= SAMPLER_TEMPERATURE;
	if (s->valid & GPU_HAS_POWER)
		known |= SAMPLER_POWER;
	if (s->flags & GPU_LOST)
		known |= SAMPLER_LOST;
	if (s->flags & GPU_MIG_MODE)
		known |= SAMPLER_MIG_MODE;
	if (s->flags & GPU_INSTANCE)
		known |= SAMPLER_INSTANCE;
	return known;
}

_Static_assert((int)SAMPLER_PROC_COMPUTE == GPU_PROC_COMPUTE &&
		       (int)SAMPLER_PROC_GRAPHICS == GPU_PROC_GRAPHICS &&
		       (int)SAMPLER_PROC_MPS == GPU_PROC_MPS,
	       "kinds go to allotd as they are");

static int send_sample(struct state *st, uint64_t sequence)
{
	const struct gpu_sample *s = &st->sample;
	struct sampler_gpu m = { .sequence = sequence, .kind = SAMPLER_GPU };
	int r;

	if (!(s->valid & GPU_HAS_UUID))
		return 0; /* nobody could say which one it is */
	m.known = known_of(s);
	m.index = s->index;
	m.mig_index = s->mig_index;
	m.gi = s->gi;
	m.ci = s->ci;
	m.n_processes = s->n_procs;
	memcpy(m.uuid.bytes, s->uuid, sizeof(m.uuid.bytes));
	m.total_bytes = s->total_bytes;
	m.reserved_bytes = s->valid & GPU_HAS_RESERVED ? s->reserved_bytes : 0;
	m.used_bytes = s->used_bytes;
	m.utilization_pct = s->utilization_pct;
	m.temperature_c = s->temperature_c;
	m.power_mw = s->power_mw;
	memcpy(m.pci_bus_id, s->pci_bus_id, sizeof(m.pci_bus_id));
	(void)str_copy(m.model, sizeof(m.model), s->name); /* cut when it is long */
	(void)str_copy(m.driver_version, sizeof(m.driver_version),
		       gpu_nvml_driver_version(st->nvml));
	r = send_packet(&m, sizeof(m));
	return r < 0 ? r : send_processes(s, sequence);
}

/* a card and its instances */
static int send_gpu(struct state *st, unsigned index, uint64_t sequence)
{
	bool has_instances;
	int r;

	gpu_nvml_sample_one(st->nvml, index, &st->sample);
	has_instances = (st->sample.flags & GPU_MIG_MODE) != 0;
	r = send_sample(st, sequence);
	for (unsigned i = 0; has_instances && i < GPU_INSTANCES && r == 0; i++)
		if (gpu_nvml_sample_instance(st->nvml, index, i, &st->sample))
			r = send_sample(st, sequence);
	return r;
}

static int look(struct state *st, const struct sampler_request *q, struct sampler_done *done)
{
	struct err err = { 0 };
	int n, r = 0;

	if (!st->nvml && gpu_nvml_open(st->driver_dir, &st->nvml, &err) < 0) {
		st->nvml = NULL;
		(void)str_copy(done->text, sizeof(done->text), err.text);
		return 0;
	}
	n = gpu_nvml_count(st->nvml, &err);
	if (n < 0) {
		(void)str_copy(done->text, sizeof(done->text), err.text);
		gpu_nvml_close(st->nvml); /* from the beginning next time */
		st->nvml = NULL;
		return 0;
	}
	for (unsigned i = 0; i < (unsigned)n && r == 0; i++)
		if (q->gpus >> i & 1)
			r = send_gpu(st, i, q->sequence);
	done->is_ok = 1;
	done->n_gpus = (uint32_t)n;
	return r;
}

static int serve(struct state *st)
{
	for (;;) {
		struct sampler_request q;
		struct sampler_done done = { .kind = SAMPLER_DONE };
		ssize_t n = recv(SAMPLER_FD, &q, sizeof(q), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof(q))
			return 0; /* allotd is gone */
		done.sequence = q.sequence;
		if (look(st, &q, &done) < 0 || send_packet(&done, sizeof(done)) < 0)
			return 0;
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "driver", required_argument, NULL, 'd' },
						 { 0 } };
	static struct state st = { .driver_dir = "" };
	int c, type;
	socklen_t len = sizeof(type);

	log_setup("allot-sampler", LOG_LEVEL_INFO);
	while ((c = getopt_long(argc, argv, "", options, NULL)) == 'd')
		st.driver_dir = optarg;
	if (c != -1)
		return 2;
	if (getsockopt(SAMPLER_FD, SOL_SOCKET, SO_TYPE, &type, &len) < 0) {
		log_error("this program is started by allotd only");
		return 2;
	}
	/* a hung sampler must not outlive allotd; one that does not hang sees the socket close */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	return serve(&st);
}
