// SPDX-License-Identifier: Apache-2.0
/* Arrays and mipmapped arrays: what they need, what they say about themselves. */
#include "conform.h"

#include <string.h>

static void show_requirements(CUarray array)
{
	CUDA_ARRAY_MEMORY_REQUIREMENTS need;
	char text[40];
	memset(&need, 0x5a, sizeof(need));
	CUresult r = QUIET(cuArrayGetMemoryRequirements, &need, array, 0);
	out_append("; requirements %s", result_text(r, text));
	out_size("size", need.size);
	out_size("alignment", need.alignment);
}

/* the same array without memory of its own: only such a one tells what it would need */
static void show_deferred(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	CUDA_ARRAY3D_DESCRIPTOR deferred = *d;
	POISONED(CUarray, array);
	char text[40];
	deferred.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
	CUresult r = QUIET(cuArray3DCreate_v2, &array, &deferred);
	out_append("; deferred %s", result_text(r, text));
	if (r == CUDA_SUCCESS) {
		show_requirements(array);
		QUIET(cuArrayDestroy, array);
	}
}

static CUresult create_one(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	POISONED(CUarray, array);
	char text[40];
	CUresult r = QUIET(cuArray3DCreate_v2, &array, d);
	out_flush();
	out_append("%zux%zux%zu format 0x%x channels %u flags 0x%x → %s", d->Width, d->Height,
		   d->Depth, (unsigned int)d->Format, d->NumChannels, d->Flags,
		   result_text(r, text));
	if (r == CUDA_SUCCESS) {
		show_requirements(array);
		QUIET(cuArrayDestroy, array);
		show_deferred(d);
	} else {
		HANDLE(array);
	}
	return r;
}

static void plain(void)
{
	CUDA_ARRAY_DESCRIPTOR d = { 64, 64, CU_AD_FORMAT_FLOAT, 1 }, back;
	POISONED(CUarray, array);
	CUDA_ARRAY3D_DESCRIPTOR back3d;
	CALL(cuArrayCreate_v2, &array, &d);
	NEWHANDLE(array);
	memset(&back, 0x5a, sizeof(back));
	CALL(cuArrayGetDescriptor_v2, &back, array);
	SIZE(back.Width);
	SIZE(back.Height);
	INT(back.Format);
	INT(back.NumChannels);
	memset(&back3d, 0x5a, sizeof(back3d));
	CALL(cuArray3DGetDescriptor_v2, &back3d, array);
	SIZE(back3d.Width);
	SIZE(back3d.Height);
	SIZE(back3d.Depth);
	INT(back3d.Flags);
	CALL(cuArrayGetDescriptor_v2, NULL, array);
	CALL(cuArray3DGetDescriptor_v2, NULL, array);
	CALL(cuArrayDestroy, array);
}

static void formats(void)
{
	static const unsigned int all[] = { 0x01, 0x02, 0x03, 0x08, 0x09, 0x0a, 0x10, 0x20,
					    0xb0, 0xc0, 0xc2, 0xc5, 0x91, 0x50, 0x00, 0x77 };
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 256,
					      .Height = 256,
					      .Format = (CUarray_format)all[i] };
		for (unsigned int channels = 1; channels <= 4; channels *= 2) {
			d.NumChannels = channels;
			create_one(&d);
		}
	}
}

static void dimensions(void)
{
	static const size_t all[][3] = {
		{ 1, 0, 0 },       { 64, 0, 0 },
		{ 131072, 0, 0 },  { 131073, 0, 0 },
		{ 1, 1, 0 },       { 100, 100, 0 },
		{ 513, 513, 0 },   { 1024, 1024, 0 },
		{ 4096, 4096, 0 }, { 131072, 1, 0 },
		{ 1, 65536, 0 },   { 1, 65537, 0 },
		{ 1, 1, 1 },       { 16, 16, 16 },
		{ 64, 64, 64 },    { 100, 100, 100 },
		{ 16384, 1, 1 },   { 16385, 1, 1 },
		{ 0, 0, 0 },       { 0, 16, 0 },
		{ 16, 0, 16 },     { 16385, 16385, 16385 },
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		CUDA_ARRAY3D_DESCRIPTOR d = { .Width = all[i][0],
					      .Height = all[i][1],
					      .Depth = all[i][2],
					      .Format = CU_AD_FORMAT_FLOAT,
					      .NumChannels = 1 };
		create_one(&d);
	}
}

