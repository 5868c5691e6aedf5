// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_OUT_H
#define CLI_OUT_H

/*
 * What a read verb prints.  A verb makes flat JSON objects, one an item, with the names of the
 * interface; from them come -o json (with the envelope allot/v1) and -o csv; the table is text of
 * the verb's own.  Unknown is null, an empty cell, or "–": never 0.
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

/** out_u64 - a JSON number, or null for WIRE_UNKNOWN_U64 */
json_t *out_u64(uint64_t v);

/** out_u32 - the same for WIRE_UNKNOWN_U32 */
json_t *out_u32(uint32_t v);

/** out_pct - permille as percent with one decimal, or null */
json_t *out_pct(uint32_t permille);

/* ---- tables: rows of text, columns as wide as their widest cell ---- */

#define OUT_COLUMNS 12
#define OUT_CELL    640 /* what allotd tells in one field fits */

struct out_row {
	char cell[OUT_COLUMNS][OUT_CELL];
};

struct out_table {
	unsigned n_columns;
	const char *title[OUT_COLUMNS];
	bool right[OUT_COLUMNS]; /* numbers stand to the right */
	/* on a terminal too narrow for the table this column gives way, down to so many; 0: never
	 */
	unsigned least[OUT_COLUMNS];
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

#endif
