// SPDX-License-Identifier: Apache-2.0
#include "base/visible.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/fmt.h"

#define PREFIX_LEN 4 /* GPU-, MIG- */

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_name(const char *entry)
{
	return strncmp(entry, "GPU-", PREFIX_LEN) == 0 || strncmp(entry, "MIG-", PREFIX_LEN) == 0;
}

/* the only device whose name begins with the @len bytes of @entry, or -1 */
static int find_name(const char *entry, size_t len, const struct visible_device *devices,
		     unsigned n)
{
	bool is_mig = entry[0] == 'M';
	int found = -1;

	for (unsigned i = 0; i < n; i++) {
		struct fmt_buf name;
		size_t compared;

		if (devices[i].is_mig && !is_mig)
			continue;
		fmt_uuid(&name, "", devices[i].uuid);
		compared = strlen(name.s);
		if (compared > len - PREFIX_LEN)
			compared = len - PREFIX_LEN;
		if (strncasecmp(name.s, entry + PREFIX_LEN, compared) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

int visible_index(const char *entry, size_t len)
{
	size_t at = 0;
	bool is_negative;
	int64_t index = 0;

	while (at < len && is_blank(entry[at]))
		at++;
	is_negative = at < len && entry[at] == '-';
	if (at < len && (entry[at] == '-' || entry[at] == '+'))
		at++;
	if (at == len || entry[at] < '0' || entry[at] > '9')
		return -1;
	for (; at < len && entry[at] >= '0' && entry[at] <= '9'; at++) {
		int digit = entry[at] - '0';

		/* the largest there is, cut to 32 bits as every number is */
		if (index > (INT64_MAX - digit) / 10)
			return is_negative ? 0 : -1;
		index = index * 10 + digit;
	}
	return (int)(int32_t)(uint32_t)(uint64_t)(is_negative ? -index : index);
}

static int find_entry(const char *entry, size_t len, bool by_name,
		      const struct visible_device *devices, unsigned n)
{
	int index;

	if (by_name)
		return is_name(entry) ? find_name(entry, len, devices, n) : -1;
	index = visible_index(entry, len);
	return index >= 0 && (unsigned)index < n ? index : -1;
}

unsigned visible_pick(const char *list, const struct visible_device *devices, unsigned n,
		      unsigned *ret)
{
	unsigned picked = 0;
	bool by_name;

	if (!list) {
		for (; picked < n; picked++)
			ret[picked] = picked;
		return n;
	}
	by_name = is_name(list);
	while (picked <= n) {
		size_t len = strcspn(list, ",");
		int found = find_entry(list, len, by_name, devices, n);

		if (found < 0)
			break;
		ret[picked++] = (unsigned)found;
		if (!list[len])
			break;
		list += len + 1;
	}
	return picked;
}
