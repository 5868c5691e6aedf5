// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/slab.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_OBJECTS 64

struct slab_free {
	uint32_t magic; /* SLAB_FREED */
	struct slab_free *next;
};

struct slab_chunk {
	struct slab_chunk *next;
	_Alignas(64) unsigned char objects[];
};

static size_t stride(const struct slab *slab)
{
	return (slab->object_bytes + 63) & ~(size_t)63;
}

static bool refill(struct slab *slab)
{
	size_t bytes = sizeof(struct slab_chunk) + CHUNK_OBJECTS * stride(slab);
	struct slab_chunk *chunk = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

	if (!chunk)
		return false;
	chunk->next = slab->chunks;
	slab->chunks = chunk;
	for (int i = CHUNK_OBJECTS - 1; i >= 0; i--) {
		struct slab_free *object = (void *)(chunk->objects + (size_t)i * stride(slab));

		object->magic = SLAB_FREED;
		object->next = slab->free;
		slab->free = object;
	}
	return true;
}

void *slab_new(struct slab *slab)
{
	struct slab_free *object;

	if (!slab->free && !refill(slab))
		return NULL;
	object = slab->free;
	slab->free = object->next;
	memset(object, 0, slab->object_bytes);
	object->magic = slab->magic;
	return object;
}

void slab_free(struct slab *slab, void *object)
{
	struct slab_free *freed = object;

	if (!freed)
		return;
	freed->magic = SLAB_FREED;
	freed->next = slab->free;
	slab->free = freed;
}
