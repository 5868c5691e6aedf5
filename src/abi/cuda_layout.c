// SPDX-License-Identifier: Apache-2.0
/*
 * Asserts that the structures of cuda_types.h lie in memory as the driver's do. The numbers come
 * from compiling against cuda.h of CUDA 13.0 on x86-64; aarch64 has the same. The structures that
 * we read or write are asserted field by field, the others by size and last field.
 */
#include "abi/cuda_types.h"

#define SIZE(type, bytes)       _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)

SIZE(CUuuid, 16);

SIZE(CUmemFabricHandle, 64);

SIZE(CUipcEventHandle, 64);

SIZE(CUipcMemHandle, 64);

SIZE(CUstreamBatchMemOpParams, 48);

SIZE(CUDA_BATCH_MEM_OP_NODE_PARAMS, 32);
AT(CUDA_BATCH_MEM_OP_NODE_PARAMS, count, 8);
AT(CUDA_BATCH_MEM_OP_NODE_PARAMS, paramArray, 16);
AT(CUDA_BATCH_MEM_OP_NODE_PARAMS, flags, 24);

SIZE(CUDA_BATCH_MEM_OP_NODE_PARAMS_v2, 32);
AT(CUDA_BATCH_MEM_OP_NODE_PARAMS_v2, count, 8);
AT(CUDA_BATCH_MEM_OP_NODE_PARAMS_v2, paramArray, 16);
AT(CUDA_BATCH_MEM_OP_NODE_PARAMS_v2, flags, 24);

SIZE(CUasyncNotificationInfo, 16);
AT(CUasyncNotificationInfo, info, 8);

SIZE(CUdevprop, 56);
AT(CUdevprop, maxThreadsDim, 4);
AT(CUdevprop, maxGridSize, 16);
AT(CUdevprop, sharedMemPerBlock, 28);
AT(CUdevprop, totalConstantMemory, 32);
AT(CUdevprop, SIMDWidth, 36);
AT(CUdevprop, memPitch, 40);
AT(CUdevprop, regsPerBlock, 44);
AT(CUdevprop, clockRate, 48);
AT(CUdevprop, textureAlign, 52);

SIZE(CUaccessPolicyWindow, 32);
AT(CUaccessPolicyWindow, num_bytes, 8);
AT(CUaccessPolicyWindow, hitRatio, 16);
AT(CUaccessPolicyWindow, hitProp, 20);
AT(CUaccessPolicyWindow, missProp, 24);

SIZE(CUDA_KERNEL_NODE_PARAMS_v1, 56);
AT(CUDA_KERNEL_NODE_PARAMS_v1, gridDimX, 8);
AT(CUDA_KERNEL_NODE_PARAMS_v1, gridDimY, 12);
AT(CUDA_KERNEL_NODE_PARAMS_v1, gridDimZ, 16);
AT(CUDA_KERNEL_NODE_PARAMS_v1, blockDimX, 20);
AT(CUDA_KERNEL_NODE_PARAMS_v1, blockDimY, 24);
AT(CUDA_KERNEL_NODE_PARAMS_v1, blockDimZ, 28);
AT(CUDA_KERNEL_NODE_PARAMS_v1, sharedMemBytes, 32);
AT(CUDA_KERNEL_NODE_PARAMS_v1, kernelParams, 40);
AT(CUDA_KERNEL_NODE_PARAMS_v1, extra, 48);

SIZE(CUDA_KERNEL_NODE_PARAMS, 72);
AT(CUDA_KERNEL_NODE_PARAMS, gridDimX, 8);
AT(CUDA_KERNEL_NODE_PARAMS, gridDimY, 12);
AT(CUDA_KERNEL_NODE_PARAMS, gridDimZ, 16);
AT(CUDA_KERNEL_NODE_PARAMS, blockDimX, 20);
AT(CUDA_KERNEL_NODE_PARAMS, blockDimY, 24);
AT(CUDA_KERNEL_NODE_PARAMS, blockDimZ, 28);
AT(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes, 32);
AT(CUDA_KERNEL_NODE_PARAMS, kernelParams, 40);
AT(CUDA_KERNEL_NODE_PARAMS, extra, 48);
AT(CUDA_KERNEL_NODE_PARAMS, kern, 56);
AT(CUDA_KERNEL_NODE_PARAMS, ctx, 64);

