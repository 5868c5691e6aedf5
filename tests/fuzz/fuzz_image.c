// SPDX-License-Identifier: Apache-2.0
/* A module image is the program's, and has no length: the reader looks at it and never crashes. */
#include "fuzz.h"
#include "shim/image.h"
#include "shim/image_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)image_text_bytes((const char *)data, size);
	(void)image_bytes(data);
	return 0;
}
