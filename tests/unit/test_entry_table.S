/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/entry_asm.h"

ENTRY_BEGIN
#define TEST_PASS(sym) ENTRY_PASS(sym)
#define TEST_HOOK(sym) ENTRY_HOOK(sym)
#include "test_entry.def"
ENTRY_END
