// SPDX-License-Identifier: Apache-2.0
/* Copies and sets: what arrives, bounds, zero sizes. */
#include "conform.h"

#include <string.h>

static void round_trip(void)
{
	static uint32_t in[1024], back[1024];
	CUdeviceptr p = alloc_quiet(4096, 0), q = alloc_quiet(4096, 0);
	for (unsigned int i = 0; i < 1024; i++)
		in[i] = i * 2654435761u;
	CALL(cuMemcpyHtoD_v2, p, in, sizeof(in));
	CALL(cuMemcpyDtoD_v2, q, p, sizeof(in));
	CALL(cuMemcpyDtoH_v2, back, q, sizeof(back));
	YES(memcmp(in, back, sizeof(in)) == 0);
	CALL(cuMemcpyDtoH_v2, back, q + 400, 4);
	YES(back[0] == in[100]);
	CALL(cuMemcpy, p, (CUdeviceptr)(uintptr_t)in, 4096);
	CALL(cuMemcpy, (CUdeviceptr)(uintptr_t)back, p, 4096);
	YES(memcmp(in, back, sizeof(in)) == 0);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFree_v2, q);
}

static void zero_bytes(void)
{
	uint32_t word = 7;
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuMemcpyHtoD_v2, p, &word, 0);
	CALL(cuMemcpyDtoH_v2, &word, p, 0);
	CALL(cuMemcpyDtoD_v2, p, p, 0);
	CALL(cuMemcpyHtoD_v2, 0, NULL, 0);
	CALL(cuMemcpyHtoD_v2, p, NULL, 0);
	CALL(cuMemcpyDtoH_v2, NULL, p, 0);
	CALL(cuMemcpyHtoDAsync_v2, p, &word, 0, NULL);
	CALL(cuMemsetD8_v2, p, 1, 0);
	CALL(cuMemsetD32_v2, 0, 1, 0);
	CALL(cuMemsetD2D8_v2, p, 16, 1, 0, 4);
	CALL(cuMemsetD2D8_v2, p, 16, 1, 4, 0);
	CALL(cuMemFree_v2, p);
}

static void null_sides(void)
{
	uint32_t word = 7;
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuMemcpyHtoD_v2, 0, &word, 4);
	CALL(cuMemcpyHtoD_v2, p, NULL, 4);
	CALL(cuMemcpyDtoH_v2, NULL, p, 4);
	CALL(cuMemcpyDtoH_v2, &word, 0, 4);
	CALL(cuMemcpyDtoD_v2, p, 0, 4);
	CALL(cuMemcpyDtoD_v2, 0, p, 4);
	CALL(cuMemsetD8_v2, 0, 1, 4);
	CALL(cuMemFree_v2, p);
}

static void bounds(void)
{
	static uint32_t host[4 * 1024 * 1024 / 4];
	CUdeviceptr p = alloc_quiet(2 * MIB, 0);
	CALL(cuMemcpyDtoH_v2, host, p, 2 * MIB);
	CALL(cuMemcpyDtoH_v2, host, p + 2 * MIB - 4, 4);
	CALL(cuMemcpyDtoH_v2, host, p, 2 * MIB + 1);
	CALL(cuMemcpyHtoD_v2, p + 4, host, 2 * MIB);
	CALL(cuMemsetD8_v2, p, 1, 2 * MIB + 1);
	CALL(cuMemsetD32_v2, p, 1, 2 * MIB);
	CALL(cuMemcpyDtoH_v2, host, 0x1000, 4);
	CALL(cuMemcpyHtoD_v2, 0x1000, host, 4);
	CALL(cuMemsetD8_v2, 0x1000, 1, 4);
	CALL(cuCtxSynchronize);
	CALL(cuMemFree_v2, p);
}

static void after_free(void)
{
	uint32_t word = 7;
	CUdeviceptr p = alloc_quiet(64 * MIB, 0);
	CALL(cuMemFree_v2, p);
	CALL(cuMemcpyDtoH_v2, &word, p, 4);
	CALL(cuMemcpyHtoD_v2, p, &word, 4);
	CALL(cuMemsetD32_v2, p, 1, 1);
	CALL(cuCtxSynchronize);
}

