// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_ERR_H
#define BASE_ERR_H

/*
 * An error that a person will read: a code and a text, no heap.  Functions that can fail in a way
 * a user must understand take a last `struct err *err` (NULL allowed) and leave it untouched on
 * success.  Texts start in lower case, have no full stop, put the subject in single quotes and say
 * what to do next when that is known.
 */

#define ERR_TEXT_MAX 256

struct err {
	int code; /* negative errno */
	char text[ERR_TEXT_MAX];
};

/** err_set - fill @err (may be NULL) and return @code, so that `return err_set(...)` reads well */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/** err_append - put a text behind that of @err (may be NULL); returns @code */
int err_append(struct err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** err_prefix - put "prefix: " in front of the text of @err (may be NULL); returns its code */
int err_prefix(struct err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
