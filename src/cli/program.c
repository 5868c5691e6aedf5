// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

#define ELF_MAX_SEGMENTS 128

static bool has_interpreter(int fd)
{
	Elf64_Ehdr eh;

	if (pread(fd, &eh, sizeof(eh), 0) != (ssize_t)sizeof(eh) ||
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64)
		return true; /* a script, or nothing that we know */
	if (eh.e_phentsize != sizeof(Elf64_Phdr))
		return true;
	for (unsigned i = 0; i < eh.e_phnum && i < ELF_MAX_SEGMENTS; i++) {
		Elf64_Phdr ph;
		off_t at = (off_t)(eh.e_phoff + i * sizeof(ph));

		if (pread(fd, &ph, sizeof(ph), at) != (ssize_t)sizeof(ph))
			return true;
		if (ph.p_type == PT_INTERP)
			return true;
	}
	return false;
}

enum program_kind program_kind(const char *path)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return PROGRAM_DYNAMIC;
	if ((st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
	    (st.st_mode & S_ISGID && st.st_mode & S_IXGRP && st.st_gid != getegid()))
		return PROGRAM_SETUID;
	return has_interpreter(fd) ? PROGRAM_DYNAMIC : PROGRAM_STATIC;
}

bool program_lost_interpreter(const char *path, char *ret, size_t size)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char line[256] = "", *word = line + 2;
	ssize_t n = fd < 0 ? -1 : pread(fd, line, sizeof(line) - 1, 0);

	if (n < 2 || line[0] != '#' || line[1] != '!')
		return false;
	word += strspn(word, " \t");
	word[strcspn(word, " \t\n")] = '\0';
	return *word && access(word, F_OK) < 0 && errno == ENOENT && str_copy(ret, size, word);
}
