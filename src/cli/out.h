// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_OUT_H
#define CLI_OUT_H

/*
 * How things are printed: the envelope allot/v1, cells of CSV, tables as wide as the terminal, and
 * colours where a person looks.  What is printed is described by cli/fields.h.  Unknown is null, an
 * empty cell, or "–": never 0.
 *
 * Widths are counted in columns of the screen (wcwidth: a Chinese character takes two, a combining
 * accent none), whatever the locale says: the text is UTF-8.  Colours are used on a terminal alone,
 * unless --color or CLICOLOR_FORCE say otherwise; NO_COLOR, CLICOLOR=0 and TERM=dumb switch them
 * off.
 */

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/cmd.h"

/**
 * out_items - print @items (an array of flat objects) as JSON or CSV to stdout; takes it over
 * @shape: an item that gives CSV its header where there is none; may be NULL; taken over
 *
 * Returns the exit status; what could not be written is seen by main, after the last flush.
 */
int out_items(enum output form, const char *kind, json_t *items, json_t *shape);

/** out_csv_value - one cell of CSV to stdout, quoted where RFC 4180 wants it; null is empty */
void out_csv_value(const json_t *v);

/** out_u64 - a JSON number, or null for WIRE_UNKNOWN_U64 */
json_t *out_u64(uint64_t v);

/** out_u32 - the same for WIRE_UNKNOWN_U32 */
json_t *out_u32(uint32_t v);

/** out_pct - permille as percent with one decimal, or null */
json_t *out_pct(uint32_t permille);

/** out_width - columns on the screen that a text of UTF-8 takes */
unsigned out_width(const char *s);

enum out_color {
	OUT_PLAIN,
	OUT_BOLD,
	OUT_DIM,
	OUT_RED,
	OUT_GREEN,
	OUT_YELLOW,
};

/** out_is_colored - are colours to be used on @to? */
bool out_is_colored(enum color_when when, FILE *to);

/** out_color - begin that colour; OUT_PLAIN ends it */
void out_color(FILE *to, enum out_color color);

/* ---- tables: rows of text, columns as wide as their widest cell ---- */

#define OUT_COLUMNS 12
#define OUT_CELL    640 /* what allotd tells in one field fits */

struct out_row {
	char cell[OUT_COLUMNS][OUT_CELL];
	enum out_color color[OUT_COLUMNS];
};

struct out_table {
	unsigned n_columns;
	const char *title[OUT_COLUMNS];
	bool right[OUT_COLUMNS]; /* numbers stand to the right */
	/* on a terminal too narrow for the table this column gives way, down to so many; 0: never
	 */
	unsigned least[OUT_COLUMNS];
	bool no_header;
	enum color_when color;
	struct out_row *rows;
	unsigned n_rows, room;
};

/** out_row - a new empty row; NULL without memory */
struct out_row *out_row(struct out_table *t);

/**
 * out_table_print - print and free the rows
 *
 * Into a pipe or a file every cell is whole.  On a terminal a line is as wide as that at the most,
 * where the columns that may give way allow it; a cell that was cut ends in "…".
 */
void out_table_print(struct out_table *t, FILE *to);

/** out_table_drop - free the rows, print nothing */
void out_table_drop(struct out_table *t);

#endif
