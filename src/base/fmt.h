// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_FMT_H
#define BASE_FMT_H

/* Numbers for people: sizes in GiB/MiB with one decimal, durations as D-HH:MM:SS. */

#include <stddef.h>
#include <stdint.h>

#define FMT_SIZE_MAX 24
#define FMT_TIME_MAX 24
#define FMT_UUID_MAX 41 /* "GPU-" and 36 characters */

struct fmt_buf {
	char s[48];
};

/** fmt_size - "20.0 GiB", "512.0 MiB", "3 B" */
const char *fmt_size(struct fmt_buf *buf, uint64_t bytes);

/** fmt_duration - "45s", "12m30s", "1:12:40", "2-03:00:00" */
const char *fmt_duration(struct fmt_buf *buf, uint64_t ns);

/** fmt_uuid - "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" (or MIG- with @prefix "MIG-") */
const char *fmt_uuid(struct fmt_buf *buf, const char *prefix, const uint8_t uuid[16]);

#endif
