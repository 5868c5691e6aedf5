// SPDX-License-Identifier: Apache-2.0
/* one table of fields, and what becomes of it: JSON, CSV, table, sheet */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/fields.h"
#include "wire/wire.h"

struct thing {
	uint64_t id, bytes, drift, ns, when;
	uint32_t n, permille, milli;
	int32_t pid;
	char text[64], state[24];
	bool flag;
	json_t *list;
};

#define F(field, member) \
	.kind = FIELD_##field, .offset = offsetof(struct thing, member), .name = #member

static const struct field fields[] = {
	{ F(ID, id), .title = "ID", .column = 1, .right = true },
	{ F(BYTES, bytes), .title = "SIZE", .column = 3, .right = true },
	{ F(SIGNED, drift), .title = "DRIFT" },
	{ F(NS, ns) },
	{ F(TIME, when) },
	{ F(U32, n) },
	{ F(PERMILLE, permille) },
	{ F(MILLI, milli) },
	{ F(PID, pid) },
	{ F(TEXT, text), .title = "TEXT", .column = 2, .least = 4 },
	{ F(STATE, state), .title = "STATE", .column = 4 },
	{ F(BOOL, flag) },
	{ F(JSON, list), .title = "LIST" },
};
static const struct object object = OBJECT("ThingList", fields);

static const struct thing known = { .id = 7,
				    .bytes = 3ull << 30,
				    .drift = (uint64_t)-4096,
				    .ns = 1500000000,
				    .when = 86400,
				    .n = 3,
				    .permille = 125,
				    .milli = 1500,
				    .pid = 42,
				    .text = "plain",
				    .state = "running",
				    .flag = true };
static const struct thing unknown = { .bytes = WIRE_UNKNOWN_U64,
				      .drift = WIRE_UNKNOWN_U64,
				      .ns = WIRE_UNKNOWN_U64,
				      .n = WIRE_UNKNOWN_U32,
				      .permille = WIRE_UNKNOWN_U32,
				      .milli = WIRE_UNKNOWN_U32 };

static char printed[16384];
static int saved = -1, file = -1;

static void catch_begin(void)
{
	(void)fflush(stdout);
	file = memfd_create("stdout", MFD_CLOEXEC);
	saved = dup(1);
	assert_true(file >= 0 && saved >= 0 && dup2(file, 1) == 1);
}

static const char *catch_end(void)
{
	ssize_t n;

	(void)fflush(stdout);
	(void)dup2(saved, 1);
	n = pread(file, printed, sizeof(printed) - 1, 0);
	assert_true(n >= 0);
	printed[n] = '\0';
	close(file);
	close(saved);
	return printed;
}

static const char *print(struct common common, const struct thing *rows, unsigned n)
{
	struct printer p;
	int r;

	catch_begin();
	printer_begin(&p, &common, &object);
	for (unsigned i = 0; i < n; i++)
		if (printer_add(&p, &rows[i]) < 0)
			break;
	r = printer_end(&p);
	(void)catch_end();
	assert_int_equal(r, 0);
	return printed;
}

static void csv_is_rfc_4180(void **state)
{
	struct thing t = known;

	(void)state;
	t.list = json_pack("[i,s]", 1, "b");
	(void)str_copy(t.text, sizeof(t.text), "a \"quoted\", word");
	assert_string_equal(print((struct common){ .output = OUTPUT_CSV }, &t, 1),
			    "id,bytes,drift,ns,when,n,permille,milli,pid,text,state,flag,list\n"
			    "7,3221225472,-4096,1.5,1970-01-02T00:00:00Z,3,12.5,1.5,42,"
			    "\"a \"\"quoted\"\", word\",running,true,\"[1,\"\"b\"\"]\"\n");
	json_decref(t.list);
}

static void a_line_end_inside_a_cell_is_quoted(void **state)
{
	struct thing t = unknown;

	(void)state;
	(void)str_copy(t.text, sizeof(t.text), "two\nlines");
	assert_non_null(
		strstr(print((struct common){ .output = OUTPUT_CSV }, &t, 1), ",\"two\nlines\","));
}

static void csv_of_nothing_has_its_header(void **state)
{
	(void)state;
	assert_string_equal(print((struct common){ .output = OUTPUT_CSV }, NULL, 0),
			    "id,bytes,drift,ns,when,n,permille,milli,pid,text,state,flag,list\n");
	assert_string_equal(
		print((struct common){ .output = OUTPUT_CSV, .no_header = true }, NULL, 0), "");
}

