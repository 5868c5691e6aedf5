// SPDX-License-Identifier: Apache-2.0
/* Whatever arrives on the socket: decode must judge it without touching a byte outside. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fuzz.h"
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_message m;
	struct err err;
	void *copy = size <= WIRE_MAX_MESSAGE ? aligned_alloc(8, (size + 8) & ~(size_t)7) : NULL;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	if (wire_decode(copy, size, &m, &err) == 0) {
		/* what was accepted encodes to the same bytes */
		unsigned char again[WIRE_MAX_MESSAGE];
		int len = wire_encode(again, sizeof(again), m.type, m.request_id, m.payload);

		if (len != (int)size || memcmp(again, copy, size) != 0)
			abort();
	}
	free(copy);
	return 0;
}
