// SPDX-License-Identifier: Apache-2.0
#include "cli/parts.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
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

bool part_is_cut(const char *path)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	Elf64_Ehdr elf;
	Elf64_Phdr segment;
	struct stat st;

	/* what is no ELF file at all the loader says best */
	if (fd < 0 || fstat(fd, &st) < 0 || pread(fd, &elf, sizeof(elf), 0) != sizeof(elf) ||
	    elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_phentsize != sizeof(segment))
		return false;
	for (unsigned i = 0; i < elf.e_phnum; i++) {
		off_t at = (off_t)(elf.e_phoff + i * sizeof(segment));

		if (pread(fd, &segment, sizeof(segment), at) != sizeof(segment))
			return true;
		if (segment.p_type == PT_LOAD &&
		    (segment.p_filesz > (uint64_t)st.st_size ||
		     segment.p_offset > (uint64_t)st.st_size - segment.p_filesz))
			return true;
	}
	return false;
}
