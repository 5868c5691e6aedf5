// SPDX-License-Identifier: Apache-2.0
#include "daemon/wish.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/visible.h"
#include "daemon/gpus.h"
#include "daemon/registry.h"
#include "policy/ledger.h"

static bool is_around(const struct job *around, const struct gpu *gpu)
{
	for (uint32_t i = 0; around && i < around->spec.n_gpus; i++)
		if (memcmp(&around->spec.gpus[i], &gpu->last.uuid, sizeof(gpu->last.uuid)) == 0)
			return true;
	return !around;
}

static bool is_before(const struct sampler_gpu *a, const struct sampler_gpu *b)
{
	return a->index != b->index ? a->index < b->index : a->mig_index < b->mig_index;
}

/*
 * The GPUs to choose from, by their index; how many.  Of a card in MIG mode its instances, as CUDA
 * does it.
 */
static unsigned candidates(const struct gpus *g, const struct job *around,
			   unsigned numbers[LEDGER_MAX_GPUS])
{
	unsigned n = 0;

	for (unsigned i = 0; i < gpus_count(g); i++) {
		unsigned at = n;

		if (!is_around(around, gpus_at(g, i)) ||
		    (gpus_at(g, i)->last.known & SAMPLER_MIG_MODE) || gpus_at(g, i)->is_lost)
			continue;
		for (; at && is_before(&gpus_at(g, i)->last, &gpus_at(g, numbers[at - 1])->last);
		     at--)
			numbers[at] = numbers[at - 1];
		numbers[at] = i;
		n++;
	}
	return n;
}

int wish_parse(const struct gpus *g, const struct job *around, const char *list,
	       unsigned ret_numbers[WIRE_MAX_GPUS], struct err *err)
{
	struct visible_device devices[LEDGER_MAX_GPUS] = { 0 };
	unsigned numbers[LEDGER_MAX_GPUS], picked[LEDGER_MAX_GPUS + 1];
	unsigned n = candidates(g, around, numbers);

	for (unsigned i = 0; i < n; i++) {
		const struct gpu *gpu = gpus_at(g, numbers[i]);

		memcpy(devices[i].uuid, gpu->last.uuid.bytes, sizeof(devices[i].uuid));
		devices[i].is_mig = gpus_is_instance(gpu);
	}
	n = visible_pick(list, devices, n, picked);
	if (n == 0)
		return err_set(err, -EINVAL,
			       "CUDA_VISIBLE_DEVICES='%.100s' names no GPU %s: unset it, or say "
			       "which by --gpu",
			       list, around ? "of the job around it" : "of this machine");
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < i; k++)
			if (picked[k] == picked[i])
				return err_set(err, -EINVAL,
					       "CUDA_VISIBLE_DEVICES='%.100s' names a GPU twice",
					       list);
	if (n > WIRE_MAX_GPUS)
		return err_set(err, -EINVAL,
			       "CUDA_VISIBLE_DEVICES='%.100s' names more than %d GPUs", list,
			       WIRE_MAX_GPUS);
	for (unsigned i = 0; i < n; i++)
		ret_numbers[i] = numbers[picked[i]];
	return (int)n;
}
