// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "sim/cuda/exec.h"

/*
 * Texture and surface objects.  No simulated kernel reads through one, so an object is what was
 * said when it was made: it can be asked for that, and is checked as far as its memory goes.
 */

#define OBJECT_MAGIC 0x5478536fu

struct object {
	uint32_t magic;
	bool is_surface, has_view;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;
	CUDA_RESOURCE_VIEW_DESC view;
};

static struct slab object_slab = SLAB_INIT(struct object, OBJECT_MAGIC);

static struct object *find(unsigned long long handle, bool is_surface)
{
	struct object *object = (void *)(uintptr_t)handle;

	return slab_is(&object_slab, object) && object->is_surface == is_surface ? object : NULL;
}

static CUresult check_resource(const CUDA_RESOURCE_DESC *resource)
{
	struct sim_array_view view;
	uint64_t bytes;

	if (resource->flags)
		return CUDA_ERROR_INVALID_VALUE;
	switch (resource->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		return sim_array_view(resource->res.array.hArray, &view) == CUDA_SUCCESS
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_VALUE;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return resource->res.mipmap.hMipmappedArray ? CUDA_SUCCESS
							    : CUDA_ERROR_INVALID_VALUE;
	case CU_RESOURCE_TYPE_LINEAR:
		return sim_ptr_check(resource->res.linear.devPtr, resource->res.linear.sizeInBytes,
				     false);
	case CU_RESOURCE_TYPE_PITCH2D:
		if (!size_mul(resource->res.pitch2D.pitchInBytes, resource->res.pitch2D.height,
			      &bytes))
			return CUDA_ERROR_INVALID_VALUE;
		return sim_ptr_check(resource->res.pitch2D.devPtr, bytes, false);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult create(unsigned long long *ret, const CUDA_RESOURCE_DESC *resource,
		       const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view)
{
	struct object *object;
	CUresult r;

	if (!ret || !resource)
		return CUDA_ERROR_INVALID_VALUE;
	r = check_resource(resource);
	if (r != CUDA_SUCCESS)
		return r;
	if (!texture && resource->resType != CU_RESOURCE_TYPE_ARRAY)
		return CUDA_ERROR_INVALID_VALUE; /* a surface lies in an array */
	object = slab_new(&object_slab);
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object->is_surface = !texture;
	object->resource = *resource;
	if (texture)
		object->texture = *texture;
	object->has_view = view;
	if (view)
		object->view = *view;
	*ret = (uintptr_t)object;
	return CUDA_SUCCESS;
}

CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
			   const CUDA_TEXTURE_DESC *pTexDesc,
			   const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	return SIM_CALL(cuTexObjectCreate, SIM_CTX | SIM_LOCK,
			!pTexDesc ? CUDA_ERROR_INVALID_VALUE
				  : create(pTexObject, pResDesc, pTexDesc, pResViewDesc),
			"%p, %p, %p, %p", (void *)pTexObject, (const void *)pResDesc,
			(const void *)pTexDesc, (const void *)pResViewDesc);
}

CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
	return SIM_CALL(cuSurfObjectCreate, SIM_CTX | SIM_LOCK,
			create(pSurfObject, pResDesc, NULL, NULL), "%p, %p", (void *)pSurfObject,
			(const void *)pResDesc);
}

static CUresult destroy(unsigned long long handle, bool is_surface)
{
	struct object *object = find(handle, is_surface);

	if (!object)
		return CUDA_ERROR_INVALID_VALUE;
	slab_free(&object_slab, object);
	return CUDA_SUCCESS;
}

CUresult cuTexObjectDestroy(CUtexObject texObject)
{
	return SIM_CALL(cuTexObjectDestroy, SIM_CTX | SIM_LOCK, destroy(texObject, false), "%#llx",
			texObject);
}

CUresult cuSurfObjectDestroy(CUsurfObject surfObject)
{
	return SIM_CALL(cuSurfObjectDestroy, SIM_CTX | SIM_LOCK, destroy(surfObject, true), "%#llx",
			surfObject);
}

static CUresult get_resource(CUDA_RESOURCE_DESC *ret, unsigned long long handle, bool is_surface)
{
	struct object *object = find(handle, is_surface);

	if (!object || !ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = object->resource;
	return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
	return SIM_CALL(cuTexObjectGetResourceDesc, SIM_CTX | SIM_LOCK,
			get_resource(pResDesc, texObject, false), "%p, %#llx", (void *)pResDesc,
			texObject);
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)
{
	return SIM_CALL(cuSurfObjectGetResourceDesc, SIM_CTX | SIM_LOCK,
			get_resource(pResDesc, surfObject, true), "%p, %#llx", (void *)pResDesc,
			surfObject);
}

static CUresult get_texture(CUDA_TEXTURE_DESC *ret, CUtexObject handle)
{
	struct object *object = find(handle, false);

	if (!object || !ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = object->texture;
	return CUDA_SUCCESS;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
	return SIM_CALL(cuTexObjectGetTextureDesc, SIM_CTX | SIM_LOCK,
			get_texture(pTexDesc, texObject), "%p, %#llx", (void *)pTexDesc, texObject);
}

static CUresult get_view(CUDA_RESOURCE_VIEW_DESC *ret, CUtexObject handle)
{
	struct object *object = find(handle, false);

	if (!object || !ret || !object->has_view)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = object->view;
	return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc,
					CUtexObject texObject)
{
	return SIM_CALL(cuTexObjectGetResourceViewDesc, SIM_CTX | SIM_LOCK,
			get_view(pResViewDesc, texObject), "%p, %#llx", (void *)pResViewDesc,
			texObject);
}
