// SPDX-License-Identifier: Apache-2.0
/* Rules of the simulator's faults: read as a whole, or refused with the word that is wrong. */
#include "base/err.h"
#include "fuzz.h"
#include "fuzz_text.h"
#include "sim/cuda/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct err err = { 0 };

	if (sim_faults_parse(text, &err) < 0 && !err.text[0])
		abort();
	free(text);
	return 0;
}