SIZE(CUDA_KERNEL_NODE_PARAMS_v3, 72);
AT(CUDA_KERNEL_NODE_PARAMS_v3, gridDimX, 8);
AT(CUDA_KERNEL_NODE_PARAMS_v3, gridDimY, 12);
AT(CUDA_KERNEL_NODE_PARAMS_v3, gridDimZ, 16);
AT(CUDA_KERNEL_NODE_PARAMS_v3, blockDimX, 20);
AT(CUDA_KERNEL_NODE_PARAMS_v3, blockDimY, 24);
AT(CUDA_KERNEL_NODE_PARAMS_v3, blockDimZ, 28);
AT(CUDA_KERNEL_NODE_PARAMS_v3, sharedMemBytes, 32);
AT(CUDA_KERNEL_NODE_PARAMS_v3, kernelParams, 40);
AT(CUDA_KERNEL_NODE_PARAMS_v3, extra, 48);
AT(CUDA_KERNEL_NODE_PARAMS_v3, kern, 56);
AT(CUDA_KERNEL_NODE_PARAMS_v3, ctx, 64);

SIZE(CUDA_MEMSET_NODE_PARAMS, 40);
AT(CUDA_MEMSET_NODE_PARAMS, pitch, 8);
AT(CUDA_MEMSET_NODE_PARAMS, value, 16);
AT(CUDA_MEMSET_NODE_PARAMS, elementSize, 20);
AT(CUDA_MEMSET_NODE_PARAMS, width, 24);
AT(CUDA_MEMSET_NODE_PARAMS, height, 32);

SIZE(CUDA_MEMSET_NODE_PARAMS_v2, 48);
AT(CUDA_MEMSET_NODE_PARAMS_v2, pitch, 8);
AT(CUDA_MEMSET_NODE_PARAMS_v2, value, 16);
AT(CUDA_MEMSET_NODE_PARAMS_v2, elementSize, 20);
AT(CUDA_MEMSET_NODE_PARAMS_v2, width, 24);
AT(CUDA_MEMSET_NODE_PARAMS_v2, height, 32);
AT(CUDA_MEMSET_NODE_PARAMS_v2, ctx, 40);

SIZE(CUDA_HOST_NODE_PARAMS, 16);
AT(CUDA_HOST_NODE_PARAMS, userData, 8);

SIZE(CUDA_HOST_NODE_PARAMS_v2, 16);
AT(CUDA_HOST_NODE_PARAMS_v2, userData, 8);

SIZE(CUDA_CONDITIONAL_NODE_PARAMS, 32);
AT(CUDA_CONDITIONAL_NODE_PARAMS, type, 8);
AT(CUDA_CONDITIONAL_NODE_PARAMS, size, 12);
AT(CUDA_CONDITIONAL_NODE_PARAMS, phGraph_out, 16);
AT(CUDA_CONDITIONAL_NODE_PARAMS, ctx, 24);

SIZE(CUgraphEdgeData, 8);
AT(CUgraphEdgeData, to_port, 1);
AT(CUgraphEdgeData, type, 2);
AT(CUgraphEdgeData, reserved, 3);

SIZE(CUDA_GRAPH_INSTANTIATE_PARAMS, 32);
AT(CUDA_GRAPH_INSTANTIATE_PARAMS, hUploadStream, 8);
AT(CUDA_GRAPH_INSTANTIATE_PARAMS, hErrNode_out, 16);
AT(CUDA_GRAPH_INSTANTIATE_PARAMS, result_out, 24);

SIZE(CUlaunchMemSyncDomainMap, 2);
AT(CUlaunchMemSyncDomainMap, remote, 1);

SIZE(CUlaunchAttributeValue, 64);

SIZE(CUlaunchAttribute, 72);
AT(CUlaunchAttribute, pad, 4);
AT(CUlaunchAttribute, value, 8);

