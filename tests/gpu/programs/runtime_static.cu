// SPDX-License-Identifier: Apache-2.0
// A program with the CUDA runtime linked statically, as nvcc does by default.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(float *p, float v, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	if (i < n)
		p[i] = v + i % 7;
}

int main()
{
	const size_t n = 1 << 26;
	float *p, *q, last;
	size_t free_bytes, total;
	cudaDeviceProp prop;
	if (cudaMalloc(&p, n * 4) || cudaMallocAsync(&q, n * 4, 0))
		return printf("result: %s\n", cudaGetErrorString(cudaGetLastError())), 1;
	fill<<<(n + 255) / 256, 256>>>(p, 1, n);
	cudaMemcpyAsync(q, p, n * 4, cudaMemcpyDeviceToDevice, 0);
	cudaMemcpy(&last, q + n - 1, 4, cudaMemcpyDeviceToHost);
	cudaFreeAsync(q, 0);
	cudaFree(p);
	cudaMemGetInfo(&free_bytes, &total);
	cudaGetDeviceProperties(&prop, 0);
	printf("result: %g %s\n", last, cudaGetErrorString(cudaDeviceSynchronize()));
	printf("total: %zu %zu\n", total, prop.totalGlobalMem);
	return 0;
}
