// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_WISH_H
#define DAEMON_WISH_H

/*
 * CUDA_VISIBLE_DEVICES as whoever typed `allot run` had it set: which GPUs they wish for.
 *
 * Read by CUDA's own rules (base/visible.h), so that "0,-1" means what it means without allot; an
 * index counts GPUs as nvidia-smi does, inside a job those of its lease.  A wish that names
 * nothing, or one GPU twice, is refused: bare, the program would find no device.
 */

#include <stdint.h>

#include "wire/wire.h"

struct err;
struct gpus;
struct job;

/**
 * wish_parse - the GPUs that @list names, in its order
 * @around: the job that asks, NULL: none; its lease is all there is then
 *
 * Returns how many, in ret_numbers; -EINVAL with a text.
 */
int wish_parse(const struct gpus *g, const struct job *around, const char *list,
	       unsigned ret_numbers[WIRE_MAX_GPUS], struct err *err);

#endif
