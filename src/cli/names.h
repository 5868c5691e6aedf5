// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_NAMES_H
#define CLI_NAMES_H

/* Numbers of the protocol in the words of the interface.  One thread (the user database). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/wire.h"

/** name_state, name_class - "?" for a number of a later version */
const char *name_state(uint32_t state);
const char *name_class(uint32_t job_class);

/** name_user - the user's name, else the number; "" for UINT32_MAX: not known */
void name_user(uint32_t uid, char *buf, size_t size);

/** name_gpu - "GPU-…", or "MIG-…"; "" when all bytes are 0: none */
void name_gpu(const struct wire_uuid *uuid, bool is_mig, char *buf, size_t size);

/** name_place - "0", of a MIG instance "0:1" */
void name_place(uint32_t index, bool is_mig, uint32_t mig_index, char *buf, size_t size);

#endif
