// SPDX-License-Identifier: Apache-2.0
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

/*
 * Values of options: text in, the field of struct config out, and back.  What value_print writes,
 * value_read reads to the same value.  Names of people come from /etc/passwd and /etc/group alone:
 * no name service that may be away is asked.
 */

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

enum config_type {
	CONFIG_TYPE_TIME,
	CONFIG_TYPE_WAIT,
	CONFIG_TYPE_NUMBER,
	CONFIG_TYPE_MODE,
	CONFIG_TYPE_CLASS,
	CONFIG_TYPE_FAIL_POLICY,
	CONFIG_TYPE_UNMANAGED,
	CONFIG_TYPE_LOG_LEVEL,
	CONFIG_TYPE_PATH,
	CONFIG_TYPE_AMOUNT,
	CONFIG_TYPE_VRAM,
	CONFIG_TYPE_WHEN_FULL,
	CONFIG_TYPE_PEOPLE, /* a list; its items one by one */
	CONFIG_TYPE_GROUP,
};

/** value_size - of the field */
size_t value_size(unsigned type);

/**
 * value_read - the whole of @text into @field
 * An item of a list is appended.  Returns 0; -EINVAL and others with a text, @field untouched.
 */
int value_read(const struct config_option *o, const char *text, void *field, struct err *err);

/** value_print - as one would write it; CONFIG_TEXT_MAX bytes */
void value_print(const struct config_option *o, const void *field, char *buf);

/** value_form - what can stand there, for people: "a time, as in 90s" */
const char *value_form(unsigned type);

#endif
