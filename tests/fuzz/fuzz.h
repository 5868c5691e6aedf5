// SPDX-License-Identifier: Apache-2.0
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* one input, whole: returns 0; what must not happen is a crash, a sanitizer's report or abort() */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
