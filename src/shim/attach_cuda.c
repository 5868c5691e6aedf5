// SPDX-License-Identifier: Apache-2.0
/* This library holds memory: it gets a credit page. */
#include "shim/attach.h"

const enum wire_attach_role attach_role = WIRE_ROLE_CUDA;
