// SPDX-License-Identifier: Apache-2.0
#include "wire/wire.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

/* a string of a payload: where it begins and how much room it has */
struct wire_string {
	uint16_t type;
	uint16_t offset;
	uint16_t size;
};

#define STRING(upper, lower, field)                                           \
	{                                                                     \
		WIRE_##upper, (uint16_t)offsetof(struct wire_##lower, field), \
			(uint16_t)sizeof(((struct wire_##lower *)0)->field)   \
	}

/* every char array of every message: a peer's text is a string only after this table was walked */
static const struct wire_string wire_strings[] = {
	STRING(ERROR, error, text),
	STRING(ATTACHED, attached, driver_dir),
	STRING(ATTACHED, attached, job_name),
	STRING(GRANT, grant, text),
	STRING(RUN, run, name),
	STRING(RUN, run, gpu),
	STRING(RUN, run, command),
	STRING(RUN, run, log),
	STRING(WAITING, waiting, text),
	STRING(ADMITTED, admitted, name),
	STRING(PS_ITEM, ps_item, name),
	STRING(PS_ITEM, ps_item, command),
	STRING(PS_ITEM, ps_item, reason),
	STRING(STATUS_ITEM, status_item, pci_bus_id),
	STRING(STATUS_ITEM, status_item, model),
	STRING(ADOPT, adopt, name),
	STRING(ADOPTED, adopted, name),
	STRING(ADOPTED, adopted, command),
	STRING(SET, set, key),
	STRING(SET, set, value),
	STRING(JOB, job, name),
	STRING(JOB, job, command),
	STRING(JOB, job, log),
	STRING(JOB, job, cgroup),
	STRING(JOB, job, reason),
	STRING(WHY_ITEM, why_item, sentence),
	STRING(DAEMON_INFO, daemon_info, version),
	STRING(DAEMON_INFO, daemon_info, driver_version),
	STRING(DAEMON_INFO, daemon_info, driver_dir),
	STRING(DAEMON_INFO, daemon_info, state_dir),
	STRING(DAEMON_INFO, daemon_info, socket),
	STRING(DAEMON_INFO, daemon_info, trouble),
	STRING(CONFIG_ITEM, config_item, key),
	STRING(CONFIG_ITEM, config_item, value),
	STRING(CONFIG_ITEM, config_item, usual),
	STRING(CONFIG_ITEM, config_item, file),
	STRING(CONFIG_ITEM, config_item, note),
	STRING(RELOADED, reloaded, text),
	STRING(DAEMON_INFO, daemon_info, claim),
	STRING(DAEMON_INFO, daemon_info, cgroups),
};

const char *wire_name(unsigned type)
{
	switch (type) {
#define WIRE_MSG(upper, lower, number, text) \
	case number:                         \
		return #upper;
#include "wire/messages.def"
	default:
		return "?";
	}
}

int wire_size(unsigned type)
{
	switch (type) {
#define WIRE_MSG(upper, lower, number, text) \
	case number:                         \
		return (int)sizeof(struct wire_##lower);
#include "wire/messages.def"
	default:
		return -ENOENT;
	}
}

/* no message outgrows the packet */
#define WIRE_MSG(upper, lower, number, text)                                       \
	_Static_assert(sizeof(struct wire_header) + sizeof(struct wire_##lower) <= \
			       WIRE_MAX_MESSAGE,                                   \
		       #lower);
#include "wire/messages.def"

int wire_encode(void *buf, size_t size, unsigned type, uint32_t request_id, const void *payload)
{
	int length = wire_size(type);
	struct wire_header h = { .magic = WIRE_MAGIC,
				 .version = WIRE_VERSION,
				 .type = (uint16_t)type,
				 .request_id = request_id };

	if (length < 0)
		return length;
	if (sizeof(h) + (size_t)length > size)
		return -ENOSPC;
	h.length = (uint32_t)length;
	memcpy(buf, &h, sizeof(h));
	memcpy((char *)buf + sizeof(h), payload, (size_t)length);
	return (int)sizeof(h) + length;
}

int wire_decode(const void *buf, size_t len, struct wire_message *ret, struct err *err)
{
	const char *payload = (const char *)buf + sizeof(struct wire_header);
	struct wire_header h;
	int size;

	if (len < sizeof(h))
		return err_set(err, -EBADMSG, "packet of %zu bytes is shorter than a header", len);
	memcpy(&h, buf, sizeof(h));
	if (h.magic != WIRE_MAGIC)
		return err_set(err, -EBADMSG, "packet does not begin with allot's mark");
	if (h.version != WIRE_VERSION) {
		ret->request_id = h.request_id;
		ret->version = h.version;
		return err_set(err, -EPROTONOSUPPORT,
			       "the other side speaks protocol %u, this allot %s protocol %u: "
			       "install the same version on both sides",
			       h.version, ALLOT_VERSION, WIRE_VERSION);
	}
	size = wire_size(h.type);
	if (size < 0)
		return err_set(err, -EBADMSG, "message %u is unknown", h.type);
	if (h.length != (uint32_t)size || len != sizeof(h) + (size_t)size)
		return err_set(err, -EBADMSG, "message %s has %zu bytes instead of %zu",
			       wire_name(h.type), len, sizeof(h) + (size_t)size);
	for (unsigned i = 0; i < ARRAY_SIZE(wire_strings); i++) {
		const struct wire_string *s = &wire_strings[i];

		if (s->type == h.type && !str_is_terminated(payload + s->offset, s->size))
			return err_set(err, -EBADMSG, "message %s has a text without an end",
				       wire_name(h.type));
	}
	ret->type = h.type;
	ret->request_id = h.request_id;
	ret->version = h.version;
	ret->payload = payload;
	return 0;
}
