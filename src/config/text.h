// SPDX-License-Identifier: Apache-2.0
#ifndef CONFIG_TEXT_H
#define CONFIG_TEXT_H

/* Bytes of a file before anybody parses them: are they text, and where does one stand? */

#include <stddef.h>

/**
 * text_check - is all of it UTF-8 without control characters?
 * Returns NULL, or what is wrong, with line and column (in characters, from 1) of the first place.
 */
const char *text_check(const char *text, size_t len, unsigned *ret_line, unsigned *ret_column);

/** text_place - line and column of the byte at @offset */
void text_place(const char *text, size_t len, size_t offset, unsigned *ret_line,
		unsigned *ret_column);

/** text_at - the byte that a character at this place begins with; -1: there is none */
int text_at(const char *text, size_t len, unsigned line, unsigned column);

#endif
