// SPDX-License-Identifier: Apache-2.0
/* Module images are the program's: whatever they hold, the reader stays inside and owns its parts.
 */
#include "fuzz.h"
#include "fuzz_text.h"
#include "sim/cuda/ptx.h"

#define HEADER_ROOM 64 /* of a binary its header is looked at, which is there in any real one */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptx_image image;
	size_t room = size && *data == 0x7f && size < HEADER_ROOM ? HEADER_ROOM : size;
	char *text = calloc(1, room + 1);

	if (!text)
		abort();
	if (size)
		memcpy(text, data, size);
	if (ptx_image_read(text, &image) == 0) {
		for (unsigned i = 0; i < image.entry_count; i++)
			if (!image.entries[i].name[0] ||
			    image.entries[i].param_count > PTX_PARAMS_MAX)
				abort();
		ptx_image_fini(&image);
	}
	free(text);
	return 0;
}
