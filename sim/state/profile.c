// SPDX-License-Identifier: Apache-2.0
#include "sim/state/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/size.h"
#include "base/str.h"

#define FILE_MAX  ((size_t)64 << 10)
#define LINE_SIZE 256

/* sim/profiles/h200.conf itself, so that its facts stand in one place */
__asm__(".pushsection .rodata\n"
	"sim_profile_h200:\n"
	".incbin \"" SIM_H200_CONF "\"\n"
	"sim_profile_h200_end:\n"
	".popsection\n");
extern const char sim_profile_h200[] __attribute__((visibility("hidden")));
extern const char sim_profile_h200_end[] __attribute__((visibility("hidden")));

enum kind {
	KIND_TEXT,
	KIND_U32,
	KIND_SIZE,
	KIND_TIME,
	KIND_UUID,
	KIND_PCI,
	KIND_CC,
	KIND_HEX,
	KIND_PROFILE
};

struct key {
	const char *name;
	enum kind kind;
	size_t offset;
	uint64_t low, high; /* U32 and SIZE and TIME */
};

#define DEVICE(field) offsetof(struct sim_device_info, field)

static const struct key device_keys[] = {
	{ "name", KIND_TEXT, DEVICE(name), 0, 0 },
	{ "uuid", KIND_UUID, DEVICE(uuid), 0, 0 },
	{ "pci", KIND_PCI, DEVICE(pci_domain), 0, 0 },
	{ "memory", KIND_SIZE, DEVICE(memory_bytes), 64 * MIB, 64 * TIB },
	{ "reserved", KIND_SIZE, DEVICE(reserved_bytes), 1, 64 * TIB },
	{ "pci_device_id", KIND_HEX, DEVICE(pci_device_id), 0, 0 },
	{ "pci_subsystem_id", KIND_HEX, DEVICE(pci_subsystem_id), 0, 0 },
	{ "sms", KIND_U32, DEVICE(sms), 1, 1024 },
	{ "compute_capability", KIND_CC, DEVICE(cc_major), 0, 0 },
	{ "clock_khz", KIND_U32, DEVICE(clock_khz), 1, 100000000 },
	{ "memory_clock_khz", KIND_U32, DEVICE(memory_clock_khz), 1, 100000000 },
	{ "bus_width", KIND_U32, DEVICE(bus_width_bits), 1, 65536 },
	{ "l2", KIND_SIZE, DEVICE(l2_bytes), 1, TIB },
	{ "speed", KIND_U32, DEVICE(speed), 1, 1000000 },
	{ "context", KIND_SIZE, DEVICE(context_bytes), 1, TIB },
	{ "stream", KIND_SIZE, DEVICE(stream_bytes), 1, TIB },
	{ "module", KIND_SIZE, DEVICE(module_bytes), 1, TIB },
	{ "temperature", KIND_U32, DEVICE(temperature_c), 0, 200 },
	{ "power_mw", KIND_U32, DEVICE(power_mw), 0, 10000000 },
	{ "power_limit_mw", KIND_U32, DEVICE(power_limit_mw), 0, 10000000 },
	{ "idle_power_mw", KIND_U32, DEVICE(idle_power_mw), 0, 10000000 },
	{ "launch", KIND_TIME, DEVICE(launch_ns), 0, 0 },
	{ "kernel", KIND_TIME, DEVICE(kernel_ns), 0, 0 },
	{ "switch", KIND_TIME, DEVICE(switch_ns), 0, 0 },
	{ "context_time", KIND_TIME, DEVICE(context_ns), 0, 0 },
	{ "copy_rate", KIND_SIZE, DEVICE(copy_bytes_per_s), MIB, 64 * TIB },
	{ "device_copy_rate", KIND_SIZE, DEVICE(device_copy_bytes_per_s), MIB, 64 * TIB },
	{ "mig", KIND_U32, DEVICE(mig_mode), 0, 1 },
};

static const struct key instance_keys[] = {
	{ "profile", KIND_PROFILE, DEVICE(mig_profile), 0, 0 },
	{ "uuid", KIND_UUID, DEVICE(uuid), 0, 0 },
	{ "memory", KIND_SIZE, DEVICE(memory_bytes), 64 * MIB, 64 * TIB },
	{ "gi", KIND_U32, DEVICE(gi), 0, 255 },
	{ "ci", KIND_U32, DEVICE(ci), 0, 255 },
	{ "reserved", KIND_SIZE, DEVICE(reserved_bytes), 1, 64 * TIB },
	{ "sms", KIND_U32, DEVICE(sms), 1, 1024 },
	{ "context", KIND_SIZE, DEVICE(context_bytes), 1, TIB },
};

