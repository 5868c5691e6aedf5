// SPDX-License-Identifier: Apache-2.0
/* `allot run FILE`: whatever the file holds, its kind is found or it counts as dynamic. */
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/program.h"
#include "fuzz.h"
#include "fuzz_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	char path[32];
	enum program_kind kind;

	if (fd < 0)
		fd = memfd_create("program", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size ||
	    !str_print(path, sizeof(path), "/proc/self/fd/%d", fd))
		abort();
	kind = program_kind(path);
	/* only a file that begins as ELF can be a static program */
	if (kind == PROGRAM_SETUID ||
	    (kind == PROGRAM_STATIC &&
	     (size < sizeof(Elf64_Ehdr) || memcmp(data, ELFMAG, SELFMAG) != 0)))
		abort();
	return 0;
}
