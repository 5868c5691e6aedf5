// SPDX-License-Identifier: Apache-2.0
#include "base/str.h"

#include <stdarg.h>
#include <stdint.h>
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

/* the length of the UTF-8 character that begins at @s and its code; 0 when it is none */
static unsigned utf8_decode(const unsigned char *s, uint32_t *ret_code)
{
	/* for 2, 3, 4 bytes: the mark of the first byte, its mask, the smallest code */
	static const struct {
		unsigned char mark, mask;
		uint32_t least;
	} forms[] = { { 0xc0, 0xe0, 0x80 }, { 0xe0, 0xf0, 0x800 }, { 0xf0, 0xf8, 0x10000 } };

	if (s[0] < 0x80) {
		*ret_code = s[0];
		return 1;
	}
	for (unsigned i = 0; i < 3; i++) {
		uint32_t code = s[0] & (unsigned char)~forms[i].mask;

		if ((s[0] & forms[i].mask) != forms[i].mark)
			continue;
		for (unsigned j = 1; j <= i + 1; j++) {
			if ((s[j] & 0xc0) != 0x80) /* the NUL at the end, too */
				return 0;
			code = code << 6 | (s[j] & 0x3f);
		}
		if (code < forms[i].least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
			return 0;
		*ret_code = code;
		return i + 2;
	}
	return 0;
}

/* C0 and C1, and what makes a line look like another one: separators and changes of direction */
static bool is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c ||
	       (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069);
}

void str_printable(char *s)
{
	unsigned char *from = (unsigned char *)s, *to = from;
	uint32_t code = 0;

	while (*from) {
		unsigned n = utf8_decode(from, &code);

		if (n == 0 || is_control(code)) {
			*to++ = '?';
			from += n ? n : 1;
			continue;
		}
		while (n--)
			*to++ = *from++;
	}
	*to = '\0';
}
