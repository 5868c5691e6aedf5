// SPDX-License-Identifier: Apache-2.0
#include "cli/parts.h"

#include "base/paths.h"

#define PLACES_MAX 4

static const struct {
	const char *name;
	const char *places[PLACES_MAX]; /* NULL-terminated */
} parts[PART_COUNT] = {
	[PART_CUDA_SHIM] = { "liballot-cuda.so",
			     { "../lib/liballot-cuda.so", "../lib/allot/liballot-cuda.so",
			       "../shim/liballot-cuda.so" } },
	[PART_NVML_SHIM] = { "liballot-nvml.so",
			     { "../lib/liballot-nvml.so", "../lib/allot/liballot-nvml.so",
			       "../shim/liballot-nvml.so" } },
	[PART_KEEPER] = { "allot-keeper",
			  { "allot-keeper", "../libexec/allot/allot-keeper",
			    "../keeper/allot-keeper" } },
	[PART_DAEMON] = { "allotd", { "allotd", "../daemon/allotd" } },
	[PART_SAMPLER] = { "allot-sampler",
			   { "allot-sampler", "../libexec/allot/allot-sampler",
			     "../daemon/allot-sampler" } },
	[PART_PROBE] = { "allot-probe",
			 { "allot-probe", "../libexec/allot/allot-probe",
			   "../daemon/allot-probe" } },
};

const char *part_name(enum part part)
{
	return parts[part].name;
}

int part_find(enum part part, char *buf, size_t size)
{
	return paths_beside(parts[part].places, buf, size);
}