static void flags(void)
{
	static const struct {
		size_t width, height, depth;
		unsigned int flags;
	} all[] = {
		{ 256, 256, 6, CUDA_ARRAY3D_CUBEMAP },
		{ 256, 128, 6, CUDA_ARRAY3D_CUBEMAP },
		{ 256, 256, 5, CUDA_ARRAY3D_CUBEMAP },
		{ 256, 256, 12, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED },
		{ 256, 256, 11, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED },
		{ 256, 256, 8, CUDA_ARRAY3D_LAYERED },
		{ 256, 0, 8, CUDA_ARRAY3D_LAYERED },
		{ 256, 256, 0, CUDA_ARRAY3D_LAYERED },
		{ 256, 256, 2049, CUDA_ARRAY3D_LAYERED },
		{ 256, 256, 0, CUDA_ARRAY3D_SURFACE_LDST },
		{ 256, 256, 0, CUDA_ARRAY3D_TEXTURE_GATHER },
		{ 256, 256, 4, CUDA_ARRAY3D_TEXTURE_GATHER },
		{ 256, 256, 0, CUDA_ARRAY3D_DEPTH_TEXTURE },
		{ 256, 256, 0, CUDA_ARRAY3D_COLOR_ATTACHMENT },
		{ 256, 256, 0, CUDA_ARRAY3D_SPARSE },
		{ 4096, 4096, 0, CUDA_ARRAY3D_SPARSE },
		{ 256, 256, 0, CUDA_ARRAY3D_DEFERRED_MAPPING },
		{ 256, 256, 0, 0x8000 },
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		CUDA_ARRAY3D_DESCRIPTOR d = { .Width = all[i].width,
					      .Height = all[i].height,
					      .Depth = all[i].depth,
					      .Format = CU_AD_FORMAT_FLOAT,
					      .NumChannels = 1,
					      .Flags = all[i].flags };
		create_one(&d);
	}
}

static void channels(void)
{
	for (unsigned int n = 0; n <= 8; n++) {
		CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 64,
					      .Height = 64,
					      .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					      .NumChannels = n };
		create_one(&d);
	}
}

static void errors(void)
{
	CUDA_ARRAY_DESCRIPTOR d = { 64, 64, CU_AD_FORMAT_FLOAT, 1 };
	CUDA_ARRAY_MEMORY_REQUIREMENTS need;
	POISONED(CUarray, array);
	CALL(cuArrayCreate_v2, NULL, &d);
	CALL(cuArrayCreate_v2, &array, NULL);
	HANDLE(array);
	CALL(cuArray3DCreate_v2, &array, NULL);
	HANDLE(array);
	CALL(cuArrayDestroy, NULL);
	CALL(cuArrayGetDescriptor_v2, &d, NULL);
	CALL(cuArrayGetMemoryRequirements, &need, NULL, 0);
	CALL(cuArrayCreate_v2, &array, &d);
	CALL(cuArrayGetMemoryRequirements, NULL, array, 0);
	CALL(cuArrayGetMemoryRequirements, &need, array, 4096);
	CALL(cuArrayGetMemoryRequirements, &need, array, -1);
	CALL(cuArrayDestroy, array);
}

static void destroyed(void)
{
	CUDA_ARRAY_DESCRIPTOR d = { 64, 64, CU_AD_FORMAT_FLOAT, 1 };
	POISONED(CUarray, array);
	CALL(cuArrayCreate_v2, &array, &d);
	CALL(cuArrayDestroy, array);
	CALL(cuArrayGetDescriptor_v2, &d, array);
	CALL(cuArrayDestroy, array);
}

static void copies(void)
{
	static uint32_t host[64 * 64], back[64 * 64];
	CUDA_ARRAY_DESCRIPTOR d = { 64, 64, CU_AD_FORMAT_UNSIGNED_INT32, 1 };
	POISONED(CUarray, array);
	CUDA_MEMCPY2D c = { 0 };
	for (unsigned int i = 0; i < 64 * 64; i++)
		host[i] = i * 7;
	CALL(cuArrayCreate_v2, &array, &d);
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = host;
	c.srcPitch = 256;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = array;
	c.WidthInBytes = 256;
	c.Height = 64;
	CALL(cuMemcpy2D_v2, &c);
	CALL(cuMemcpyAtoH_v2, back, array, 0, 256);
	YES(memcmp(back, host, 256) == 0);
	CALL(cuMemcpyAtoH_v2, back, array, 128, 16);
	INT(back[0]);
	CALL(cuMemcpyHtoA_v2, array, 0, back, 16);
	CALL(cuMemcpyAtoH_v2, back, array, 0, 1 << 20);
	CUdeviceptr p = alloc_quiet(65536, 0);
	CALL(cuMemcpyAtoD_v2, p, array, 0, 256);
	data_u32(p, 256);
	CALL(cuMemcpyDtoA_v2, array, 0, p, 256);
	c.WidthInBytes = 512;
	CALL(cuMemcpy2D_v2, &c);
	CALL(cuMemFree_v2, p);
	CALL(cuArrayDestroy, array);
}

