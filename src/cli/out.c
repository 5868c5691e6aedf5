// SPDX-License-Identifier: Apache-2.0
#include "cli/out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "wire/wire.h"

json_t *out_u64(uint64_t v)
{
	return v == WIRE_UNKNOWN_U64 ? json_null() : json_integer((json_int_t)v);
}

json_t *out_u32(uint32_t v)
{
	return v == WIRE_UNKNOWN_U32 ? json_null() : json_integer(v);
}

json_t *out_pct(uint32_t permille)
{
	if (permille == WIRE_UNKNOWN_U32)
		return json_null();
	return permille % 10 ? json_real(permille / 10.0) : json_integer(permille / 10);
}

static void csv_cell(const char *s)
{
	if (!strpbrk(s, ",\"\r\n")) {
		fputs(s, stdout);
		return;
	}
	putchar('"');
	for (; *s; s++) {
		if (*s == '"')
			putchar('"');
		putchar(*s);
	}
	putchar('"');
}

static void csv_value(const json_t *v)
{
	AUTO_FREE char *text = NULL;

	if (json_is_null(v))
		return;
	if (json_is_string(v)) {
		csv_cell(json_string_value(v));
		return;
	}
	text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
	if (text)
		csv_cell(text);
}

static void print_header(json_t *item)
{
	const char *key, *sep = "";
	json_t *v;

	json_object_foreach(item, key, v)
	{
		printf("%s%s", sep, key);
		sep = ",";
	}
	putchar('\n');
}

static void print_csv(json_t *items, json_t *shape)
{
	const char *key;
	json_t *item, *v;
	size_t i;

	item = json_array_size(items) ? json_array_get(items, 0) : shape;
	if (item)
		print_header(item);
	json_array_foreach(items, i, item)
	{
		const char *sep = "";

		json_object_foreach(item, key, v)
		{
			fputs(sep, stdout);
			csv_value(v);
			sep = ",";
		}
		putchar('\n');
	}
}

int out_items(enum output form, const char *kind, json_t *items, json_t *shape)
{
	char now[32];
	json_t *doc;

	if (form == OUTPUT_CSV) {
		print_csv(items, shape);
		json_decref(shape);
		json_decref(items);
		return 0;
	}
	json_decref(shape);
	clock_rfc3339(now, sizeof(now));
	doc = json_pack("{s:s, s:s, s:s, s:o}", "schema", "allot/v1", "kind", kind, "time", now,
			"items", items);
	if (!doc) {
		complain(NULL, "cannot make the JSON of the answer");
		return WIRE_CODE_FAILED;
	}
	(void)json_dumpf(doc, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(doc);
	return 0;
}

struct out_row *out_row(struct out_table *t)
{
	if (t->n_rows == t->room) {
		unsigned room = t->room ? 2 * t->room : 16;
		struct out_row *grown = reallocarray(t->rows, room, sizeof(*grown));

		if (!grown)
			return NULL;
		t->rows = grown;
		t->room = room;
	}
	memset(&t->rows[t->n_rows], 0, sizeof(t->rows[0]));
	return &t->rows[t->n_rows++];
}

/* columns on the screen: UTF-8's continuation bytes take none */
static unsigned width(const char *s)
{
	unsigned n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

/* at the most @room columns of @s, the last of them "…" when it was cut */
static void print_cell(FILE *to, const char *s, unsigned room, bool right, bool last)
{
	unsigned wide = width(s), shown = wide > room ? room - 1 : wide;
	unsigned pad = wide > room ? 0 : room - wide;
	size_t len = 0;

	for (unsigned n = 0; s[len]; len++) {
		n += ((unsigned char)s[len] & 0xc0) != 0x80;
		if (n > shown)
			break;
	}
	fprintf(to, "%*s%.*s%s%*s%s", right ? (int)pad : 0, "", (int)len, s, wide > room ? "…" : "",
		right || last ? 0 : (int)pad, "", last ? "\n" : "  ");
}

/* the terminal's width, or 0 when @to is none */
static unsigned terminal_width(FILE *to)
{
	struct winsize size = { 0 };

	if (!isatty(fileno(to)) || ioctl(fileno(to), TIOCGWINSZ, &size) < 0)
		return 0;
	return size.ws_col;
}

/* take what is too much from the columns that may give way, from the widest one first */
static void fit(const struct out_table *t, unsigned room[OUT_COLUMNS], unsigned limit)
{
	unsigned total = 2 * (t->n_columns - 1);

	for (unsigned c = 0; c < t->n_columns; c++)
		total += room[c];
	while (limit && total > limit) {
		unsigned widest = OUT_COLUMNS;

		for (unsigned c = 0; c < t->n_columns; c++)
			if (t->least[c] && room[c] > t->least[c] &&
			    (widest == OUT_COLUMNS || room[c] > room[widest]))
				widest = c;
		if (widest == OUT_COLUMNS)
			return;
		room[widest]--;
		total--;
	}
}

void out_table_print(struct out_table *t, FILE *to)
{
	unsigned room[OUT_COLUMNS];

	for (unsigned c = 0; c < t->n_columns; c++) {
		room[c] = width(t->title[c]);
		for (unsigned r = 0; r < t->n_rows; r++)
			if (width(t->rows[r].cell[c]) > room[c])
				room[c] = width(t->rows[r].cell[c]);
	}
	fit(t, room, terminal_width(to));
	for (unsigned c = 0; c < t->n_columns; c++)
		print_cell(to, t->title[c], room[c], t->right[c], c + 1 == t->n_columns);
	for (unsigned r = 0; r < t->n_rows; r++)
		for (unsigned c = 0; c < t->n_columns; c++)
			print_cell(to, t->rows[r].cell[c], room[c], t->right[c],
				   c + 1 == t->n_columns);
	free(t->rows);
	t->rows = NULL;
	t->n_rows = t->room = 0;
}