static const struct key machine_keys[] = {
	{ "driver_version", KIND_TEXT, offsetof(struct sim_profile, driver_version), 0, 0 },
	{ "cuda_version", KIND_U32, offsetof(struct sim_profile, cuda_version), 2000, 99990 },
};

#define KEYS_NEEDED 4 /* the first four of device_keys */

_Static_assert(ARRAY_SIZE(device_keys) <= 64, "one bit a key");

struct parser {
	const char *name;
	unsigned line;
	struct sim_profile *profile;
	struct sim_device_info *device; /* NULL before the first section */
	uint32_t card;                  /* the last [device]'s place */
	uint32_t entries;               /* cards and instances so far, in the file's order */
	uint64_t seen;                  /* bit n: device_keys[n] */
	uint64_t machine_seen;
	struct err *err;
};

static int fail(const struct parser *p, const char *what, const char *word)
{
	char shown[48];

	str_copy(shown, sizeof(shown), word);
	str_printable(shown);
	return err_set(p->err, -EINVAL, "%s:%u: %s '%s'", p->name, p->line, what, shown);
}

/* "2us", "20ms", "1s", "500ns": whole numbers up to an hour */
static int parse_time(const char *s, uint64_t *ret_ns)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 } };
	size_t digits = strspn(s, "0123456789");
	char number[24];
	uint64_t value, ns;

	if (!digits || digits >= sizeof(number))
		return -EINVAL;
	memcpy(number, s, digits);
	number[digits] = '\0';
	if (parse_u64(number, 0, UINT64_MAX, &value, NULL))
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(s + digits, units[i].unit))
			continue;
		if (!size_mul(value, units[i].ns, &ns) || ns > (uint64_t)3600 * 1000000000)
			return -ERANGE;
		*ret_ns = ns;
		return 0;
	}
	return -EINVAL;
}

