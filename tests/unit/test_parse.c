// SPDX-License-Identifier: Apache-2.0
/* Field rows A17 and K12: what cannot be read is an error with the word in it, never "no limit". */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fmt.h"
#include "base/parse.h"
#include "base/size.h"

static void a17_sizes_that_are_good(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "8G", 8 * GIB },      { "8GB", 8 * GIB },         { "8GiB", 8 * GIB },
		{ "8g", 8 * GIB },      { "8192M", 8 * GIB },       { "512MiB", 512 * MIB },
		{ "1K", KIB },          { "1.5T", 3 * TIB / 2 },    { "0.5G", GIB / 2 },
		{ "20 GiB", 20 * GIB }, { "1048576T", 1ull << 60 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(good); i++) {
		uint64_t v = 0;

		assert_int_equal(parse_size(good[i].text, &v, NULL), 0);
		assert_int_equal(v, good[i].bytes);
	}
}

static void a17_sizes_that_are_refused(void **state)
{
	static const char *const bad[] = {
		"",           "8",         "G",    "-8G",   "+8G",      "0G",
		"0",          "0.0M",      "8X",   "8GG",   "8G ",      " 8G",
		"8.G",        "8..5G",     "1e3G", "0x10G", "8,5G",     "8Gi",
		"8K8",        "nan G",     "infG", "8 G B", "1048577T", "99999999999999999999G",
		"8.1234567G", "unlimited",
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = { 0 };
		uint64_t v = 77;

		assert_true(parse_size(bad[i], &v, &err) < 0);
		assert_int_equal(v, 77);
		assert_non_null(strstr(err.text, bad[i]));
	}
	for (unsigned i = 0; i < 2; i++) { /* no advice that is refused when it is followed */
		struct err err = { 0 };
		uint64_t v;

		assert_true(parse_size(i ? "0" : "0G", &v, &err) < 0);
		assert_non_null(strstr(err.text, "is nothing"));
	}
}

static void percents(void **state)
{
	static const char *const bad[] = { "0%",   "100.1%", "25",     "%",   "-1%",
					   "25%%", "0.05%",  "12.34%", "101%" };
	unsigned v = 7;

	(void)state;
	assert_int_equal(parse_percent("25%", &v, NULL), 0);
	assert_int_equal(v, 250);
	assert_int_equal(parse_percent("12.5 %", &v, NULL), 0);
	assert_int_equal(v, 125);
	assert_int_equal(parse_percent("100%", &v, NULL), 0);
	assert_int_equal(v, 1000);
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		v = 7;
		assert_true(parse_percent(bad[i], &v, NULL) < 0);
		assert_int_equal(v, 7);
	}
}

static void vram_requests_and_limits(void **state)
{
	static const char *const bad[] = { "8G:",  ":8G",   "8G:4G", "8G:4G:2G",  "50%:25%",
					   "8G:x", "8G:0G", "",      "unlimited", "8:16G" };
	struct parse_amount request, limit;

	(void)state;
	assert_int_equal(parse_vram("8G", &request, &limit, NULL), 0);
	assert_int_equal(request.bytes, 8 * GIB);
	assert_int_equal(limit.bytes, 8 * GIB);
	assert_int_equal(parse_vram("6G:50%", &request, &limit, NULL), 0);
	assert_int_equal(request.bytes, 6 * GIB);
	assert_int_equal(limit.bytes, 0);
	assert_int_equal(limit.permille, 500);
	assert_int_equal(parse_vram("6G:unlimited", &request, &limit, NULL), 0);
	assert_int_equal(limit.bytes | limit.permille, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		assert_true(parse_vram(bad[i], &request, &limit, NULL) < 0);
}

static void durations(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{ "90s", 90 * NS_PER_S },
		{ "30m", 1800 * NS_PER_S },
		{ "1h30m", 5400 * NS_PER_S },
		{ "500ms", 500 * NS_PER_MS },
		{ "0s", 0 },
		{ "2d", 172800 * NS_PER_S },
		{ "01:30", 90 * NS_PER_S },
		{ "1:00:00", 3600 * NS_PER_S },
		{ "1-02", 93600 * NS_PER_S },
		{ "1-02:03:04", 93784 * NS_PER_S },
	};
	static const char *const bad[] = { "",        "5", "5x", "-5s", "5s5",
					   "1:2:3:4", ":", "1-", "5 s", "99999999999999999999d",
					   "5mm" };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(good); i++) {
		uint64_t v = 1;

		assert_int_equal(parse_duration(good[i].text, &v, NULL), 0);
		assert_int_equal(v, good[i].ns);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		uint64_t v = 7;

		assert_true(parse_duration(bad[i], &v, NULL) < 0);
		assert_int_equal(v, 7);
	}
}

