// SPDX-License-Identifier: Apache-2.0
#include "config/gpu_id.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"

/* hex digits up to @end into *ret; the character after @end, or NULL */
static const char *take_hex(const char *s, char end, unsigned max_digits, uint32_t *ret)
{
	uint32_t v = 0;
	unsigned n = 0;

	for (; *s && *s != end; s++, n++) {
		unsigned d;

		if (*s >= '0' && *s <= '9')
			d = (unsigned)(*s - '0');
		else if ((*s | 32) >= 'a' && (*s | 32) <= 'f')
			d = (unsigned)((*s | 32) - 'a') + 10;
		else
			return NULL;
		if (n == max_digits)
			return NULL;
		v = v << 4 | d;
	}
	if (n == 0 || *s != end)
		return NULL;
	*ret = v;
	return end ? s + 1 : s;
}

/* "0000:83:00.0", "00000000:83:00.0", "83:00.0" */
static bool read_pci(const char *s, uint32_t ret[4])
{
	const char *first = strchr(s, ':');
	bool has_domain = first && strchr(first + 1, ':');

	ret[0] = 0;
	if (has_domain)
		s = take_hex(s, ':', 8, &ret[0]);
	s = s ? take_hex(s, ':', 2, &ret[1]) : NULL;
	s = s ? take_hex(s, '.', 2, &ret[2]) : NULL;
	return s && take_hex(s, '\0', 1, &ret[3]);
}

int gpu_id_read(const char *text, struct config_gpu_id *ret, struct err *err)
{
	struct config_gpu_id id = { 0 };
	uint64_t index;

	if (parse_u64(text, 0, 9999, &index, NULL) == 0) {
		id.has_index = true;
		id.index = (uint32_t)index;
	} else if (strchr(text, ':')) {
		if (!read_pci(text, id.pci))
			return err_set(err, -EINVAL,
				       "'%.60s' is no PCI address, as in 0000:83:00.0", text);
		id.has_pci = true;
	} else if (parse_uuid(text, id.uuid, NULL) == 0) {
		id.has_uuid = true;
	} else {
		return err_set(err, -EINVAL,
			       "'%.60s' is no GPU: write its index, its whole UUID or its PCI "
			       "address",
			       text);
	}
	*ret = id;
	return 0;
}

bool gpu_id_is(const struct config_gpu_id *id, const uint8_t uuid[16], unsigned index,
	       const char *pci)
{
	uint32_t at[4];

	if (id->has_index)
		return id->index == index;
	if (id->has_uuid)
		return memcmp(id->uuid, uuid, sizeof(id->uuid)) == 0;
	return id->has_pci && pci && read_pci(pci, at) && memcmp(id->pci, at, sizeof(at)) == 0;
}

bool gpu_id_is_same(const struct config_gpu_id *a, const struct config_gpu_id *b)
{
	return a->has_index == b->has_index && a->has_uuid == b->has_uuid &&
	       a->has_pci == b->has_pci && a->index == b->index &&
	       memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0 &&
	       memcmp(a->pci, b->pci, sizeof(a->pci)) == 0;
}