static bool parse_hex(const char **s, size_t width, char end, uint32_t *ret)
{
	uint32_t value = 0;

	for (size_t i = 0; i < width; i++) {
		char c = *(*s)++;
		uint32_t digit;

		if (c >= '0' && c <= '9')
			digit = (uint32_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			digit = (uint32_t)(c - 'a') + 10;
		else if (c >= 'A' && c <= 'F')
			digit = (uint32_t)(c - 'A') + 10;
		else
			return false;
		value = value << 4 | digit;
	}
	if (*(*s)++ != end)
		return false;
	*ret = value;
	return true;
}

/* "00000000:0F:00.0", as nvidia-smi writes it */
static int parse_pci(const char *s, struct sim_device_info *device)
{
	uint32_t domain, bus, slot, function;

	if (!parse_hex(&s, 8, ':', &domain) || !parse_hex(&s, 2, ':', &bus) ||
	    !parse_hex(&s, 2, '.', &slot) || !parse_hex(&s, 1, '\0', &function))
		return -EINVAL;
	if (slot > 31 || function)
		return -ERANGE;
	device->pci_domain = domain;
	device->pci_bus = bus;
	device->pci_device = slot;
	return 0;
}

/* "233510DE": device and vendor */
static int parse_id(const char *s, uint32_t *ret)
{
	return parse_hex(&s, 8, '\0', ret) ? 0 : -EINVAL;
}

static int parse_cc(const char *s, struct sim_device_info *device)
{
	if (!(s[0] >= '1' && s[0] <= '9' && s[1] == '.' && s[2] >= '0' && s[2] <= '9' && !s[3]) &&
	    !(s[0] == '1' && s[1] >= '0' && s[1] <= '9' && s[2] == '.' && s[3] >= '0' &&
	      s[3] <= '9' && !s[4]))
		return -EINVAL;
	if (s[1] == '.') {
		device->cc_major = (uint32_t)(s[0] - '0');
		device->cc_minor = (uint32_t)(s[2] - '0');
	} else {
		device->cc_major = 10 + (uint32_t)(s[1] - '0');
		device->cc_minor = (uint32_t)(s[3] - '0');
	}
	return 0;
}

static int set_value(const struct parser *p, const struct key *key, void *base, const char *value)
{
	char *field = (char *)base + key->offset;
	uint64_t number = 0;
	size_t room;
	int r = 0;

	switch (key->kind) {
	case KIND_TEXT:
		room = p->device ? sizeof(p->device->name) : sizeof(p->profile->driver_version);
		if (!*value || !str_copy(field, room, value))
			r = -EINVAL;
		break;
	case KIND_PROFILE:
		if (!*value || !str_copy(field, sizeof(p->device->mig_profile), value))
			r = -EINVAL;
		break;
	case KIND_U32:
		r = parse_u64(value, key->low, key->high, &number, NULL);
		if (!r)
			*(uint32_t *)(void *)field = (uint32_t)number;
		break;
	case KIND_SIZE:
		r = parse_size(value, &number, NULL);
		if (!r && (number < key->low || number > key->high))
			r = -ERANGE;
		if (!r)
			*(uint64_t *)(void *)field = number;
		break;
	case KIND_TIME:
		r = parse_time(value, (uint64_t *)(void *)field);
		break;
	case KIND_UUID:
		r = parse_uuid(value, (uint8_t *)field, NULL);
		break;
	case KIND_PCI:
		r = parse_pci(value, base);
		break;
	case KIND_HEX:
		r = parse_id(value, (uint32_t *)(void *)field);
		break;
	case KIND_CC:
		r = parse_cc(value, base);
		break;
	}
	return r ? fail(p, "not a value for this key:", value) : 0;
}

/* the keys of the section that is being read */
static const struct key *section_keys(const struct parser *p, size_t *ret_count)
{
	if (!p->device) {
		*ret_count = ARRAY_SIZE(machine_keys);
		return machine_keys;
	}
	if (p->device->is_instance) {
		*ret_count = ARRAY_SIZE(instance_keys);
		return instance_keys;
	}
	*ret_count = ARRAY_SIZE(device_keys);
	return device_keys;
}

static int set_key(struct parser *p, const char *name, const char *value)
{
	size_t count;
	const struct key *keys = section_keys(p, &count);
	uint64_t *seen = p->device ? &p->seen : &p->machine_seen;

	for (size_t i = 0; i < count; i++) {
		if (strcmp(keys[i].name, name))
			continue;
		if (*seen & (uint64_t)1 << i)
			return fail(p, "the second", name);
		*seen |= (uint64_t)1 << i;
		return set_value(p, &keys[i], p->device ? (void *)p->device : (void *)p->profile,
				 value);
	}
	return fail(p, "unknown key", name);
}

/* as CUDA and NVML call it: "NVIDIA H200 MIG 1g.18gb" */
static int name_instance(const struct parser *p)
{
	const struct sim_device_info *card = &p->profile->devices[p->card];

	if (!str_print(p->device->name, sizeof(p->device->name), "%s MIG %s", card->name,
		       p->device->mig_profile))
		return fail(p, "too long a name with", p->device->mig_profile);
	return 0;
}

static int end_section(const struct parser *p)
{
	size_t count;
	const struct key *keys = section_keys(p, &count);

	if (!p->device)
		return 0;
	for (size_t i = 0; i < KEYS_NEEDED; i++) {
		if (!(p->seen & (uint64_t)1 << i))
			return fail(p, "the device above has no", keys[i].name);
	}
	if (p->device->is_instance && name_instance(p))
		return -EINVAL;
	if (p->device->reserved_bytes + p->device->context_bytes >= p->device->memory_bytes)
		return fail(p, "no room beside 'reserved' and 'context' on", p->device->name);
	return 0;
}

static int begin_section(struct parser *p, const struct sim_device_info *fresh)
{
	int r = end_section(p);

	if (r)
		return r;
	if (p->entries == SIM_DEVICES_MAX)
		return fail(p, "too many devices at", "[device]");
	p->card = p->entries;
	p->device = &p->profile->devices[p->entries++];
	p->profile->device_count++;
	*p->device = *fresh;
	p->seen = 0;
	return 0;
}

/* a part of the card above */
static int begin_instance(struct parser *p)
{
	int r = end_section(p);

	if (r)
		return r;
	if (!p->device || !p->profile->devices[p->card].mig_mode)
		return fail(p, "no card with 'mig = 1' above", "[instance]");
	if (p->entries == SIM_DEVICES_MAX)
		return fail(p, "too many devices at", "[instance]");
	p->device = &p->profile->devices[p->entries++];
	p->profile->instance_count++;
	*p->device = p->profile->devices[p->card];
	p->device->mig_mode = 0;
	p->device->is_instance = 1;
	p->seen = 0;
	return 0;
}

/* cut blanks at both ends, in place */
static char *trim(char *s)
{
	size_t len;

	s += strspn(s, " \t\r");
	len = strlen(s);
	while (len && strchr(" \t\r", s[len - 1]))
		s[--len] = '\0';
	return s;
}

static int parse_line(struct parser *p, char *line, const struct sim_device_info *fresh)
{
	char *equals;

	line = trim(line);
	if (!*line || *line == '#')
		return 0;
	if (!strcmp(line, "[instance]"))
		return begin_instance(p);
	if (*line == '[')
		return strcmp(line, "[device]") ? fail(p, "unknown section", line)
						: begin_section(p, fresh);
	equals = strchr(line, '=');
	if (!equals)
		return fail(p, "neither 'key = value' nor '[device]':", line);
	*equals = '\0';
	return set_key(p, trim(line), trim(equals + 1));
}

static uint64_t pci_rank(const struct sim_device_info *d)
{
	return (uint64_t)d->pci_domain << 16 | d->pci_bus << 8 | d->pci_device;
}

/* cards before instances, each in PCI order, those of a card by their ids */
static bool is_before(const struct sim_device_info *a, const struct sim_device_info *b)
{
	if (a->is_instance != b->is_instance)
		return !a->is_instance;
	if (pci_rank(a) != pci_rank(b))
		return pci_rank(a) < pci_rank(b);
	return a->gi != b->gi ? a->gi < b->gi : a->ci < b->ci;
}

static int check_pair(const struct parser *p, const struct sim_device_info *a,
		      const struct sim_device_info *b)
{
	bool same_card = a->is_instance == b->is_instance && pci_rank(a) == pci_rank(b);

	if (same_card && !a->is_instance)
		return fail(p, "two devices have the PCI address of", b->name);
	if (same_card && a->gi == b->gi && a->ci == b->ci)
		return fail(p, "two instances have the ids of", b->name);
	if (!memcmp(a->uuid, b->uuid, sizeof(a->uuid)))
		return fail(p, "two devices have the UUID of", b->name);
	return 0;
}

/* every instance knows its card, and its number on that card */
static void number_instances(struct sim_profile *profile)
{
	for (uint32_t i = 0; i < profile->instance_count; i++) {
		struct sim_device_info *d = &profile->devices[profile->device_count + i];

		for (uint32_t k = 0; k < profile->device_count; k++)
			if (pci_rank(&profile->devices[k]) == pci_rank(d))
				d->parent = k;
		d->mig_index = i && d[-1].parent == d->parent ? d[-1].mig_index + 1 : 0;
	}
}

static int order_devices(const struct parser *p)
{
	struct sim_device_info *d = p->profile->devices;

	for (uint32_t i = 1; i < p->entries; i++) {
		for (uint32_t k = i; k && is_before(&d[k], &d[k - 1]); k--) {
			struct sim_device_info swapped = d[k];

			d[k] = d[k - 1];
			d[k - 1] = swapped;
		}
	}
	for (uint32_t i = 0; i < p->entries; i++)
		for (uint32_t k = 0; k < i; k++)
			if (check_pair(p, &d[k], &d[i]))
				return -EINVAL;
	number_instances(p->profile);
	return 0;
}

static int parse_text(struct parser *p, const char *text, size_t len,
		      const struct sim_device_info *fresh)
{
	const char *end = text + len;
	char line[LINE_SIZE];
	int r;

	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((stop ? stop : end) - text);

		p->line++;
		if (n >= sizeof(line) || memchr(text, '\0', n))
			return fail(p, "too long or binary:", "line");
		memcpy(line, text, n);
		line[n] = '\0';
		r = parse_line(p, line, fresh);
		if (r)
			return r;
		text = stop ? stop + 1 : end;
	}
	r = end_section(p);
	if (r)
		return r;
	if (!p->profile->device_count)
		return fail(p, "no section", "[device]");
	return order_devices(p);
}

