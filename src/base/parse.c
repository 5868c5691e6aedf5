// SPDX-License-Identifier: Apache-2.0
#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "base/str.h"

#define PARSE_SIZE_MAX     ((uint64_t)1 << 60)
#define PARSE_DURATION_MAX ((uint64_t)100 * 365 * 86400 * NS_PER_S / 40) /* 2.5 years in ns */
#define AMOUNT_TEXT_MAX    64

/* digits at *s into *ret; advances *s; false when there is none or it would wrap */
static bool take_digits(const char **s, uint64_t *ret)
{
	uint64_t v = 0;
	const char *p = *s;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		if (!size_mul(v, 10, &v) || !size_add(v, (uint64_t)(*p - '0'), &v))
			return false;
	*s = p;
	*ret = v;
	return true;
}

/* ".25" at *s as millionths; at most 6 digits, so that nothing is dropped unseen */
static bool take_fraction(const char **s, uint64_t *ret_millionths)
{
	const char *p = *s;
	uint64_t v = 0, scale = 1000000;

	*ret_millionths = 0;
	if (*p != '.')
		return true;
	for (p++; *p >= '0' && *p <= '9'; p++) {
		scale /= 10;
		if (scale == 0)
			return false;
		v += (uint64_t)(*p - '0') * scale;
	}
	if (p == *s + 1)
		return false;
	*s = p;
	*ret_millionths = v;
	return true;
}

int parse_u64(const char *s, uint64_t lo, uint64_t hi, uint64_t *ret, struct err *err)
{
	const char *p = s;
	uint64_t v;

	if (!take_digits(&p, &v) || *p)
		return err_set(err, -EINVAL, "'%s' is not a whole number", s);
	if (v < lo || v > hi)
		return err_set(err, -ERANGE, "'%s' is not in %llu … %llu", s,
			       (unsigned long long)lo, (unsigned long long)hi);
	*ret = v;
	return 0;
}

static bool size_unit(const char *s, uint64_t *ret_unit)
{
	static const struct {
		const char *name;
		uint64_t unit;
	} units[] = {
		{ "K", KIB },   { "KB", KIB },  { "KiB", KIB }, { "M", MIB },
		{ "MB", MIB },  { "MiB", MIB }, { "G", GIB },   { "GB", GIB },
		{ "GiB", GIB }, { "T", TIB },   { "TB", TIB },  { "TiB", TIB },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcasecmp(s, units[i].name) == 0) {
			*ret_unit = units[i].unit;
			return true;
		}
	}
	return false;
}

int parse_size(const char *s, uint64_t *ret_bytes, struct err *err)
{
	uint64_t whole, millionths, unit, bytes, part;
	const char *p = s;

	if (!take_digits(&p, &whole) || !take_fraction(&p, &millionths))
		return err_set(err, -EINVAL, "size '%s' is not a number with a unit, as in 8G", s);
	if (*p == ' ')
		p++;
	if (!*p && (whole || millionths))
		return err_set(err, -EINVAL, "size '%s' has no unit: write %sG or %sM", s, s, s);
	if (!*p)
		unit = 1; /* of nothing: told of below */
	else if (!size_unit(p, &unit))
		return err_set(err, -EINVAL, "size '%s': unknown unit '%s' (K, M, G, T)", s, p);
	/* unit is at most 2^40 and millionths below 10^6, so the product stays below 2^60 */
	part = unit * millionths / 1000000;
	if (!size_mul(whole, unit, &bytes) || !size_add(bytes, part, &bytes) ||
	    bytes > PARSE_SIZE_MAX)
		return err_set(err, -ERANGE, "size '%s' is larger than any card", s);
	if (bytes == 0)
		return err_set(err, -ERANGE,
			       "size '%s' is nothing: leave it out for no request, "
			       "write 'unlimited' for no limit",
			       s);
	*ret_bytes = bytes;
	return 0;
}

int parse_percent(const char *s, unsigned *ret_permille, struct err *err)
{
	uint64_t whole, millionths, permille;
	const char *p = s;

	if (!take_digits(&p, &whole) || !take_fraction(&p, &millionths))
		return err_set(err, -EINVAL, "percentage '%s' is not a number, as in 25%%", s);
	if (*p == ' ')
		p++;
	if (strcmp(p, "%") != 0)
		return err_set(err, -EINVAL, "percentage '%s' must end in %%", s);
	if (whole > 100 || millionths % 100000)
		return err_set(err, -ERANGE, "percentage '%s' is not in 0.1 … 100 in steps of 0.1",
			       s);
	permille = whole * 10 + millionths / 100000;
	if (permille < 1 || permille > 1000)
		return err_set(err, -ERANGE, "percentage '%s' is not in 0.1 … 100", s);
	*ret_permille = (unsigned)permille;
	return 0;
}

static int parse_amount(const char *s, struct parse_amount *ret, struct err *err)
{
	struct parse_amount a = { 0 };
	int r = strchr(s, '%') ? parse_percent(s, &a.permille, err) : parse_size(s, &a.bytes, err);

	if (r == 0)
		*ret = a;
	return r;
}

