// SPDX-License-Identifier: Apache-2.0
#include "cli/out.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "wire/wire.h"

#define REAL_AS_MEANT JSON_REAL_PRECISION(15) /* 0.566, and not 0.56599999999999995 */

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

void out_csv_value(const json_t *v)
{
	AUTO_FREE char *text = NULL;

	if (json_is_null(v))
		return;
	if (json_is_string(v)) {
		csv_cell(json_string_value(v));
		return;
	}
	text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | REAL_AS_MEANT);
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
			out_csv_value(v);
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
	(void)json_dumpf(doc, stdout, JSON_INDENT(2) | REAL_AS_MEANT);
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

/* the character that @s begins with; its length in *ret_len, at least 1 */
static wchar_t decode(const char *s, size_t *ret_len)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t more = u[0] >= 0xf0 ? 3 : u[0] >= 0xe0 ? 2 : u[0] >= 0xc0 ? 1 : 0, i;
	uint32_t c = more ? u[0] & (0x3fu >> more) : u[0];

	for (i = 1; i <= more && (u[i] & 0xc0) == 0x80; i++)
		c = c << 6 | (u[i] & 0x3fu);
	*ret_len = i;
	return (wchar_t)c;
}

/* wcwidth asks the locale which characters there are: one that knows them, whatever LANG says */
static unsigned char_width(wchar_t c)
{
	static locale_t utf8;
	locale_t before;
	int n;

	if (c < 0x80)
		return 1;
	if (!utf8)
		utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	if (!utf8)
		return 1;
	before = uselocale(utf8);
	n = wcwidth(c);
	(void)uselocale(before);
	return n < 0 ? 1 : (unsigned)n;
}

unsigned out_width(const char *s)
{
	unsigned n = 0;
	size_t len;

	for (; *s; s += len)
		n += char_width(decode(s, &len));
	return n;
}

/* how many bytes of @s take at the most @room columns; *ret_width: what they take */
static size_t fitting(const char *s, unsigned room, unsigned *ret_width)
{
	size_t at = 0, len;

	*ret_width = 0;
	for (; s[at]; at += len) {
		unsigned w = char_width(decode(s + at, &len));

		if (*ret_width + w > room)
			break;
		*ret_width += w;
	}
	return at;
}

bool out_is_colored(enum color_when when, FILE *to)
{
	const char *force = getenv("CLICOLOR_FORCE"), *no = getenv("NO_COLOR"),
		   *cli = getenv("CLICOLOR"), *term = getenv("TERM");

	if (when != COLOR_AUTO)
		return when == COLOR_ALWAYS;
	if (no && *no)
		return false;
	if (force && *force && strcmp(force, "0") != 0)
		return true;
	return isatty(fileno(to)) && !(cli && strcmp(cli, "0") == 0) && term && *term &&
	       strcmp(term, "dumb") != 0;
}

void out_color(FILE *to, enum out_color color)
{
	static const char *const codes[] = {
		[OUT_PLAIN] = "0", [OUT_BOLD] = "1",   [OUT_DIM] = "2",
		[OUT_RED] = "31",  [OUT_GREEN] = "32", [OUT_YELLOW] = "33",
	};

	fprintf(to, "\033[%sm", codes[color]);
}

/* at the most @room columns of @s, the last of them "…" when it was cut */
static void print_cell(FILE *to, const char *s, unsigned room, bool right, bool last,
		       enum out_color color)
{
	unsigned wide = out_width(s), shown = wide, pad;
	bool is_cut = wide > room;
	size_t len = is_cut ? fitting(s, room - 1, &shown) : strlen(s);

	pad = room - (unsigned)size_min(room, shown + is_cut);
	fprintf(to, "%*s", right ? (int)pad : 0, "");
	if (color)
		out_color(to, color);
	fprintf(to, "%.*s%s", (int)len, s, is_cut ? "…" : "");
	if (color)
		out_color(to, OUT_PLAIN);
	fprintf(to, "%*s%s", right || last ? 0 : (int)pad, "", last ? "\n" : "  ");
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
	bool colored = out_is_colored(t->color, to);
	unsigned room[OUT_COLUMNS];

	for (unsigned c = 0; c < t->n_columns; c++) {
		room[c] = t->no_header ? 1 : out_width(t->title[c]);
		for (unsigned r = 0; r < t->n_rows; r++)
			if (out_width(t->rows[r].cell[c]) > room[c])
				room[c] = out_width(t->rows[r].cell[c]);
	}
	fit(t, room, terminal_width(to));
	for (unsigned c = 0; c < t->n_columns && !t->no_header; c++)
		print_cell(to, t->title[c], room[c], t->right[c], c + 1 == t->n_columns,
			   colored ? OUT_BOLD : OUT_PLAIN);
	for (unsigned r = 0; r < t->n_rows; r++)
		for (unsigned c = 0; c < t->n_columns; c++)
			print_cell(to, t->rows[r].cell[c], room[c], t->right[c],
				   c + 1 == t->n_columns,
				   colored ? t->rows[r].color[c] : OUT_PLAIN);
	out_table_drop(t);
}

void out_table_drop(struct out_table *t)
{
	free(t->rows);
	t->rows = NULL;
	t->n_rows = t->room = 0;
}
