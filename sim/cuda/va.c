// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/va.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/list.h"
#include "base/size.h"

#define ALIGN       ((size_t)2 << 20)
#define CHUNK_BYTES ((size_t)64 << 30)
#define LAZY        (MAP_ANONYMOUS | MAP_NORESERVE)
#define VMM_FIRST   ((uintptr_t)0x302000000)
#define VMM_END     ((uintptr_t)0x400000000000)

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct va_chunk {
	struct list node;
	char *base;
	size_t bytes, used_bytes; /* handed out so far; parts are not reused before all are free */
	size_t users;
};

static struct list chunks = { &chunks, &chunks };
static uintptr_t next_reserve = VMM_FIRST;

static char *align_up(char *p, size_t alignment)
{
	return (char *)(((uintptr_t)p + alignment - 1) & ~(uintptr_t)(alignment - 1));
}

/* Map with room for the alignment and cut the rest off. */
static void *map_aligned(size_t bytes, size_t alignment, int prot)
{
	uint64_t room;
	char *raw, *base;

	if (!size_add(bytes, alignment, &room))
		return NULL;
	raw = mmap(NULL, room, prot, MAP_PRIVATE | LAZY, -1, 0);
	if (raw == MAP_FAILED)
		return NULL;
	base = align_up(raw, alignment);
	if (base != raw)
		munmap(raw, (size_t)(base - raw));
	if (raw + room != base + bytes)
		munmap(base + bytes, (size_t)(raw + room - (base + bytes)));
	return base;
}

void *va_map(size_t bytes)
{
	char *base = map_aligned(size_round_up(bytes, 4096), ALIGN, PROT_READ | PROT_WRITE);

	if (!base)
		return NULL;
	/* one touched byte must not cost 2 MiB of RAM; a kernel without THP says EINVAL, fine */
	(void)madvise(base, size_round_up(bytes, 4096), MADV_NOHUGEPAGE);
	return base;
}

void va_unmap(void *base, size_t bytes)
{
	munmap(base, size_round_up(bytes, 4096));
}

static void *reserve_at(uintptr_t at, size_t bytes)
{
	void *p =
		mmap((void *)at, bytes, PROT_NONE, MAP_PRIVATE | LAZY | MAP_FIXED_NOREPLACE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if ((uintptr_t)p != at) { /* a kernel that takes the flag for a hint */
		munmap(p, bytes);
		return NULL;
	}
	return p;
}

void *va_reserve(size_t bytes, size_t alignment, uintptr_t hint)
{
	void *p = NULL;
	uintptr_t at;

	if (hint && !(hint & (alignment - 1)))
		p = reserve_at(hint, bytes);
	if (p)
		return p;
	/* where the driver puts them, as long as that range is free */
	at = (uintptr_t)align_up((char *)next_reserve, alignment);
	if (at < VMM_END && bytes < VMM_END - at)
		p = reserve_at(at, bytes);
	if (!p)
		return map_aligned(bytes, alignment, PROT_NONE);
	next_reserve = at + bytes;
	return p;
}

void *va_reserve_fd(int fd, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

void va_discard(void *at, size_t bytes, int is_shared)
{
	/* at worst the bytes stay in RAM until the range is used again */
	(void)madvise(at, bytes, is_shared ? MADV_REMOVE : MADV_DONTNEED);
	(void)va_protect(at, bytes, false, false);
}

/* Physical memory. */

static struct va_chunk *new_chunk(size_t bytes)
{
	struct va_chunk *chunk = calloc(1, sizeof(*chunk));

	if (!chunk)
		return NULL;
	chunk->bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
	chunk->base = mmap(NULL, chunk->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | LAZY, -1, 0);
	if (chunk->base == MAP_FAILED && bytes < chunk->bytes) {
		/* a limit on address space: no more than is needed now */
		chunk->bytes = bytes;
		chunk->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | LAZY, -1, 0);
	}
	if (chunk->base == MAP_FAILED) {
		free(chunk);
		return NULL;
	}
	list_append(&chunks, &chunk->node);
	return chunk;
}

static int init_in_chunk(struct va_phys *phys, size_t bytes)
{
	struct va_chunk *chunk, *found = NULL;

	list_for_each (chunk, &chunks, node) {
		if (chunk->bytes - chunk->used_bytes >= bytes)
			found = chunk;
	}
	if (!found)
		found = new_chunk(bytes);
	if (!found)
		return -ENOMEM;
	phys->chunk = found;
	phys->view = found->base + found->used_bytes;
	found->used_bytes += bytes;
	found->users++;
	return 0;
}

int va_phys_init(struct va_phys *phys, size_t bytes, const char *name)
{
	int fd, r;

	*phys = (struct va_phys){ .fd = -1, .bytes = bytes };
	if (!name)
		return init_in_chunk(phys, bytes);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = ftruncate(fd, (off_t)bytes) ? -errno : va_phys_init_fd(phys, fd, bytes);
	close(fd);
	return r;
}

int va_phys_init_fd(struct va_phys *phys, int fd, size_t bytes)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	void *view;

	*phys = (struct va_phys){ .fd = -1, .bytes = bytes };
	if (own < 0)
		return -errno;
	view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, own, 0);
	if (view == MAP_FAILED) {
		int saved = errno;

		close(own);
		return -saved;
	}
	phys->fd = own;
	phys->view = view;
	return 0;
}

void va_phys_fini(struct va_phys *phys)
{
	struct va_chunk *chunk = phys->chunk;

	if (!phys->view)
		return;
	if (chunk) {
		/* the bytes go at once; the range is used again when the whole chunk is free */
		(void)madvise(phys->view, phys->bytes, MADV_REMOVE);
		if (!--chunk->users) {
			munmap(chunk->base, chunk->bytes);
			list_del(&chunk->node);
			free(chunk);
		}
	} else {
		munmap(phys->view, phys->bytes);
		close(phys->fd);
	}
	*phys = (struct va_phys){ .fd = -1 };
}

int va_phys_view(const struct va_phys *phys, void *at, size_t offset, size_t bytes)
{
	void *p = mremap(phys->view + offset, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at);

	if (p == MAP_FAILED)
		return -errno;
	return va_protect(at, bytes, false, false);
}

int va_phys_unview(void *at, size_t bytes)
{
	void *p = mmap(at, bytes, PROT_NONE, MAP_PRIVATE | LAZY | MAP_FIXED, -1, 0);

	return p == MAP_FAILED ? -errno : 0;
}

int va_protect(void *at, size_t bytes, int is_readable, int is_writable)
{
	int prot = (is_readable ? PROT_READ : 0) | (is_writable ? PROT_READ | PROT_WRITE : 0);

	return mprotect(at, bytes, prot) ? -errno : 0;
}
