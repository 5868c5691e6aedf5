// SPDX-License-Identifier: Apache-2.0
#ifndef CONFIG_GPU_ID_H
#define CONFIG_GPU_ID_H

/* Which GPU an entry of `gpus` means: its index, its whole UUID, or its PCI address. */

#include "config/config.h"

/** gpu_id_read - "0", "GPU-…" (also MIG-…, whole), "0000:83:00.0" (also without the domain) */
int gpu_id_read(const char *text, struct config_gpu_id *ret, struct err *err);

bool gpu_id_is(const struct config_gpu_id *id, const uint8_t uuid[16], unsigned index,
	       const char *pci);

/** gpu_id_is_same - do both say the same in the same way? */
bool gpu_id_is_same(const struct config_gpu_id *a, const struct config_gpu_id *b);

#endif
