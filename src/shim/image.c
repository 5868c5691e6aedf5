// SPDX-License-Identifier: Apache-2.0
#include "shim/image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "shim/image_text.h"

#define MAGIC_FATBIN   0xBA55ED50u
#define MAGIC_WRAPPER  0x466243B1u
#define MACHINE_CUDA   190
#define SMALL_BYTES    MIB
#define TEXT_MAX_BYTES (64 * MIB)
#define PARTS_MAX      256
#define PAGE           4096u
#define PREFIX         ".nv.global"

struct fatbin {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes; /* of the parts */
};

struct part {
	uint16_t kind, version;
	uint32_t header_bytes;
	uint64_t bytes; /* behind the header */
	uint32_t compressed_bytes;
	uint32_t options[5];
	uint64_t flags;
};
#define PART_COMPRESSED 0xa000u /* by either method */

struct wrapper {
	uint32_t magic, version;
	uint64_t image;
};

/* all of it or nothing */
static bool get(uint64_t at, void *buf, size_t n)
{
	struct iovec to = { buf, n }, from = { (void *)(uintptr_t)at, n };

	return at + n >= at && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)n;
}

static bool is_variables(uint64_t names, uint32_t name)
{
	char word[sizeof(PREFIX) - 1];

	return get(names + name, word, sizeof(word)) && memcmp(word, PREFIX, sizeof(word)) == 0;
}

static uint64_t cubin_bytes(uint64_t at)
{
	Elf64_Ehdr elf;
	Elf64_Shdr names, section;
	uint64_t total = 0;

	if (!get(at, &elf, sizeof(elf)) || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf.e_machine != MACHINE_CUDA || elf.e_shentsize != sizeof(section) ||
	    !get(at + elf.e_shoff + (uint64_t)elf.e_shstrndx * sizeof(section), &names,
		 sizeof(names)))
		return 0;
	for (unsigned i = 0; i < elf.e_shnum; i++) {
		if (!get(at + elf.e_shoff + i * sizeof(section), &section, sizeof(section)))
			break;
		if (section.sh_flags & SHF_ALLOC && section.sh_size >= SMALL_BYTES / 2 &&
		    is_variables(at + names.sh_offset, section.sh_name))
			total = size_sat_add(total, section.sh_size);
	}
	return total;
}

static uint64_t text_bytes(uint64_t at, uint64_t max)
{
	struct image_text t = IMAGE_TEXT_START;
	char page[PAGE];

	for (uint64_t done = 0; done < max;) {
		/* never across a page's end: the next one need not be there */
		size_t n = (size_t)size_min(PAGE - (at + done) % PAGE, max - done);

		if (!get(at + done, page, n))
			break;
		for (size_t i = 0; i < n; i++) {
			if (!page[i])
				return t.bytes;
			image_text_feed(&t, page[i]);
		}
		done += n;
	}
	return t.bytes;
}

static uint64_t plain_bytes(uint64_t at, uint64_t max)
{
	char magic[4];

	if (!get(at, magic, sizeof(magic)))
		return 0;
	if (memcmp(magic, ELFMAG, SELFMAG) == 0)
		return cubin_bytes(at);
	return text_bytes(at, size_min(max, TEXT_MAX_BYTES));
}

static uint64_t fatbin_bytes(uint64_t at)
{
	uint64_t most = 0, end;
	struct fatbin head;
	struct part part;

	if (!get(at, &head, sizeof(head)) || head.header_bytes < sizeof(head))
		return 0;
	at += head.header_bytes;
	end = size_sat_add(at, head.bytes);
	for (unsigned i = 0; i < PARTS_MAX && at < end; i++) {
		if (!get(at, &part, sizeof(part)) || part.header_bytes < sizeof(part))
			break;
		at += part.header_bytes;
		if (!part.compressed_bytes && !(part.flags & PART_COMPRESSED))
			most = size_max(most, plain_bytes(at, part.bytes));
		if (at + part.bytes < at)
			break;
		at += part.bytes;
	}
	return most;
}

static uint64_t bytes_at(uint64_t at)
{
	struct wrapper w;
	uint32_t magic;

	if (!get(at, &magic, sizeof(magic)))
		return text_bytes(at, TEXT_MAX_BYTES); /* a very short text */
	if (magic == MAGIC_WRAPPER)
		return get(at, &w, sizeof(w)) ? fatbin_bytes(w.image) : 0;
	if (magic == MAGIC_FATBIN)
		return fatbin_bytes(at);
	return plain_bytes(at, TEXT_MAX_BYTES);
}

uint64_t image_bytes(const void *image)
{
	int saved_errno = errno;
	uint64_t bytes = image ? bytes_at((uintptr_t)image) : 0;

	errno = saved_errno;
	return bytes < SMALL_BYTES ? 0 : bytes;
}

uint64_t image_file_bytes(const char *path)
{
	int saved_errno = errno;
	AUTO_FD int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	uint64_t bytes = 0;
	struct stat st;
	void *map;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map != MAP_FAILED) {
			bytes = image_bytes(map);
			(void)munmap(map, (size_t)st.st_size);
		}
	}
	errno = saved_errno;
	return bytes;
}
