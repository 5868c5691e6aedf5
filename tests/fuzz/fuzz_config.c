// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as allot.yaml: they are read whole or refused with places that lie inside the text, and
 * what was read is printed in a form that is read back to the same.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "config/config.h"
#include "fuzz.h"

static void check_mistakes(const struct config_report *report, size_t size)
{
	char line[512];

	assert(report->n > 0 && report->n <= CONFIG_MISTAKES_MAX);
	for (unsigned i = 0; i < report->n; i++) {
		assert(report->at[i].text[0]);
		assert(str_is_terminated(report->at[i].text, sizeof(report->at[i].text)));
		assert(report->at[i].line <= size + 1 && report->at[i].column <= size + 1);
		config_mistake_text("f", &report->at[i], line, sizeof(line));
		assert(!strchr(line, '\n') && !strchr(line, '\x1b'));
	}
}

static void check_values(const struct config *c)
{
	static struct config again;
	static const uint8_t uuid[16] = { 1 };
	char text[CONFIG_TEXT_MAX], second[CONFIG_TEXT_MAX];

	config_defaults(&again);
	for (unsigned i = 0; i < CONFIG_N_OPTIONS; i++) {
		config_text(c, i, text);
		if (!*text || *text == '[') /* no path; a list */
			continue;
		assert(config_override(&again, i, CONFIG_FROM_FLAG, text, NULL) == 0);
		config_text(&again, i, second);
		assert(strcmp(text, second) == 0);
	}
	(void)config_gpu(c, uuid, 0, "0000:01:00.0", "model");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct config c;
	static struct config_report report;
	enum config_mode mode = size % 2 ? CONFIG_MODE_ANY : CONFIG_MODE_USER;

	if (config_read_text((const char *)data, size, "f", mode, &c, &report) < 0) {
		check_mistakes(&report, size);
		return 0;
	}
	assert(report.n == 0);
	check_values(&c);
	return 0;
}
