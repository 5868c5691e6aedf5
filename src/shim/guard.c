// SPDX-License-Identifier: Apache-2.0
#include "shim/guard.h"

_Thread_local uintptr_t guard_frame __attribute__((tls_model("initial-exec")));
