// SPDX-License-Identifier: Apache-2.0
#include "config/text.h"

#include <stdbool.h>
#include <stdint.h>

/* how many bytes the character at @s has; 0: it is none */
static unsigned utf8_length(const unsigned char *s, size_t left)
{
	uint32_t c = s[0], least;
	unsigned n;

	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf) {
		n = 2;
		least = 0x80;
		c &= 0x1f;
	} else if ((c & 0xf0) == 0xe0) {
		n = 3;
		least = 0x800;
		c &= 0x0f;
	} else if (c >= 0xf0 && c <= 0xf4) {
		n = 4;
		least = 0x10000;
		c &= 0x07;
	} else {
		return 0;
	}
	if (left < n)
		return 0;
	for (unsigned i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	return c < least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ? 0 : n;
}

const char *text_check(const char *text, size_t len, unsigned *ret_line, unsigned *ret_column)
{
	const unsigned char *s = (const unsigned char *)text;

	for (size_t i = 0; i < len;) {
		unsigned n = utf8_length(s + i, len - i);
		bool is_control = (s[i] < 0x20 && s[i] != '\t' && s[i] != '\n' && s[i] != '\r') ||
				  s[i] == 0x7f;

		if (n == 0 || is_control) {
			text_place(text, len, i, ret_line, ret_column);
			return n == 0 ? "this is no UTF-8" : "a control character stands here";
		}
		i += n;
	}
	return NULL;
}

void text_place(const char *text, size_t len, size_t offset, unsigned *ret_line,
		unsigned *ret_column)
{
	unsigned line = 1, column = 1;

	for (size_t i = 0; i < offset && i < len; i++) {
		if (text[i] == '\n') {
			line++;
			column = 1;
		} else if (((unsigned char)text[i] & 0xc0) != 0x80) {
			column++;
		}
	}
	*ret_line = line;
	*ret_column = column;
}

int text_at(const char *text, size_t len, unsigned line, unsigned column)
{
	size_t i = 0;

	for (; line > 1 && i < len; i++)
		line -= text[i] == '\n';
	for (; column > 1 && i < len && text[i] != '\n'; i++)
		column -= i + 1 == len || ((unsigned char)text[i + 1] & 0xc0) != 0x80;
	return i < len && line == 1 && column == 1 ? (unsigned char)text[i] : -1;
}
