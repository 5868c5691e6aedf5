// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>

#include "sim/cuda/graph.h"

/*
 * Counted things of the program that graphs keep alive.  The program's destructor is called when
 * the entry point that dropped the last reference is about to return.
 */

#define USER_OBJECT_MAGIC 0x55734f4du

struct CUuserObject_st {
	uint32_t magic;
	void *ptr;
	CUhostFn destroy;
	unsigned refs;
};

static struct slab object_slab = SLAB_INIT(struct CUuserObject_st, USER_OBJECT_MAGIC);

static CUresult create(CUuserObject *ret, void *ptr, CUhostFn destroy, unsigned refs,
		       unsigned flags)
{
	CUuserObject object;

	if (!ret || !ptr || !destroy || !refs || refs > INT32_MAX ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	object = slab_new(&object_slab);
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object->ptr = ptr;
	object->destroy = destroy;
	object->refs = refs;
	*ret = object;
	return CUDA_SUCCESS;
}

CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
			    unsigned int initialRefcount, unsigned int flags)
{
	return SIM_CALL(cuUserObjectCreate, SIM_LOCK,
			create(object_out, ptr, destroy, initialRefcount, flags), "%p, %p, %u, %#x",
			(void *)object_out, ptr, initialRefcount, flags);
}

void user_object_retain(CUuserObject object, unsigned count)
{
	object->refs += count;
}

void user_object_release(CUuserObject object, unsigned count)
{
	if (!slab_is(&object_slab, object))
		return;
	object->refs -= count > object->refs ? object->refs : count;
	if (object->refs)
		return;
	queue_call(object->destroy, object->ptr);
	slab_free(&object_slab, object);
}

int user_objects_copy(struct graph_user_object **to, const struct graph_user_object *from)
{
	for (; from; from = from->next) {
		struct graph_user_object *held = calloc(1, sizeof(*held));

		if (!held)
			return -ENOMEM;
		held->object = from->object;
		held->count = 1;
		held->next = *to;
		*to = held;
		user_object_retain(held->object, 1);
	}
	return 0;
}

void user_objects_free(struct graph_user_object **list)
{
	while (*list) {
		struct graph_user_object *held = *list;

		*list = held->next;
		user_object_release(held->object, held->count);
		free(held);
	}
}

static CUresult change(CUuserObject object, unsigned count, bool is_release)
{
	if (!slab_is(&object_slab, object) || !count || count > INT32_MAX ||
	    (is_release && count > object->refs))
		return CUDA_ERROR_INVALID_VALUE;
	if (is_release)
		user_object_release(object, count);
	else
		user_object_retain(object, count);
	queue_run_calls();
	return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	return SIM_CALL(cuUserObjectRetain, SIM_LOCK, change(object, count, false), "%p, %u",
			(void *)object, count);
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	return SIM_CALL(cuUserObjectRelease, SIM_LOCK, change(object, count, true), "%p, %u",
			(void *)object, count);
}

static CUresult graph_retain(CUgraph graph, CUuserObject object, unsigned count, unsigned flags)
{
	struct graph_user_object *held;

	if (graph_check(graph) != CUDA_SUCCESS || !slab_is(&object_slab, object) || !count ||
	    (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE))
		return CUDA_ERROR_INVALID_VALUE;
	held = calloc(1, sizeof(*held));
	if (!held)
		return CUDA_ERROR_OUT_OF_MEMORY;
	held->object = object;
	held->count = count;
	held->next = graph->user_objects;
	graph->user_objects = held;
	if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
		user_object_retain(object, count);
	return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
				 unsigned int flags)
{
	return SIM_CALL(cuGraphRetainUserObject, SIM_LOCK,
			graph_retain(graph, object, count, flags), "%p, %p, %u, %#x", (void *)graph,
			(void *)object, count, flags);
}

static CUresult graph_release(CUgraph graph, CUuserObject object, unsigned count)
{
	struct graph_user_object **at;

	if (graph_check(graph) != CUDA_SUCCESS || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (at = &graph->user_objects; *at; at = &(*at)->next) {
		struct graph_user_object *held = *at;

		if (held->object != object || held->count < count)
			continue;
		held->count -= count;
		if (!held->count) {
			*at = held->next;
			free(held);
		}
		user_object_release(object, count);
		queue_run_calls();
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
	return SIM_CALL(cuGraphReleaseUserObject, SIM_LOCK, graph_release(graph, object, count),
			"%p, %p, %u", (void *)graph, (void *)object, count);
}
