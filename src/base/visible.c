// SPDX-License-Identifier: Apache-2.0
#include "base/visible.h"

#include <string.h>
#include <strings.h>

#include "base/fmt.h"
#include "base/parse.h"

#define ENTRY_MAX 64 /* a longer one names nothing: a whole name has 40 characters */

/* the only device whose name begins with @entry, or -1 */
static int find_name(const char *entry, const struct visible_device *devices, unsigned n)
{
	size_t len = strlen(entry);
	int found = -1;

	if (strncasecmp(entry, "GPU-", 4) != 0 && strncasecmp(entry, "MIG-", 4) != 0)
		return -1;
	for (unsigned i = 0; i < n; i++) {
		struct fmt_buf name;

		fmt_uuid(&name, devices[i].is_mig ? "MIG-" : "GPU-", devices[i].uuid);
		if (strncasecmp(name.s, entry, len) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

static int find_entry(const char *entry, const struct visible_device *devices, unsigned n)
{
	uint64_t index;

	if (parse_u64(entry, 0, UINT32_MAX, &index, NULL) == 0)
		return index < n ? (int)index : -1;
	return find_name(entry, devices, n);
}

unsigned visible_pick(const char *list, const struct visible_device *devices, unsigned n,
		      unsigned *ret)
{
	unsigned picked = 0;

	if (!list) {
		for (; picked < n; picked++)
			ret[picked] = picked;
		return n;
	}
	while (picked <= n) {
		size_t all = strcspn(list, ","), lead = strspn(list, " \t"), len;
		char entry[ENTRY_MAX];
		int found;

		for (len = all - lead; len && strchr(" \t", list[lead + len - 1]); len--)
			;
		if (len == 0 || len >= sizeof(entry))
			break;
		memcpy(entry, list + lead, len);
		entry[len] = '\0';
		found = find_entry(entry, devices, n);
		if (found < 0)
			break;
		ret[picked++] = (unsigned)found;
		if (!list[all])
			break;
		list += all + 1;
	}
	return picked;
}
