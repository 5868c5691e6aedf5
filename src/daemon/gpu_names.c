// SPDX-License-Identifier: Apache-2.0
/* GPUs as people name them: gpus_parse of gpus.h */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/fmt.h"
#include "base/parse.h"
#include "daemon/gpus.h"

/* "0000:83:00.0", also without the domain, also with eight digits of it as nvidia-smi has them */
static bool is_pci_of(const char *word, const char *pci)
{
	size_t n = strlen(word), len = strlen(pci);

	if (strchr(word, ':') == NULL || strchr(word, '.') == NULL)
		return false;
	while (n > len && *word == '0') {
		word++;
		n--;
	}
	return n <= len && strcasecmp(word, pci + (len - n)) == 0 &&
	       (n == len || pci[len - n - 1] == ':');
}

/* the dashes do not matter, nor does GPU- (or MIG-) in front; at least one digit must be there */
static bool is_uuid_beginning(const char *word, const struct gpu *gpu)
{
	struct fmt_buf text;
	const char *p = fmt_uuid(&text, "", gpu->last.uuid.bytes);

	if (strncasecmp(word, "GPU-", 4) == 0 || strncasecmp(word, "MIG-", 4) == 0) {
		if (strncasecmp(word, gpus_uuid_prefix(gpu), 4) != 0)
			return false;
		word += 4;
	}
	if (!*word)
		return false;
	for (; *word; word++) {
		if (*word == '-')
			continue;
		while (*p == '-')
			p++;
		if (!*p || tolower((unsigned char)*word) != *p)
			return false;
		p++;
	}
	return true;
}

/* "0", "0:1", "0:5:0": how many numbers; 0: it is none of these */
static unsigned read_numbers(const char *word, uint64_t ret[3])
{
	for (unsigned n = 0; n < 3; n++) {
		size_t len = strcspn(word, ":");
		char one[8];

		if (len >= sizeof(one))
			return 0;
		memcpy(one, word, len);
		one[len] = '\0';
		if (parse_u64(one, 0, 9999, &ret[n], NULL) < 0)
			return 0;
		if (!word[len])
			return n + 1;
		word += len + 1;
	}
	return 0;
}

static bool has_numbers(const struct gpu *gpu, const uint64_t v[3], unsigned n)
{
	const struct sampler_gpu *last = &gpu->last;

	if (last->index != v[0] || gpus_is_instance(gpu) != (n > 1))
		return false;
	return n == 1 || (n == 2 ? last->mig_index == v[1] : last->gi == v[1] && last->ci == v[2]);
}

/* one that is there before one that is lost: instances come and go under the same numbers */
static int find_numbers(const struct gpus *g, const uint64_t v[3], unsigned n)
{
	int found = -ENOENT;

	for (unsigned i = 0; n && i < gpus_count(g); i++)
		if (has_numbers(gpus_at(g, i), v, n) && (found < 0 || !gpus_at(g, i)->is_lost))
			found = (int)i;
	return found;
}

static int find_named(const struct gpus *g, const char *word, struct err *err)
{
	uint64_t v[3];
	int found = find_numbers(g, v, read_numbers(word, v));

	if (found >= 0)
		return found; /* else a UUID may begin with digits only */
	for (unsigned i = 0; i < gpus_count(g); i++) {
		const struct gpu *gpu = gpus_at(g, i);

		if (!gpus_is_instance(gpu) && is_pci_of(word, gpu->last.pci_bus_id))
			return (int)i;
		if (!is_uuid_beginning(word, gpu))
			continue;
		if (found >= 0)
			return err_set(err, -EINVAL,
				       "GPU '%s' may be more than one: write more of it", word);
		found = (int)i;
	}
	if (found < 0 && strncasecmp(word, "MIG-GPU-", 8) == 0)
		return err_set(err, -ENOENT,
			       "no GPU '%s': instances have UUIDs of their own since driver 470 "
			       "('allot status' shows them)",
			       word);
	if (found < 0)
		return err_set(err, -ENOENT,
			       "no GPU '%s': 'allot status' lists the %u of this machine", word,
			       gpus_count(g));
	return found;
}

int gpus_parse(const struct gpus *g, const char *text, unsigned ret_numbers[WIRE_MAX_GPUS],
	       struct err *err)
{
	unsigned n = 0;

	for (const char *p = text;; p++) {
		size_t len = strcspn(p, ",");
		char word[64];
		int number;

		if (len == 0 || len >= sizeof(word))
			return err_set(err, -EINVAL, "'%.100s' is no list of GPUs", text);
		memcpy(word, p, len);
		word[len] = '\0';
		number = find_named(g, word, err);
		if (number < 0)
			return number;
		for (unsigned i = 0; i < n; i++)
			if (ret_numbers[i] == (unsigned)number)
				return err_set(err, -EINVAL, "GPU '%s' is named twice", word);
		if (n == WIRE_MAX_GPUS)
			return err_set(err, -EINVAL, "'%.100s' names more than %d GPUs", text,
				       WIRE_MAX_GPUS);
		ret_numbers[n++] = (unsigned)number;
		p += len;
		if (!*p)
			return (int)n;
	}
}
