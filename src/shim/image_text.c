// SPDX-License-Identifier: Apache-2.0
#include "shim/image_text.h"

#include <string.h>

#include "base/size.h"

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '.' || c == '$' || c == '%';
}

static uint64_t width_of(const char *word)
{
	static const struct {
		const char *name;
		unsigned bytes;
	} types[] = {
		{ ".b8", 1 },  { ".u8", 1 },    { ".s8", 1 },    { ".b16", 2 },    { ".u16", 2 },
		{ ".s16", 2 }, { ".f16", 2 },   { ".bf16", 2 },  { ".b32", 4 },    { ".u32", 4 },
		{ ".s32", 4 }, { ".f32", 4 },   { ".b64", 8 },   { ".u64", 8 },    { ".s64", 8 },
		{ ".f64", 8 }, { ".b128", 16 }, { ".f16x2", 4 }, { ".bf16x2", 4 },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(word, types[i].name) == 0)
			return types[i].bytes;
	return 0;
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t r;

	return size_mul(a, b, &r) ? r : UINT64_MAX;
}

/* "8", "0x8", "010", "8U", as PTX writes them; saturates */
static uint64_t number_of(const char *w)
{
	unsigned base = 10;
	uint64_t n = 0;

	if (w[0] == '0' && (w[1] == 'x' || w[1] == 'X')) {
		base = 16;
		w += 2;
	} else if (w[0] == '0') {
		base = 8;
	}
	for (; *w; w++) {
		unsigned digit = *w >= '0' && *w <= '9'   ? (unsigned)(*w - '0')
				 : *w >= 'a' && *w <= 'f' ? (unsigned)(*w - 'a') + 10
				 : *w >= 'A' && *w <= 'F' ? (unsigned)(*w - 'A') + 10
							  : base;

		if (digit >= base)
			break;
		n = size_sat_add(times(n, base), digit);
	}
	return n;
}

static void take_word(struct image_text *t)
{
	const char *w = t->word;

	if (t->is_ended || t->parens)
		return;
	if (t->in_dimension)
		t->count = times(t->count, number_of(w));
	else if (strcmp(w, ".extern") == 0)
		t->is_extern = true;
	else if (strcmp(w, ".global") == 0)
		t->is_global = true; /* behind .version, .target …, which end without a sign */
	else if (strcmp(w, ".v2") == 0 || strcmp(w, ".v4") == 0)
		t->count = times(t->count, (uint64_t)(w[2] - '0'));
	else if (width_of(w))
		t->width = width_of(w);
}

static void forget_statement(struct image_text *t)
{
	t->is_global = t->is_extern = t->is_ended = t->in_dimension = false;
	t->parens = 0;
	t->count = 1;
	t->width = 0;
}

static void next_statement(struct image_text *t)
{
	if (t->is_global && !t->is_extern)
		t->bytes = size_sat_add(t->bytes, times(t->count, t->width));
	forget_statement(t);
}

/* true: @c belongs to a comment */
static bool in_comment(struct image_text *t, char c)
{
	char before = t->before;

	t->before = c;
	switch (t->comment) {
	case IMAGE_TEXT_LINE:
		if (c == '\n')
			t->comment = IMAGE_TEXT_CODE;
		return true;
	case IMAGE_TEXT_BLOCK:
		if (before == '*' && c == '/') {
			t->comment = IMAGE_TEXT_CODE;
			t->before = 0;
		}
		return true;
	case IMAGE_TEXT_CODE:
		if (before != '/' || (c != '/' && c != '*'))
			return false;
		t->comment = c == '/' ? IMAGE_TEXT_LINE : IMAGE_TEXT_BLOCK;
		t->before = 0;
		return true;
	}
	return false;
}

void image_text_feed(struct image_text *t, char c)
{
	if (in_comment(t, c))
		return;
	if (is_word(c)) {
		if (t->len + 1 < sizeof(t->word)) /* a longer one is none of ours */
			t->word[t->len] = c;
		t->len++;
		return;
	}
	if (t->len && t->len < sizeof(t->word)) {
		t->word[t->len] = 0;
		take_word(t);
	}
	t->len = 0;
	if (c == ';')
		next_statement(t);
	else if ((c == '{' || c == '}') && !t->is_ended)
		forget_statement(t); /* a function, not a variable */
	else if (c == '=')
		t->is_ended = true; /* what follows is what it holds */
	else if (c == '(')
		t->parens++;
	else if (c == ')')
		t->parens -= t->parens > 0;
	else if (c == '[' || c == ']')
		t->in_dimension = c == '[';
}

uint64_t image_text_bytes(const char *text, size_t len)
{
	struct image_text t = IMAGE_TEXT_START;

	for (size_t i = 0; i < len; i++)
		image_text_feed(&t, text[i]);
	return t.bytes;
}
