// SPDX-License-Identifier: Apache-2.0
#include "cli/names.h"

#include <pwd.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fmt.h"
#include "base/str.h"

const char *name_state(uint32_t state)
{
	static const char *const names[] = {
		"running", "waiting-vram", "frozen", "suspended", "unmanaged", "waiting-admission",
	};

	return state < ARRAY_SIZE(names) ? names[state] : "?";
}

const char *name_class(uint32_t job_class)
{
	static const char *const names[] = { "latency", "normal", "batch" };

	return job_class < ARRAY_SIZE(names) ? names[job_class] : "?";
}

void name_user(uint32_t uid, char *buf, size_t size)
{
	const struct passwd *pw = uid == UINT32_MAX ? NULL : getpwuid(uid);

	buf[0] = '\0';
	if (pw)
		(void)str_copy(buf, size, pw->pw_name);
	else if (uid != UINT32_MAX)
		(void)str_print(buf, size, "%u", uid);
	str_printable(buf);
}

void name_gpu(const struct wire_uuid *uuid, bool is_mig, char *buf, size_t size)
{
	static const struct wire_uuid none;
	struct fmt_buf b;

	buf[0] = '\0';
	if (memcmp(uuid, &none, sizeof(none)) != 0)
		(void)str_copy(buf, size, fmt_uuid(&b, is_mig ? "MIG-" : "GPU-", uuid->bytes));
}

void name_place(uint32_t index, bool is_mig, uint32_t mig_index, char *buf, size_t size)
{
	if (is_mig)
		(void)str_print(buf, size, "%u:%u", index, mig_index);
	else
		(void)str_print(buf, size, "%u", index);
}