static void h200(struct sim_profile *ret, struct err *err)
{
	struct sim_device_info none = { .cc_major = 9 };
	struct parser p = { .name = "h200", .profile = ret, .err = err };

	memset(ret, 0, sizeof(*ret));
	/* cannot fail: a unit test reads this text */
	(void)parse_text(&p, sim_profile_h200, (size_t)(sim_profile_h200_end - sim_profile_h200),
			 &none);
}

void sim_profile_default(struct sim_profile *ret)
{
	h200(ret, NULL);
}

int sim_profile_parse(const char *name, const char *text, size_t len, struct sim_profile *ret,
		      struct err *err)
{
	struct sim_profile base, profile;
	struct sim_device_info fresh;
	struct parser p = { .name = name, .profile = &profile, .err = err };
	int r;

	h200(&base, NULL);
	fresh = base.devices[0];
	memset(&profile, 0, sizeof(profile));
	memcpy(profile.driver_version, base.driver_version, sizeof(profile.driver_version));
	profile.cuda_version = base.cuda_version;
	r = parse_text(&p, text, len, &fresh);
	if (!r)
		*ret = profile;
	return r;
}

int sim_profile_load(const char *path, struct sim_profile *ret, struct err *err)
{
	AUTO_FREE char *text = malloc(FILE_MAX);
	ssize_t n;

	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	n = fd_read_file(AT_FDCWD, path, text, FILE_MAX);
	if (n < 0)
		return err_set(err, (int)n, "%s: %s", path,
			       n == -EFBIG ? "longer than 64 KiB" : strerror((int)-n));
	return sim_profile_parse(path, text, (size_t)n, ret, err);
}
