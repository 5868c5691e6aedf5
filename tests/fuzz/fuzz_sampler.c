// SPDX-License-Identifier: Apache-2.0
/*
 * allot-sampler reads what the driver writes, so it may be anything: packets of any length and
 * order, texts without an end, numbers of any size.  What reaches allotd from it is one GPU at a
 * time with texts that end, an index in range, and a list that is complete or not said to be.
 * Input: packets, each with its length (of 16 bits) in front; bit 15 of it: the right sequence.
 */
#include "daemon/sampler.c" /* the reader of its packets, with our own packets under it */
#include "fuzz.h"

#define CUT 0x7fffu

static bool is_asked;
static unsigned n_done;

static void check_text(const char *s, size_t size)
{
	if (!memchr(s, '\0', size))
		abort();
}

static void on_gpu(void *context, const struct sampler_gpu *gpu, const struct sampler_proc *procs,
		   unsigned n_procs)
{
	uint64_t sum = 0;

	(void)context;
	if (!is_asked || n_procs > SAMPLER_MAX_PROCS || gpu->index >= SAMPLER_MAX_GPUS)
		abort();
	check_text(gpu->pci_bus_id, sizeof(gpu->pci_bus_id));
	check_text(gpu->model, sizeof(gpu->model));
	check_text(gpu->driver_version, sizeof(gpu->driver_version));
	for (unsigned i = 0; i < n_procs; i++)
		if (__builtin_add_overflow(sum, procs[i].bytes, &sum)) /* and is there to be read */
			abort();
	if ((gpu->known & SAMPLER_MEMORY) &&
	    (!gpu->total_bytes || gpu->used_bytes > gpu->total_bytes ||
	     gpu->reserved_bytes > gpu->total_bytes))
		abort();
	if ((gpu->known & SAMPLER_PROCESSES) && gpu->n_processes != n_procs)
		abort();
}

static void on_done(void *context, const struct sampler_done *done)
{
	(void)context;
	n_done++;
	if (done)
		check_text(done->text, sizeof(done->text));
}

static const struct sampler_ops ops = { .gpu = on_gpu, .done = on_done };

static void ask_again(struct sampler *s)
{
	s->is_asking = is_asked = true;
	s->sequence = 7;
	n_done = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sampler s = { .sock = -1, .ops = &ops };
	static sd_event *event;
	static int ends[2];

	if (!event) {
		log_setup("fuzz", LOG_LEVEL_ERROR);
		if (sd_event_new(&event) < 0 ||
		    sd_event_add_time_relative(event, &s.deadline, CLOCK_MONOTONIC, 0, 0,
					       on_deadline, &s) < 0 ||
		    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
			abort();
		s.event = event;
	}
	s.has_gpu = false;
	ask_again(&s);
	while (size >= 2) {
		_Alignas(8) unsigned char packet[SAMPLER_PACKET_MAX + 64];
		uint16_t head = (uint16_t)(data[0] | data[1] << 8);
		size_t len = head & CUT, have;
		uint64_t sequence = 7;

		data += 2;
		size -= 2;
		len = len < sizeof(packet) ? len : sizeof(packet);
		have = len < size ? len : size;
		memset(packet, 0, sizeof(packet));
		memcpy(packet, data, have);
		if (head & ~CUT)
			memcpy(packet, &sequence, sizeof(sequence));
		data += have;
		size -= have;
		if (len && send(ends[0], packet, len, MSG_DONTWAIT) < 0)
			abort();
		(void)on_answer(NULL, ends[1], 0, &s);
		if (!s.is_asking)
			ask_again(&s);
	}
	return 0;
}
