// SPDX-License-Identifier: Apache-2.0
/*
 * CUDA_VISIBLE_DEVICES: whatever it holds, what is picked exists, and writing the picked devices by
 * their whole names picks the same again.
 */
#include "base/fmt.h"
#include "base/str.h"
#include "base/visible.h"
#include "fuzz.h"
#include "fuzz_text.h"

#define DEVICES 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct visible_device devices[DEVICES] = { 0 };
	unsigned n = size ? data[0] % (DEVICES + 1) : 0, picked[DEVICES + 1], again[DEVICES + 1];
	unsigned count, back;
	char names[1024] = "";
	char *list;

	for (unsigned i = 0; i < n; i++) {
		memset(devices[i].uuid, 0x11, sizeof(devices[i].uuid));
		devices[i].uuid[3] = (uint8_t)i; /* all begin alike */
		devices[i].is_mig = i % 2;
	}
	list = fuzz_text(size ? data + 1 : data, size ? size - 1 : 0);
	count = visible_pick(list, devices, n, picked);
	if (count > n + 1)
		abort();
	for (unsigned i = 0; i < count; i++) {
		struct fmt_buf name;

		if (picked[i] >= n)
			abort();
		(void)str_print(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
				i ? "," : "",
				fmt_uuid(&name, devices[picked[i]].is_mig ? "MIG-" : "GPU-",
					 devices[picked[i]].uuid));
	}
	back = visible_pick(names, devices, n, again);
	if (back != count || memcmp(picked, again, count * sizeof(picked[0])) != 0)
		abort();
	free(list);
	return 0;
}
