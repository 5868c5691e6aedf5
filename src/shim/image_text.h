// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_IMAGE_TEXT_H
#define SHIM_IMAGE_TEXT_H

/*
 * The sizes of the .global variables of PTX text, character by character: the text comes in pieces
 * that end anywhere.  Statement by statement; what is no variable is passed over.  No state but the
 * struct, nothing allocated, any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_text {
	uint64_t bytes; /* so far, saturating */
	uint64_t count, width;
	enum { IMAGE_TEXT_CODE, IMAGE_TEXT_LINE, IMAGE_TEXT_BLOCK } comment;
	char before; /* the character before this one */
	bool is_global, is_extern, is_ended, in_dimension;
	unsigned parens; /* parameters and attributes: nothing for us */
	size_t len;
	char word[24];
};
#define IMAGE_TEXT_START ((struct image_text){ .count = 1 })

void image_text_feed(struct image_text *t, char c);

/** image_text_bytes - of a whole text */
uint64_t image_text_bytes(const char *text, size_t len);

#endif
