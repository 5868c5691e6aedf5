// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, ap); /* a cut text is still a text */
	va_end(ap);
	return code;
}

int err_prefix(struct err *err, int code, const char *fmt, ...)
{
	char head[ERR_TEXT_MAX / 2];
	char tail[ERR_TEXT_MAX];
	va_list ap;

	if (!err)
		return code;
	va_start(ap, fmt);
	(void)vsnprintf(head, sizeof(head), fmt, ap);
	va_end(ap);
	memcpy(tail, err->text, sizeof(tail));
	tail[sizeof(tail) - 1] = '\0';
	err->code = code;
	(void)snprintf(err->text, sizeof(err->text), "%s: %.*s", head,
		       (int)(sizeof(err->text) - sizeof(head) - 3), tail);
	return code;
}

int err_append(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;
	size_t len;

	if (!err)
		return code;
	err->code = code;
	len = strnlen(err->text, sizeof(err->text) - 1);
	va_start(ap, fmt);
	(void)vsnprintf(err->text + len, sizeof(err->text) - len, fmt, ap); /* cut is fine */
	va_end(ap);
	return code;
}
