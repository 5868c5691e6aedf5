// SPDX-License-Identifier: Apache-2.0
#include "policy/books.h"

/* whoever waits for the figure, or for the room, is looked at again */
static void look_again(struct gpu *g, uint64_t now_ns)
{
	g->probe_until_ns = 0;
	gpu_changed(g, now_ns, true);
}

bool ledger_probe_begin(struct ledger *l, unsigned gpu, uint64_t now_ns)
{
	struct gpu *g = gpu < l->n_gpus ? &l->gpus[gpu] : NULL;

	if (!g || g->lost || g->context_bytes || g->probe || !g->used_known)
		return false;
	if (size_sat_sub(gpu_allocatable(g), g->charged + gpu_passing(g)) < LEDGER_PROBE_BYTES)
		return false;
	g->probe = LEDGER_PROBE_BYTES;
	g->probe_until_ns = size_sat_add(now_ns, LEDGER_PROBE_NS);
	return true;
}

void ledger_probe_measured(struct ledger *l, unsigned gpu, uint64_t bytes, uint64_t now_ns)
{
	struct gpu *g = gpu < l->n_gpus ? &l->gpus[gpu] : NULL;

	if (!g || !g->probe || !bytes || bytes > g->total_bytes)
		return;
	g->probe = bytes;
	if (!g->context_bytes)
		g->context_bytes = bytes;
	look_again(g, now_ns);
}

void ledger_probe_failed(struct ledger *l, unsigned gpu, uint64_t now_ns)
{
	if (gpu < l->n_gpus && l->gpus[gpu].probe_until_ns)
		look_again(&l->gpus[gpu], now_ns);
}

void ledger_probe_end(struct ledger *l, unsigned gpu, uint64_t now_ns)
{
	if (gpu >= l->n_gpus || !l->gpus[gpu].probe)
		return;
	l->gpus[gpu].probe = 0;
	look_again(&l->gpus[gpu], now_ns);
}

/** probe_poll - it takes too long */
void probe_poll(struct gpu *g, uint64_t now_ns)
{
	if (g->probe_until_ns && now_ns >= g->probe_until_ns)
		look_again(g, now_ns);
}