int parse_vram(const char *s, struct parse_amount *ret_request, struct parse_amount *ret_limit,
	       struct err *err)
{
	struct parse_amount request, limit;
	char head[AMOUNT_TEXT_MAX];
	const char *colon = strchr(s, ':');
	int r;

	if (!colon) {
		r = parse_amount(s, &request, err);
		if (r < 0)
			return r;
		*ret_request = *ret_limit = request;
		return 0;
	}
	if ((size_t)(colon - s) >= sizeof(head))
		return err_set(err, -EINVAL, "size '%.40s…' is too long", s);
	memcpy(head, s, (size_t)(colon - s));
	head[colon - s] = '\0';
	r = parse_amount(head, &request, err);
	if (r < 0)
		return r;
	if (strcmp(colon + 1, "unlimited") == 0)
		limit = (struct parse_amount){ 0 };
	else
		r = parse_amount(colon + 1, &limit, err);
	if (r < 0)
		return r;
	if ((limit.bytes && request.bytes > limit.bytes) ||
	    (limit.permille && request.permille > limit.permille))
		return err_set(err, -ERANGE, "'%s': the request is larger than the limit", s);
	*ret_request = request;
	*ret_limit = limit;
	return 0;
}

/* [D-]HH:MM:SS or MM:SS, as Slurm writes times */
static bool slurm_time(const char *s, uint64_t *ret_s)
{
	uint64_t part[3], days = 0;
	unsigned n = 0;
	const char *dash = strchr(s, '-');

	if (dash) {
		if (!take_digits(&s, &days) || s != dash)
			return false;
		s++;
	}
	for (;;) {
		if (n == 3 || !take_digits(&s, &part[n]) || part[n] > 1000000)
			return false;
		n++;
		if (*s != ':')
			break;
		s++;
	}
	if (*s || days > 100000 || (n == 1 && !dash))
		return false;
	if (dash) /* D-HH[:MM[:SS]] */
		*ret_s = days * 86400 + part[0] * 3600 + (n > 1 ? part[1] * 60 : 0) +
			 (n > 2 ? part[2] : 0);
	else if (n == 2)
		*ret_s = part[0] * 60 + part[1];
	else
		*ret_s = part[0] * 3600 + part[1] * 60 + part[2];
	return true;
}

int parse_duration(const char *s, uint64_t *ret_ns, struct err *err)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "ms", NS_PER_MS },
		      { "s", NS_PER_S },
		      { "m", 60 * NS_PER_S },
		      { "h", 3600 * NS_PER_S },
		      { "d", 86400 * NS_PER_S } };
	uint64_t total = 0;
	const char *p = s;

	if (strpbrk(s, ":-")) {
		if (!slurm_time(s, &total) || !size_mul(total, NS_PER_S, &total))
			return err_set(err, -EINVAL, "time '%s' is not [D-]HH:MM:SS", s);
		*ret_ns = total;
		return 0;
	}
	do {
		uint64_t v, term;
		unsigned i;

		if (!take_digits(&p, &v))
			return err_set(err, -EINVAL,
				       "time '%s' is not a number with a unit, "
				       "as in 90s or 5m",
				       s);
		if (!*p)
			return err_set(err, -EINVAL, "time '%s' has no unit: s, m, h or d", s);
		for (i = 0; i < ARRAY_SIZE(units); i++) {
			size_t len = strlen(units[i].name);

			/* "m" must not swallow the beginning of "ms" */
			if (strncmp(p, units[i].name, len) == 0 && !isalpha((unsigned char)p[len]))
				break;
		}
		if (i == ARRAY_SIZE(units))
			return err_set(err, -EINVAL,
				       "time '%s': unknown unit '%s' "
				       "(ms, s, m, h, d)",
				       s, p);
		p += strlen(units[i].name);
		if (!size_mul(v, units[i].ns, &term) || !size_add(total, term, &total) ||
		    total > PARSE_DURATION_MAX)
			return err_set(err, -ERANGE, "time '%s' is too long", s);
	} while (*p);
	*ret_ns = total;
	return 0;
}

int parse_uuid(const char *s, uint8_t ret_uuid[16], struct err *err)
{
	uint8_t uuid[16] = { 0 };
	unsigned n = 0;
	const char *p = s;

	if (str_starts_with(p, "GPU-") || str_starts_with(p, "MIG-"))
		p += 4;
	for (; *p; p++) {
		unsigned v;

		if (*p == '-')
			continue;
		if (*p >= '0' && *p <= '9')
			v = (unsigned)(*p - '0');
		else if (tolower((unsigned char)*p) >= 'a' && tolower((unsigned char)*p) <= 'f')
			v = (unsigned)(tolower((unsigned char)*p) - 'a') + 10;
		else
			return err_set(err, -EINVAL, "'%s' is not a UUID", s);
		if (n == 32)
			return err_set(err, -EINVAL, "'%s' is longer than a UUID", s);
		uuid[n / 2] = (uint8_t)(uuid[n / 2] << 4 | v);
		n++;
	}
	if (n != 32)
		return err_set(err, -EINVAL, "'%s' is not a whole UUID", s);
	memcpy(ret_uuid, uuid, sizeof(uuid));
	return 0;
}
