// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_FIELDS_H
#define CLI_FIELDS_H

/*
 * What a reading verb prints, described once: an object is a struct and a table of its fields.
 * Table, sheet, JSON and CSV come from that table and from nothing else, so a name cannot differ
 * between them and none can be forgotten.
 *
 *   JSON   {"schema":"allot/v1","kind":…,"time":…,"items":[…]}; numbers are numbers in base units
 *          with the unit in the name; what is not known is null
 *   CSV    RFC 4180 with the line ends of Unix: a header of the same names, then a record an item;
 *          not known is an empty cell; a list stands there as JSON
 *   table  the fields that have a title, in the order of `column`; not known is "–"
 *   sheet  one item, a line a field
 *
 * A row is the verb's own struct, filled before it is given away: texts of others must have gone
 * through str_printable.  One thread; nothing is kept of a row.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/cmd.h"
#include "cli/out.h"

enum field_kind {
	FIELD_TEXT,     /* char []: "" is not known */
	FIELD_STATE,    /* the same, coloured on a terminal */
	FIELD_U64,      /* uint64_t: WIRE_UNKNOWN_U64 is not known */
	FIELD_ID,       /* uint64_t: 0 is none */
	FIELD_U32,      /* uint32_t: WIRE_UNKNOWN_U32 is not known */
	FIELD_PID,      /* int32_t: 0 is none */
	FIELD_BYTES,    /* uint64_t: for people "1.5 GiB" */
	FIELD_SIGNED,   /* int64_t of bytes in a uint64_t: WIRE_UNKNOWN_U64 is not known */
	FIELD_PERMILLE, /* uint32_t: shown in percent */
	FIELD_MILLI,    /* uint32_t: thousandths of what the name says */
	FIELD_NS,       /* uint64_t: seconds in JSON, a duration for people */
	FIELD_TIME,     /* uint64_t: seconds since 1970, shown as RFC 3339; 0 is not known */
	FIELD_BOOL,     /* bool */
	FIELD_JSON,     /* json_t *: borrowed; NULL is not known */
};

struct field {
	const char *name;  /* in JSON and CSV; NULL: for people only */
	const char *title; /* for people; NULL: for programs only */
	enum field_kind kind;
	size_t offset;   /* in the object's struct */
	unsigned column; /* its place in the table, from 1; sheets keep the order of the fields */
	bool right;      /* numbers stand to the right */
	unsigned least;  /* out_table.least */
};

struct object {
	const char *kind; /* "ProcessList" */
	const struct field *fields;
	unsigned n_fields;
};

#define OBJECT(kind_name, table)                                                                \
	{                                                                                       \
		.kind = (kind_name), .fields = (table), .n_fields = (unsigned)ARRAY_SIZE(table) \
	}

/** what is being printed; begin, add …, then end or drop */
struct printer {
	const struct common *common;
	const struct object *object;
	json_t *items;
	struct out_table table;
	bool has_header;
};

/** printer_begin - @common and @object stay the caller's and must live until the end */
void printer_begin(struct printer *p, const struct common *common, const struct object *object);

/** printer_add - one item; 0, or -ENOMEM */
int printer_add(struct printer *p, const void *row);

/** printer_end - print; the exit status */
int printer_end(struct printer *p);

/** printer_drop - print nothing */
void printer_drop(struct printer *p);

/** sheet_print - one item for people, a line a field; what is not known is left out */
void sheet_print(const struct object *object, const void *row, FILE *to);

/** fields_json - an item as JSON, for lists inside another one; NULL: no memory */
json_t *fields_json(const struct object *object, const void *row);

#endif
