// SPDX-License-Identifier: Apache-2.0
#ifndef FUZZ_FUZZ_TEXT_H
#define FUZZ_FUZZ_TEXT_H

/* An input as a string of its own, so that a sanitizer sees its end; and as several of them. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *s = malloc(size + 1);

	if (!s)
		abort();
	if (size)
		memcpy(s, data, size);
	s[size] = '\0';
	return s;
}

/* the bytes before the first @separator; @data and @size go on behind it */
static inline char *fuzz_next_text(const uint8_t **data, size_t *size, int separator)
{
	const uint8_t *end = *size ? memchr(*data, separator, *size) : NULL;
	size_t len = end ? (size_t)(end - *data) : *size;
	char *s = fuzz_text(*data, len);

	*data += end ? len + 1 : len;
	*size -= end ? len + 1 : len;
	return s;
}

#endif
