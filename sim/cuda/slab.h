// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_SLAB_H
#define SIM_CUDA_SLAB_H

/*
 * Objects behind the handles that programs hold.  Every such struct begins with a uint32_t magic.
 * A freed object keeps its address and becomes another object of the same type later, so a stale
 * handle can be looked at without harm and has the magic SLAB_FREED (or is a younger object).
 * Nothing is ever returned to malloc.  The caller holds sim_lock().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLAB_FREED 0x0df4eed0u

struct slab {
	size_t object_bytes;
	uint32_t magic;
	struct slab_free *free;
	struct slab_chunk *chunks; /* what was ever taken from malloc */
};

#define SLAB_INIT(type, magic_)                                 \
	{                                                       \
		.object_bytes = sizeof(type), .magic = (magic_) \
	}

/** slab_new - a zeroed object with its magic set, or NULL */
void *slab_new(struct slab *slab);

/** slab_free - the handle is stale from now on; NULL allowed */
void slab_free(struct slab *slab, void *object);

/** slab_is - is @object a live object of @slab? NULL is not; a wild pointer must not be handed in
 */
static inline bool slab_is(const struct slab *slab, const void *object)
{
	return object && *(const uint32_t *)object == slab->magic;
}

/** slab_was - is @object one that was freed? */
static inline bool slab_was(const void *object)
{
	return object && *(const uint32_t *)object == SLAB_FREED;
}

#endif