static void sets(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuMemsetD8_v2, p, 0xab, 4096);
	data_u32(p, 4096);
	CALL(cuMemsetD16_v2, p, 0x1234, 2048);
	data_u32(p, 4096);
	CALL(cuMemsetD32_v2, p, 0xdeadbeef, 1024);
	data_u32(p, 4096);
	CALL(cuMemsetD32_v2, p + 4, 1, 1);
	data_u32(p, 16);
	CALL(cuMemsetD8Async, p, 2, 4096, NULL);
	CALL(cuMemsetD32Async, p, 3, 1024, CU_STREAM_PER_THREAD);
	CALL(cuCtxSynchronize);
	data_u32(p, 4096);
	CALL(cuMemFree_v2, p);
}

static void set_alignment(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuMemsetD16_v2, p + 1, 1, 1);
	CALL(cuMemsetD32_v2, p + 1, 1, 1);
	CALL(cuMemsetD32_v2, p + 2, 1, 1);
	CALL(cuMemsetD8_v2, p + 1, 1, 1);
	CALL(cuMemsetD2D32_v2, p, 6, 1, 1, 2);
	CALL(cuMemsetD2D32_v2, p, 8, 1, 4, 2);
	CALL(cuMemFree_v2, p);
}

static void set_2d(void)
{
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuMemsetD2D8_v2, p, 64, 0x11, 16, 4);
	data_u32(p, 64);
	data_u32(p + 16, 48);
	CALL(cuMemsetD2D16_v2, p, 64, 0x2222, 16, 4);
	data_u32(p, 64);
	CALL(cuMemsetD2D32_v2, p, 64, 0x33, 16, 4);
	data_u32(p, 256);
	data_u32(p + 256, 64);
	CALL(cuMemFree_v2, p);
}

static void overlap(void)
{
	CUdeviceptr p = alloc_quiet(8192, 5);
	CALL(cuMemcpyDtoD_v2, p, p, 4096);
	CALL(cuMemsetD32_v2, p, 6, 1024);
	CALL(cuMemcpyDtoD_v2, p + 4096, p, 4096);
	data_u32(p, 8192);
	CALL(cuMemcpyDtoD_v2, p + 1024, p, 4096);
	data_u32(p, 8192);
	CALL(cuMemFree_v2, p);
}

static void two_d(void)
{
	static uint8_t host[64 * 8], back[64 * 8];
	CUdeviceptr p = alloc_quiet(4096, 0);
	CUDA_MEMCPY2D c = { 0 };
	for (int i = 0; i < 64 * 8; i++)
		host[i] = (uint8_t)i;
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = host;
	c.srcPitch = 64;
	c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.dstDevice = p;
	c.dstPitch = 512;
	c.WidthInBytes = 48;
	c.Height = 8;
	CALL(cuMemcpy2D_v2, &c);
	data_u32(p, 48);
	data_u32(p + 512 * 7, 48);
	data_u32(p + 512 * 7 + 48, 16);
	CALL(cuMemcpy2DUnaligned_v2, &c);
	CALL(cuMemcpy2DAsync_v2, &c, NULL);
	CALL(cuStreamSynchronize, NULL);
	c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	c.srcDevice = p;
	c.srcPitch = 512;
	c.srcXInBytes = 4;
	c.srcY = 1;
	c.dstMemoryType = CU_MEMORYTYPE_HOST;
	c.dstHost = back;
	c.dstPitch = 64;
	c.WidthInBytes = 16;
	c.Height = 2;
	CALL(cuMemcpy2D_v2, &c);
	INT(back[0]);
	INT(back[64]);
	INT(back[16]);
	CALL(cuMemFree_v2, p);
}

static void two_d_errors(void)
{
	static uint8_t host[4096];
	CUdeviceptr p = alloc_quiet(4096, 0);
	CUDA_MEMCPY2D c = { 0 };
	CALL(cuMemcpy2D_v2, NULL);
	CALL(cuMemcpy2D_v2, &c);
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = host;
	c.srcPitch = 64;
	c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.dstDevice = p;
	c.dstPitch = 64;
	CALL(cuMemcpy2D_v2, &c);
	c.WidthInBytes = 65;
	c.Height = 2;
	CALL(cuMemcpy2D_v2, &c);
	c.WidthInBytes = 64;
	c.Height = 100;
	CALL(cuMemcpy2D_v2, &c);
	c.Height = 2;
	c.dstMemoryType = (CUmemorytype)9;
	CALL(cuMemcpy2D_v2, &c);
	c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.dstDevice = 0;
	CALL(cuMemcpy2D_v2, &c);
	c.dstDevice = p;
	c.srcHost = NULL;
	CALL(cuMemcpy2D_v2, &c);
	CALL(cuCtxSynchronize);
	CALL(cuMemFree_v2, p);
}