SIZE(CUlaunchConfig, 56);
AT(CUlaunchConfig, gridDimY, 4);
AT(CUlaunchConfig, gridDimZ, 8);
AT(CUlaunchConfig, blockDimX, 12);
AT(CUlaunchConfig, blockDimY, 16);
AT(CUlaunchConfig, blockDimZ, 20);
AT(CUlaunchConfig, sharedMemBytes, 24);
AT(CUlaunchConfig, hStream, 32);
AT(CUlaunchConfig, attrs, 40);
AT(CUlaunchConfig, numAttrs, 48);

SIZE(CUexecAffinitySmCount, 4);

SIZE(CUexecAffinityParam, 8);
AT(CUexecAffinityParam, param, 4);

SIZE(CUctxCigParam, 16);
AT(CUctxCigParam, sharedData, 8);

SIZE(CUctxCreateParams, 24);
AT(CUctxCreateParams, numExecAffinityParams, 8);
AT(CUctxCreateParams, cigParams, 16);

SIZE(CUDA_MEMCPY2D, 128);
AT(CUDA_MEMCPY2D, srcY, 8);
AT(CUDA_MEMCPY2D, srcMemoryType, 16);
AT(CUDA_MEMCPY2D, srcHost, 24);
AT(CUDA_MEMCPY2D, srcDevice, 32);
AT(CUDA_MEMCPY2D, srcArray, 40);
AT(CUDA_MEMCPY2D, srcPitch, 48);
AT(CUDA_MEMCPY2D, dstXInBytes, 56);
AT(CUDA_MEMCPY2D, dstY, 64);
AT(CUDA_MEMCPY2D, dstMemoryType, 72);
AT(CUDA_MEMCPY2D, dstHost, 80);
AT(CUDA_MEMCPY2D, dstDevice, 88);
AT(CUDA_MEMCPY2D, dstArray, 96);
AT(CUDA_MEMCPY2D, dstPitch, 104);
AT(CUDA_MEMCPY2D, WidthInBytes, 112);
AT(CUDA_MEMCPY2D, Height, 120);

SIZE(CUDA_MEMCPY3D, 200);
AT(CUDA_MEMCPY3D, srcY, 8);
AT(CUDA_MEMCPY3D, srcZ, 16);
AT(CUDA_MEMCPY3D, srcLOD, 24);
AT(CUDA_MEMCPY3D, srcMemoryType, 32);
AT(CUDA_MEMCPY3D, srcHost, 40);
AT(CUDA_MEMCPY3D, srcDevice, 48);
AT(CUDA_MEMCPY3D, srcArray, 56);
AT(CUDA_MEMCPY3D, reserved0, 64);
AT(CUDA_MEMCPY3D, srcPitch, 72);
AT(CUDA_MEMCPY3D, srcHeight, 80);
AT(CUDA_MEMCPY3D, dstXInBytes, 88);
AT(CUDA_MEMCPY3D, dstY, 96);
AT(CUDA_MEMCPY3D, dstZ, 104);
AT(CUDA_MEMCPY3D, dstLOD, 112);
AT(CUDA_MEMCPY3D, dstMemoryType, 120);
AT(CUDA_MEMCPY3D, dstHost, 128);
AT(CUDA_MEMCPY3D, dstDevice, 136);
AT(CUDA_MEMCPY3D, dstArray, 144);
AT(CUDA_MEMCPY3D, reserved1, 152);
AT(CUDA_MEMCPY3D, dstPitch, 160);
AT(CUDA_MEMCPY3D, dstHeight, 168);
AT(CUDA_MEMCPY3D, WidthInBytes, 176);
AT(CUDA_MEMCPY3D, Height, 184);
AT(CUDA_MEMCPY3D, Depth, 192);

