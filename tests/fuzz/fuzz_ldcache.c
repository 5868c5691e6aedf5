// SPDX-License-Identifier: Apache-2.0
/* /etc/ld.so.cache is root's, but a container brings its own: whatever it holds, we stay inside. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "shim/ld_cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const hwcaps[] = { "x86-64-v3", "x86-64-v2", NULL };
	void *copy = malloc(size ? size : 1); /* of its own, so that a sanitizer sees its end */
	const char *path;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	for (unsigned skip = 0; skip < 4; skip++) {
		if (ld_cache_find(copy, size, "libcuda.so.1", skip % 2 ? hwcaps : NULL, skip,
				  &path) == 0) {
			const char *start = copy;

			/* within the bytes given, with its end */
			if (path < start || path >= start + size ||
			    !memchr(path, '\0', (size_t)(start + size - path)))
				abort();
		}
	}
	free(copy);
	return 0;
}