static void unknown_is_empty_null_or_a_dash(void **state)
{
	json_t *doc, *item, *v;
	const char *key;
	unsigned nulls = 0;

	(void)state;
	assert_string_equal(
		print((struct common){ .output = OUTPUT_CSV, .no_header = true }, &unknown, 1),
		",,,,,,,,,,,false,\n");
	doc = json_loads(print((struct common){ .output = OUTPUT_JSON }, &unknown, 1), 0, NULL);
	assert_non_null(doc);
	assert_string_equal(json_string_value(json_object_get(doc, "schema")), "allot/v1");
	assert_string_equal(json_string_value(json_object_get(doc, "kind")), "ThingList");
	item = json_array_get(json_object_get(doc, "items"), 0);
	json_object_foreach(item, key, v)
	{
		nulls += json_is_null(v);
	}
	assert_int_equal(nulls, ARRAY_SIZE(fields) - 1);
	json_decref(doc);
	assert_string_equal(
		print((struct common){ .output = OUTPUT_TABLE, .no_header = true }, &unknown, 1),
		"–  –  –  –\n");
}

static void json_and_csv_have_the_same_names_in_the_same_order(void **state)
{
	char header[512], names[512] = "";
	json_t *doc, *item, *v;
	const char *key;

	(void)state;
	(void)str_copy(header, sizeof(header),
		       print((struct common){ .output = OUTPUT_CSV }, NULL, 0));
	doc = json_loads(print((struct common){ .output = OUTPUT_JSON }, &known, 1), 0, NULL);
	item = json_array_get(json_object_get(doc, "items"), 0);
	json_object_foreach(item, key, v)
	{
		size_t len = strlen(names);

		(void)str_print(names + len, sizeof(names) - len, "%s%s", len ? "," : "", key);
	}
	json_decref(doc);
	header[strcspn(header, "\n")] = '\0';
	assert_string_equal(names, header);
}

static void a_table_counts_columns_of_the_screen(void **state)
{
	struct thing t[2] = { known, known };

	(void)state;
	assert_int_equal(out_width("abc"), 3);
	assert_int_equal(out_width("名前"), 4);      /* two columns each */
	assert_int_equal(out_width("e\xcc\x81"), 1); /* a combining accent */
	assert_int_equal(out_width("–…"), 2);
	(void)str_copy(t[1].text, sizeof(t[1].text), "訓練");
	assert_string_equal(print((struct common){ .output = OUTPUT_TABLE }, t, 2),
			    "ID  TEXT      SIZE  STATE\n"
			    " 7  plain  3.0 GiB  running\n"
			    " 7  訓練   3.0 GiB  running\n");
}

static void colors_only_where_asked_for(void **state)
{
	struct thing t = known;

	(void)state;
	(void)str_copy(t.state, sizeof(t.state), "waiting-vram");
	assert_null(strchr(print((struct common){ .output = OUTPUT_TABLE }, &t, 1), '\033'));
	assert_non_null(strstr(print((struct common){ .color = COLOR_ALWAYS }, &t, 1),
			       "\033[33mwaiting-vram\033[0m"));
	setenv("CLICOLOR_FORCE", "1", 1);
	assert_non_null(strchr(print((struct common){ .output = OUTPUT_TABLE }, &t, 1), '\033'));
	setenv("NO_COLOR", "1", 1);
	assert_null(strchr(print((struct common){ .output = OUTPUT_TABLE }, &t, 1), '\033'));
	assert_null(
		strchr(print((struct common){ .output = OUTPUT_CSV, .color = COLOR_ALWAYS }, &t, 1),
		       '\033'));
	unsetenv("CLICOLOR_FORCE");
	unsetenv("NO_COLOR");
}

static void a_sheet_is_a_line_a_field(void **state)
{
	struct thing t = known;

	(void)state;
	t.list = json_pack("[i,i]", 1, 2);
	catch_begin();
	sheet_print(&object, &t, stdout);
	assert_string_equal(catch_end(), "ID     7\n"
					 "SIZE   3.0 GiB\n"
					 "DRIFT  -4.0 KiB\n"
					 "TEXT   plain\n"
					 "STATE  running\n"
					 "LIST   1, 2\n");
	json_decref(t.list);
	catch_begin();
	sheet_print(&object, &unknown, stdout);
	assert_string_equal(catch_end(), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_is_rfc_4180),
		cmocka_unit_test(a_line_end_inside_a_cell_is_quoted),
		cmocka_unit_test(csv_of_nothing_has_its_header),
		cmocka_unit_test(unknown_is_empty_null_or_a_dash),
		cmocka_unit_test(json_and_csv_have_the_same_names_in_the_same_order),
		cmocka_unit_test(a_table_counts_columns_of_the_screen),
		cmocka_unit_test(colors_only_where_asked_for),
		cmocka_unit_test(a_sheet_is_a_line_a_field),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
