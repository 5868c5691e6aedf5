// SPDX-License-Identifier: Apache-2.0
/* Sizes, percentages, times, UUIDs as a user may type them: refused or right, never wrapped. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "fuzz.h"

#define UNTOUCHED 0x5a5a5a5a5a5a5a5aull

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct parse_amount request, limit;
	uint64_t v = UNTOUCHED;
	unsigned permille;
	uint8_t uuid[16];
	struct err err;
	char *s;

	if (size > 4096)
		return 0;
	s = malloc(size + 1);
	if (!s)
		return 0;
	memcpy(s, data, size);
	s[size] = '\0';
	if (parse_size(s, &v, &err) == 0 ? v == 0 || v > 1ull << 60 : v != UNTOUCHED)
		abort();
	v = UNTOUCHED;
	if (parse_duration(s, &v, &err) < 0 && v != UNTOUCHED)
		abort();
	if (parse_percent(s, &permille, &err) == 0 && (permille < 1 || permille > 1000))
		abort();
	if (parse_vram(s, &request, &limit, &err) == 0 &&
	    ((request.bytes == 0) == (request.permille == 0) ||
	     (limit.bytes && request.bytes > limit.bytes)))
		abort();
	(void)parse_uuid(s, uuid, &err);
	(void)parse_u64(s, 0, UINT64_MAX, &v, &err);
	free(s);
	return 0;
}
