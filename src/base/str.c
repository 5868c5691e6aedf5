// SPDX-License-Identifier: Apache-2.0
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISTANCE_MAX 63u

bool str_copy(char *dst, size_t size, const char *src)
{
	size_t len = strnlen(src, size);

	if (len < size) {
		memcpy(dst, src, len + 1);
		return true;
	}
	if (size > 0) {
		memcpy(dst, src, size - 1);
		dst[size - 1] = '\0';
	}
	return false;
}

bool str_print(char *dst, size_t size, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(dst, size, fmt, ap);
	va_end(ap);
	return n >= 0 && (size_t)n < size;
}

char *str_dup_printf(const char *fmt, ...)
{
	va_list ap;
	char *s = NULL;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : s;
}

bool str_starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_is_terminated(const char *s, size_t size)
{
	return memchr(s, '\0', size) != NULL;
}

unsigned str_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned row[DISTANCE_MAX + 1];

	if (la > DISTANCE_MAX || lb > DISTANCE_MAX)
		return DISTANCE_MAX + 1;
	for (unsigned j = 0; j <= lb; j++)
		row[j] = j;
	for (size_t i = 1; i <= la; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[lb];
}

const char *str_nearest(const char *word, const char *const *names)
{
	unsigned limit = (unsigned)strlen(word) / 3 + 1;
	const char *best = NULL;

	for (; *names; names++) {
		unsigned d = str_distance(word, *names);

		if (d <= limit) {
			limit = d - (d > 0);
			best = *names;
			if (d == 0)
				break;
		}
	}
	return best;
}

void str_printable(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
}
