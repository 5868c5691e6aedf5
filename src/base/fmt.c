// SPDX-License-Identifier: Apache-2.0
#include "base/fmt.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/size.h"
#include "base/str.h"

const char *fmt_size(struct fmt_buf *buf, uint64_t bytes)
{
	static const struct {
		uint64_t unit;
		const char *name;
	} units[] = { { TIB, "TiB" }, { GIB, "GiB" }, { MIB, "MiB" }, { KIB, "KiB" } };

	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		uint64_t whole = bytes / units[i].unit;

		/* up to 9999 GiB read better than 9.8 TiB: cards are named in GiB */
		if (whole == 0 || (units[i].unit == TIB && whole < 10))
			continue;
		(void)str_print(buf->s, sizeof(buf->s), "%" PRIu64 ".%u %s", whole,
				(unsigned)((bytes % units[i].unit) * 10 / units[i].unit),
				units[i].name);
		return buf->s;
	}
	(void)str_print(buf->s, sizeof(buf->s), "%" PRIu64 " B", bytes);
	return buf->s;
}

const char *fmt_duration(struct fmt_buf *buf, uint64_t ns)
{
	uint64_t s = ns / NS_PER_S;
	unsigned d = (unsigned)(s / 86400), h = (unsigned)(s / 3600 % 24);
	unsigned m = (unsigned)(s / 60 % 60), sec = (unsigned)(s % 60);

	if (d > 0)
		(void)str_print(buf->s, sizeof(buf->s), "%u-%02u:%02u:%02u", d, h, m, sec);
	else if (h > 0)
		(void)str_print(buf->s, sizeof(buf->s), "%u:%02u:%02u", h, m, sec);
	else if (m > 0)
		(void)str_print(buf->s, sizeof(buf->s), "%um%02us", m, sec);
	else
		(void)str_print(buf->s, sizeof(buf->s), "%us", sec);
	return buf->s;
}

const char *fmt_uuid(struct fmt_buf *buf, const char *prefix, const uint8_t u[16])
{
	(void)str_print(buf->s, sizeof(buf->s),
			"%s%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
			prefix, u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10],
			u[11], u[12], u[13], u[14], u[15]);
	return buf->s;
}