SIZE(CUDA_MEMCPY3D_PEER, 200);
AT(CUDA_MEMCPY3D_PEER, srcY, 8);
AT(CUDA_MEMCPY3D_PEER, srcZ, 16);
AT(CUDA_MEMCPY3D_PEER, srcLOD, 24);
AT(CUDA_MEMCPY3D_PEER, srcMemoryType, 32);
AT(CUDA_MEMCPY3D_PEER, srcHost, 40);
AT(CUDA_MEMCPY3D_PEER, srcDevice, 48);
AT(CUDA_MEMCPY3D_PEER, srcArray, 56);
AT(CUDA_MEMCPY3D_PEER, srcContext, 64);
AT(CUDA_MEMCPY3D_PEER, srcPitch, 72);
AT(CUDA_MEMCPY3D_PEER, srcHeight, 80);
AT(CUDA_MEMCPY3D_PEER, dstXInBytes, 88);
AT(CUDA_MEMCPY3D_PEER, dstY, 96);
AT(CUDA_MEMCPY3D_PEER, dstZ, 104);
AT(CUDA_MEMCPY3D_PEER, dstLOD, 112);
AT(CUDA_MEMCPY3D_PEER, dstMemoryType, 120);
AT(CUDA_MEMCPY3D_PEER, dstHost, 128);
AT(CUDA_MEMCPY3D_PEER, dstDevice, 136);
AT(CUDA_MEMCPY3D_PEER, dstArray, 144);
AT(CUDA_MEMCPY3D_PEER, dstContext, 152);
AT(CUDA_MEMCPY3D_PEER, dstPitch, 160);
AT(CUDA_MEMCPY3D_PEER, dstHeight, 168);
AT(CUDA_MEMCPY3D_PEER, WidthInBytes, 176);
AT(CUDA_MEMCPY3D_PEER, Height, 184);
AT(CUDA_MEMCPY3D_PEER, Depth, 192);

SIZE(CUDA_MEMCPY_NODE_PARAMS, 216);
AT(CUDA_MEMCPY_NODE_PARAMS, reserved, 4);
AT(CUDA_MEMCPY_NODE_PARAMS, copyCtx, 8);
AT(CUDA_MEMCPY_NODE_PARAMS, copyParams, 16);

SIZE(CUDA_ARRAY_DESCRIPTOR, 24);
AT(CUDA_ARRAY_DESCRIPTOR, Height, 8);
AT(CUDA_ARRAY_DESCRIPTOR, Format, 16);
AT(CUDA_ARRAY_DESCRIPTOR, NumChannels, 20);

SIZE(CUDA_ARRAY3D_DESCRIPTOR, 40);
AT(CUDA_ARRAY3D_DESCRIPTOR, Height, 8);
AT(CUDA_ARRAY3D_DESCRIPTOR, Depth, 16);
AT(CUDA_ARRAY3D_DESCRIPTOR, Format, 24);
AT(CUDA_ARRAY3D_DESCRIPTOR, NumChannels, 28);
AT(CUDA_ARRAY3D_DESCRIPTOR, Flags, 32);

SIZE(CUDA_ARRAY_SPARSE_PROPERTIES, 48);
AT(CUDA_ARRAY_SPARSE_PROPERTIES, miptailFirstLevel, 12);
AT(CUDA_ARRAY_SPARSE_PROPERTIES, miptailSize, 16);
AT(CUDA_ARRAY_SPARSE_PROPERTIES, flags, 24);
AT(CUDA_ARRAY_SPARSE_PROPERTIES, reserved, 28);

SIZE(CUDA_ARRAY_MEMORY_REQUIREMENTS, 32);
AT(CUDA_ARRAY_MEMORY_REQUIREMENTS, alignment, 8);
AT(CUDA_ARRAY_MEMORY_REQUIREMENTS, reserved, 16);

SIZE(CUDA_RESOURCE_DESC, 144);
AT(CUDA_RESOURCE_DESC, flags, 136);

SIZE(CUDA_TEXTURE_DESC, 104);
AT(CUDA_TEXTURE_DESC, reserved, 56);

SIZE(CUDA_RESOURCE_VIEW_DESC, 112);
AT(CUDA_RESOURCE_VIEW_DESC, reserved, 48);

SIZE(CUtensorMap, 128);

SIZE(CUDA_LAUNCH_PARAMS, 56);
AT(CUDA_LAUNCH_PARAMS, gridDimX, 8);
AT(CUDA_LAUNCH_PARAMS, gridDimY, 12);
AT(CUDA_LAUNCH_PARAMS, gridDimZ, 16);
AT(CUDA_LAUNCH_PARAMS, blockDimX, 20);
AT(CUDA_LAUNCH_PARAMS, blockDimY, 24);
AT(CUDA_LAUNCH_PARAMS, blockDimZ, 28);
AT(CUDA_LAUNCH_PARAMS, sharedMemBytes, 32);
AT(CUDA_LAUNCH_PARAMS, hStream, 40);
AT(CUDA_LAUNCH_PARAMS, kernelParams, 48);