static void mipmaps(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = 256, .Height = 256, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1
	};
	POISONED(CUmipmappedArray, mip);
	POISONED(CUarray, level);
	CUDA_ARRAY3D_DESCRIPTOR back;
	CUDA_ARRAY_MEMORY_REQUIREMENTS need;
	CALL(cuMipmappedArrayCreate, &mip, &d, 9);
	NEWHANDLE(mip);
	memset(&need, 0x5a, sizeof(need));
	CALL(cuMipmappedArrayGetMemoryRequirements, &need, mip, 0);
	SIZE(need.size);
	SIZE(need.alignment);
	CALL(cuMipmappedArrayGetLevel, &level, mip, 0);
	NEWHANDLE(level);
	memset(&back, 0, sizeof(back));
	CALL(cuArray3DGetDescriptor_v2, &back, level);
	SIZE(back.Width);
	CALL(cuMipmappedArrayGetLevel, &level, mip, 8);
	CALL(cuArray3DGetDescriptor_v2, &back, level);
	SIZE(back.Width);
	CALL(cuArrayDestroy, level);
	level = (CUarray)(uintptr_t)POISON_64;
	CALL(cuMipmappedArrayGetLevel, &level, mip, 9);
	HANDLE(level);
	CALL(cuMipmappedArrayGetLevel, NULL, mip, 0);
	CALL(cuMipmappedArrayGetLevel, &level, NULL, 0);
	CALL(cuMipmappedArrayDestroy, mip);
	CALL(cuMipmappedArrayDestroy, NULL);
}

static void mipmap_levels(void)
{
	static const unsigned int all[] = { 0, 1, 2, 5, 8, 9, 10, 100 };
	char text[40];
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 256,
					      .Height = 256,
					      .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					      .NumChannels = 4,
					      .Flags = CUDA_ARRAY3D_DEFERRED_MAPPING };
		CUDA_ARRAY_MEMORY_REQUIREMENTS need;
		POISONED(CUmipmappedArray, mip);
		memset(&need, 0x5a, sizeof(need));
		CUresult r = QUIET(cuMipmappedArrayCreate, &mip, &d, all[i]);
		out_flush();
		out_append("%u levels → %s", all[i], result_text(r, text));
		if (r != CUDA_SUCCESS)
			continue;
		QUIET(cuMipmappedArrayGetMemoryRequirements, &need, mip, 0);
		SIZE(need.size);
		QUIET(cuMipmappedArrayDestroy, mip);
	}
	POISONED(CUmipmappedArray, none);
	CALL(cuMipmappedArrayCreate, &none, NULL, 1);
	HANDLE(none);
}

static void sparse(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 4096,
				      .Height = 4096,
				      .Format = CU_AD_FORMAT_FLOAT,
				      .NumChannels = 1,
				      .Flags = CUDA_ARRAY3D_SPARSE };
	POISONED(CUarray, array);
	CUDA_ARRAY_SPARSE_PROPERTIES props;
	memset(&props, 0x5a, sizeof(props));
	CALL(cuArray3DCreate_v2, &array, &d);
	CALL(cuArrayGetSparseProperties, &props, array);
	INT(props.tileExtent.width);
	INT(props.tileExtent.height);
	INT(props.tileExtent.depth);
	INT(props.miptailFirstLevel);
	SIZE(props.miptailSize);
	INT(props.flags);
	CALL(cuArrayGetSparseProperties, NULL, array);
	CALL(cuArrayDestroy, array);
	d.Flags = 0;
	d.Width = d.Height = 64;
	CALL(cuArray3DCreate_v2, &array, &d);
	CALL(cuArrayGetSparseProperties, &props, array);
	CALL(cuArrayDestroy, array);
}

static void card_growth(void)
{
	static const size_t widths[] = { 64, 256, 512, 1024, 4096 };
	char text[40];
	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		CUDA_ARRAY_DESCRIPTOR d = { widths[i], widths[i], CU_AD_FORMAT_FLOAT, 1 };
		POISONED(CUarray, array);
		mem_mark();
		CUresult r = QUIET(cuArrayCreate_v2, &array, &d);
		out_line("# %zu x %zu floats: %s", widths[i], widths[i], result_text(r, text));
		mem_delta("created");
		QUIET(cuArrayDestroy, array);
		mem_delta("destroyed");
	}
}

static void out_of_memory(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 16384,
				      .Height = 16384,
				      .Depth = 16384,
				      .Format = CU_AD_FORMAT_FLOAT,
				      .NumChannels = 4 };
	POISONED(CUarray, array);
	CALL(cuArray3DCreate_v2, &array, &d);
	HANDLE(array);
	POISONED(CUmipmappedArray, mip);
	CALL(cuMipmappedArrayCreate, &mip, &d, 3);
	HANDLE(mip);
}

FAMILY(array, { "array", "array.plain", CTX, plain }, { "array", "array.formats", CTX, formats },
       { "array", "array.dimensions", CTX, dimensions }, { "array", "array.flags", CTX, flags },
       { "array", "array.channels", CTX, channels }, { "array", "array.errors", CTX, errors },
       { "array", "array.copies", CTX, copies }, { "array", "array.mipmaps", CTX, mipmaps },
       { "array", "array.mipmap-levels", CTX, mipmap_levels },
       { "array", "array.sparse", CTX, sparse }, { "array", "array.destroyed", CTX, destroyed },
       { "memory.card", "array.card-growth", CTX | ALONE, card_growth },
       { "memory.card", "array.out-of-memory", CTX | ALONE, out_of_memory }, );
