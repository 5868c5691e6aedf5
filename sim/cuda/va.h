// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_VA_H
#define SIM_CUDA_VA_H

/*
 * Address space and what is behind it. Nothing here knows of devices; all calls but va_map need
 * sim_lock() only for the physical chunks.
 *
 * Physical memory of VMM handles lies in chunks, each one shared anonymous mapping that programs
 * never see; mapping a handle makes a second view of its part (mremap with an old size of 0), so
 * one handle can be mapped many times and costs no descriptor. Exportable handles lie in a memfd
 * each.
 */

#include <stddef.h>
#include <stdint.h>

/** va_map - @bytes of lazy private zeroes, readable and writable, aligned to 2 MiB; or NULL */
void *va_map(size_t bytes);

/**
 * va_reserve - @bytes of address space without access
 * @alignment: a power of two, at least 2 MiB; @hint: 0, or where the caller would like it
 * Returns NULL when there is no such room.
 */
void *va_reserve(size_t bytes, size_t alignment, uintptr_t hint);

/** va_reserve_fd - address space over the @bytes of @fd, shared, without access yet; or NULL */
void *va_reserve_fd(int fd, size_t bytes);

/** va_discard - forget the bytes there and take the access away; @is_shared: also in the file */
void va_discard(void *at, size_t bytes, int is_shared);

void va_unmap(void *base, size_t bytes);

struct va_chunk;

/* struct va_phys - physical memory of one handle */
struct va_phys {
	struct va_chunk *chunk; /* NULL: in @fd */
	char *view;             /* our own, hidden view */
	int fd;                 /* -1: in @chunk */
	size_t bytes;
};

/** va_phys_init - new zeroes; with @name in a memfd of that name; 0 or -errno */
int va_phys_init(struct va_phys *phys, size_t bytes, const char *name);

/** va_phys_init_fd - the memory of a memfd of @bytes, which stays the caller's; 0 or -errno */
int va_phys_init_fd(struct va_phys *phys, int fd, size_t bytes);

/** va_phys_fini - views made by va_phys_view stay usable */
void va_phys_fini(struct va_phys *phys);

/** va_phys_view - put a view of @bytes from @offset at @at, without access; 0 or -errno */
int va_phys_view(const struct va_phys *phys, void *at, size_t offset, size_t bytes);

/** va_phys_unview - make @at an empty reservation again */
int va_phys_unview(void *at, size_t bytes);

/** va_protect - let the program read (and write) there, or nothing */
int va_protect(void *at, size_t bytes, int is_readable, int is_writable);

#endif