static void numbers_and_uuids(void **state)
{
	uint8_t uuid[16];
	struct fmt_buf buf;
	uint64_t v = 7;

	(void)state;
	assert_int_equal(parse_u64("18446744073709551615", 0, UINT64_MAX, &v, NULL), 0);
	assert_true(v == UINT64_MAX);
	assert_true(parse_u64("18446744073709551616", 0, UINT64_MAX, &v, NULL) < 0);
	assert_true(parse_u64("5", 6, 9, &v, NULL) == -ERANGE);
	assert_true(parse_u64("5 ", 0, 9, &v, NULL) < 0);
	assert_int_equal(parse_uuid("GPU-01234567-89ab-cdef-0123-456789ABCDEF", uuid, NULL), 0);
	assert_string_equal(fmt_uuid(&buf, "GPU-", uuid),
			    "GPU-01234567-89ab-cdef-0123-456789abcdef");
	assert_true(parse_uuid("GPU-0123", uuid, NULL) < 0);
	assert_true(parse_uuid("GPU-01234567-89ab-cdef-0123-456789ABCDEG", uuid, NULL) < 0);
	assert_true(parse_uuid("GPU-01234567-89ab-cdef-0123-456789ABCDEF0", uuid, NULL) < 0);
}

static void sizes_for_people(void **state)
{
	struct fmt_buf b;

	(void)state;
	assert_string_equal(fmt_size(&b, 0), "0 B");
	assert_string_equal(fmt_size(&b, 1023), "1023 B");
	assert_string_equal(fmt_size(&b, 20 * GIB), "20.0 GiB");
	assert_string_equal(fmt_size(&b, 143771 * MIB), "140.4 GiB");
	assert_string_equal(fmt_size(&b, 2 * MIB + MIB / 2), "2.5 MiB");
	assert_string_equal(fmt_duration(&b, 45 * NS_PER_S), "45s");
	assert_string_equal(fmt_duration(&b, 4360 * NS_PER_S), "1:12:40");
}

static void a1_bytes_never_wrap(void **state)
{
	uint64_t v = 7;

	(void)state;
	assert_false(size_add(UINT64_MAX, 1, &v));
	assert_false(size_mul(UINT64_MAX / 2, 3, &v));
	assert_int_equal(v, 7);
	assert_int_equal(size_sat_sub(1, 2), 0);
	assert_true(size_sat_add(UINT64_MAX, 2) == UINT64_MAX);
	assert_int_equal(size_round_up(1, 2 * MIB), 2 * MIB);
	assert_int_equal(size_round_up(2 * MIB, 2 * MIB), 2 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a17_sizes_that_are_good),
		cmocka_unit_test(a17_sizes_that_are_refused),
		cmocka_unit_test(percents),
		cmocka_unit_test(vram_requests_and_limits),
		cmocka_unit_test(durations),
		cmocka_unit_test(numbers_and_uuids),
		cmocka_unit_test(sizes_for_people),
		cmocka_unit_test(a1_bytes_never_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