SIZE(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, 104);
AT(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle, 8);
AT(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size, 24);
AT(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, flags, 32);
AT(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, reserved, 36);

SIZE(CUDA_EXTERNAL_MEMORY_BUFFER_DESC, 88);
AT(CUDA_EXTERNAL_MEMORY_BUFFER_DESC, size, 8);
AT(CUDA_EXTERNAL_MEMORY_BUFFER_DESC, flags, 16);
AT(CUDA_EXTERNAL_MEMORY_BUFFER_DESC, reserved, 20);

SIZE(CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, 120);
AT(CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, arrayDesc, 8);
AT(CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, numLevels, 48);
AT(CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, reserved, 52);

SIZE(CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, 96);
AT(CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, reserved, 28);

SIZE(CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, 144);
AT(CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, reserved, 76);

SIZE(CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, 144);
AT(CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, reserved, 76);

SIZE(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, 24);
AT(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, numExtSems, 16);

SIZE(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2, 24);
AT(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2, numExtSems, 16);

SIZE(CUDA_EXT_SEM_WAIT_NODE_PARAMS, 24);
AT(CUDA_EXT_SEM_WAIT_NODE_PARAMS, numExtSems, 16);

SIZE(CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2, 24);
AT(CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2, numExtSems, 16);

SIZE(CUarrayMapInfo, 96);
AT(CUarrayMapInfo, resource, 8);
AT(CUarrayMapInfo, subresourceType, 16);
AT(CUarrayMapInfo, subresource, 24);
AT(CUarrayMapInfo, memOperationType, 56);
AT(CUarrayMapInfo, memHandleType, 60);
AT(CUarrayMapInfo, memHandle, 64);
AT(CUarrayMapInfo, offset, 72);
AT(CUarrayMapInfo, deviceBitMask, 80);
AT(CUarrayMapInfo, flags, 84);
AT(CUarrayMapInfo, reserved, 88);

SIZE(CUmemLocation, 8);
AT(CUmemLocation, id, 4);

SIZE(CUmemAllocationProp, 32);
AT(CUmemAllocationProp, requestedHandleTypes, 4);
AT(CUmemAllocationProp, location, 8);
AT(CUmemAllocationProp, win32HandleMetaData, 16);
AT(CUmemAllocationProp, allocFlags, 24);

SIZE(CUmulticastObjectProp, 32);
AT(CUmulticastObjectProp, size, 8);
AT(CUmulticastObjectProp, handleTypes, 16);
AT(CUmulticastObjectProp, flags, 24);

SIZE(CUmemAccessDesc, 12);
AT(CUmemAccessDesc, flags, 8);

SIZE(CUgraphExecUpdateResultInfo, 24);
AT(CUgraphExecUpdateResultInfo, errorNode, 8);
AT(CUgraphExecUpdateResultInfo, errorFromNode, 16);

SIZE(CUmemPoolProps, 88);
AT(CUmemPoolProps, handleTypes, 4);
AT(CUmemPoolProps, location, 8);
AT(CUmemPoolProps, win32SecurityAttributes, 16);
AT(CUmemPoolProps, maxSize, 24);
AT(CUmemPoolProps, usage, 32);
AT(CUmemPoolProps, reserved, 34);

SIZE(CUmemPoolPtrExportData, 64);

SIZE(CUmemcpyAttributes, 24);
AT(CUmemcpyAttributes, srcLocHint, 4);
AT(CUmemcpyAttributes, dstLocHint, 12);
AT(CUmemcpyAttributes, flags, 20);

SIZE(CUoffset3D, 24);
AT(CUoffset3D, z, 16);

SIZE(CUextent3D, 24);
AT(CUextent3D, depth, 16);

SIZE(CUmemcpy3DOperand, 40);
AT(CUmemcpy3DOperand, op, 8);