static void three_d(void)
{
	static uint8_t host[16 * 4 * 4];
	CUdeviceptr p = alloc_quiet(4096, 0);
	CUDA_MEMCPY3D c;
	memset(&c, 0, sizeof(c));
	for (int i = 0; i < 256; i++)
		host[i] = (uint8_t)i;
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = host;
	c.srcPitch = 16;
	c.srcHeight = 4;
	c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.dstDevice = p;
	c.dstPitch = 32;
	c.dstHeight = 8;
	c.WidthInBytes = 16;
	c.Height = 4;
	c.Depth = 4;
	CALL(cuMemcpy3D_v2, &c);
	data_u32(p, 16);
	data_u32(p + 32 * 8 * 3 + 32 * 3, 16);
	c.Depth = 0;
	CALL(cuMemcpy3D_v2, &c);
	CALL(cuMemcpy3D_v2, NULL);
	CALL(cuMemFree_v2, p);
}

static void pageable_async(void)
{
	static uint32_t host[1024];
	CUdeviceptr p = alloc_quiet(4096, 9);
	POISONED(CUstream, stream);
	CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	CALL(cuMemcpyDtoHAsync_v2, host, p, 4096, stream);
	CALL(cuStreamSynchronize, stream);
	HEX(host[0]);
	HEX(host[1023]);
	host[0] = 77;
	CALL(cuMemcpyHtoDAsync_v2, p, host, 4096, stream);
	/* pageable memory has been read when the call returns */
	host[0] = 78;
	CALL(cuStreamSynchronize, stream);
	data_u32(p, 4);
	CALL(cuStreamDestroy_v2, stream);
	CALL(cuMemFree_v2, p);
}

static void async_errors(void)
{
	uint32_t word = 7;
	CUdeviceptr p = alloc_quiet(4096, 0);
	CALL(cuMemcpyHtoDAsync_v2, p, NULL, 4, NULL);
	CALL(cuMemcpyHtoDAsync_v2, 0, &word, 4, NULL);
	CALL(cuMemcpyDtoHAsync_v2, NULL, p, 4, NULL);
	CALL(cuMemcpyDtoDAsync_v2, p, 0x1000, 4, NULL);
	CALL(cuMemcpyAsync, 0, p, 4, NULL);
	CALL(cuMemsetD8Async, 0x1000, 1, 4, NULL);
	CALL(cuCtxSynchronize);
	CALL(cuMemFree_v2, p);
}

static void peer_copy(void)
{
	CUdeviceptr p = alloc_quiet(4096, 3), q = alloc_quiet(4096, 0);
	CALL(cuMemcpyPeer, q, conf_ctx, p, conf_ctx, 4096);
	data_u32(q, 4096);
	CALL(cuMemcpyPeer, q, NULL, p, conf_ctx, 4096);
	CALL(cuMemcpyPeerAsync, q, conf_ctx, p, conf_ctx, 4096, NULL);
	CALL(cuCtxSynchronize);
	CALL(cuMemFree_v2, p);
	CALL(cuMemFree_v2, q);
}

FAMILY(copy, { "copy", "copy.round-trip", CTX, round_trip },
       { "copy", "copy.zero-bytes", CTX, zero_bytes }, { "copy", "copy.sets", CTX, sets },
       { "copy", "copy.set-alignment", CTX, set_alignment }, { "copy", "copy.set-2d", CTX, set_2d },
       { "copy", "copy.overlap", CTX, overlap }, { "copy", "copy.2d", CTX, two_d },
       { "copy", "copy.3d", CTX, three_d }, { "copy", "copy.pageable-async", CTX, pageable_async },
       { "copy", "copy.peer", CTX, peer_copy }, { "copy.bad", "copy.2d-errors", CTX, two_d_errors },
       { "copy.bad", "copy.bounds", CTX, bounds },
       { "copy.bad", "copy.after-free", CTX, after_free },
       { "copy.null", "copy.null-sides", CTX, null_sides },
       { "copy.null", "copy.async-errors", CTX, async_errors }, );
