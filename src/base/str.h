// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_STR_H
#define BASE_STR_H

/* Bounded strings.  Nothing here allocates except str_dup_printf. */

#include <stdbool.h>
#include <stddef.h>

/** str_copy - copy into @dst of @size bytes, always terminated; false when it was cut */
bool str_copy(char *dst, size_t size, const char *src);

/** str_print - snprintf that tells: false when the text was cut */
bool str_print(char *dst, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/** str_dup_printf - a heap string, or NULL */
char *str_dup_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

bool str_starts_with(const char *s, const char *prefix);

/** str_is_terminated - is there a NUL within @size bytes? (for what a peer sent) */
bool str_is_terminated(const char *s, size_t size);

/** str_distance - edit distance, for "did you mean"; strings over 63 bytes count as far apart */
unsigned str_distance(const char *a, const char *b);

/** str_nearest - the entry of @names (NULL-terminated) nearest to @word, or NULL when none is */
const char *str_nearest(const char *word, const char *const *names);

/**
 * str_printable - make foreign text fit for terminals and for JSON, in place
 *
 * What is no UTF-8 (also a character cut in two), control characters and what changes the direction
 * of writing become '?' each.  The text may become shorter, never longer.
 */
void str_printable(char *s);

#endif
