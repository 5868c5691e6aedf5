// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_SCHEMA_H
#define DAEMON_SCHEMA_H

/*
 * The tables of a state file, brought to the newest form.
 *
 * The file says in its user_version which step it stands at; 0 is a new, empty one.  An older file
 * is first copied to FILE.schema-N (the copy is whole or is not there), then takes the missing
 * steps in one transaction: afterwards it is either wholly new or wholly as it was, also after kill
 * -9 or on a full disk.  A newer file is refused and nothing is written to it.
 *
 * One thread; at the start of allotd, before anyone is served.
 */

#include <sqlite3.h>
#include <stdint.h>

struct err;

struct schema_step {
	uint32_t number; /* 1, 2, … */
	const char *what;
	const char *sql;
};

/** schema_steps - the steps of schema.def */
extern const struct schema_step schema_steps[];
extern const unsigned schema_steps_count;

/**
 * schema_check - may this file be opened for writing at all?
 * Writes nothing; call it before any setting that does.
 * Returns the step it stands at; -EPROTONOSUPPORT when it is newer than @n, -EUCLEAN when it is no
 * database or damaged, -EIO.
 */
int schema_check(sqlite3 *db, unsigned n, struct err *err);

/**
 * schema_bring - take the steps after @from
 * @path: of the file, for the copy that is kept of an older one
 * Returns 0; -EUCLEAN when the tables are not what a file of that step has; -EIO (a full disk, a
 * read-only folder): then the file is as it was.
 */
int schema_bring(sqlite3 *db, const char *path, unsigned from, const struct schema_step *steps,
		 unsigned n, struct err *err);

/** schema_error - the error of @db's last call as -EUCLEAN (damaged) or -EIO, with its text */
int schema_error(sqlite3 *db, struct err *err);

#endif