SIZE(CUDA_MEMCPY3D_BATCH_OP, 112);
AT(CUDA_MEMCPY3D_BATCH_OP, dst, 40);
AT(CUDA_MEMCPY3D_BATCH_OP, extent, 80);
AT(CUDA_MEMCPY3D_BATCH_OP, srcAccessOrder, 104);
AT(CUDA_MEMCPY3D_BATCH_OP, flags, 108);

SIZE(CUDA_MEM_ALLOC_NODE_PARAMS, 120);
AT(CUDA_MEM_ALLOC_NODE_PARAMS, accessDescs, 88);
AT(CUDA_MEM_ALLOC_NODE_PARAMS, accessDescCount, 96);
AT(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize, 104);
AT(CUDA_MEM_ALLOC_NODE_PARAMS, dptr, 112);

SIZE(CUDA_MEM_ALLOC_NODE_PARAMS_v2, 120);
AT(CUDA_MEM_ALLOC_NODE_PARAMS_v2, accessDescs, 88);
AT(CUDA_MEM_ALLOC_NODE_PARAMS_v2, accessDescCount, 96);
AT(CUDA_MEM_ALLOC_NODE_PARAMS_v2, bytesize, 104);
AT(CUDA_MEM_ALLOC_NODE_PARAMS_v2, dptr, 112);

SIZE(CUDA_MEM_FREE_NODE_PARAMS, 8);

SIZE(CUDA_CHILD_GRAPH_NODE_PARAMS, 16);
AT(CUDA_CHILD_GRAPH_NODE_PARAMS, ownership, 8);

SIZE(CUDA_EVENT_RECORD_NODE_PARAMS, 8);

SIZE(CUDA_EVENT_WAIT_NODE_PARAMS, 8);

SIZE(CUgraphNodeParams, 256);
AT(CUgraphNodeParams, reserved0, 4);
AT(CUgraphNodeParams, reserved1, 16);
AT(CUgraphNodeParams, kernel, 16);
AT(CUgraphNodeParams, memcpy, 16);
AT(CUgraphNodeParams, memset, 16);
AT(CUgraphNodeParams, host, 16);
AT(CUgraphNodeParams, graph, 16);
AT(CUgraphNodeParams, eventWait, 16);
AT(CUgraphNodeParams, eventRecord, 16);
AT(CUgraphNodeParams, extSemSignal, 16);
AT(CUgraphNodeParams, extSemWait, 16);
AT(CUgraphNodeParams, alloc, 16);
AT(CUgraphNodeParams, free, 16);
AT(CUgraphNodeParams, memOp, 16);
AT(CUgraphNodeParams, conditional, 16);
AT(CUgraphNodeParams, reserved2, 248);

SIZE(CUcheckpointLockArgs, 64);
AT(CUcheckpointLockArgs, reserved0, 4);
AT(CUcheckpointLockArgs, reserved1, 8);

SIZE(CUcheckpointCheckpointArgs, 64);

SIZE(CUcheckpointGpuPair, 32);
AT(CUcheckpointGpuPair, newUuid, 16);

SIZE(CUcheckpointRestoreArgs, 64);
AT(CUcheckpointRestoreArgs, gpuPairsCount, 8);
AT(CUcheckpointRestoreArgs, reserved, 12);
AT(CUcheckpointRestoreArgs, reserved1, 56);

SIZE(CUcheckpointUnlockArgs, 64);

SIZE(CUmemDecompressParams, 64);
AT(CUmemDecompressParams, dstNumBytes, 8);
AT(CUmemDecompressParams, dstActBytes, 16);
AT(CUmemDecompressParams, src, 24);
AT(CUmemDecompressParams, dst, 32);
AT(CUmemDecompressParams, algo, 40);
AT(CUmemDecompressParams, padding, 44);

SIZE(CUdevSmResource, 12);
AT(CUdevSmResource, minSmPartitionSize, 4);
AT(CUdevSmResource, smCoscheduledAlignment, 8);

SIZE(CUdevResource, 144);
AT(CUdevResource, _internal_padding, 4);
AT(CUdevResource, sm, 96);
AT(CUdevResource, _oversize, 96);
