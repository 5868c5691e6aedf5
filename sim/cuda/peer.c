// SPDX-License-Identifier: Apache-2.0
/*
 * Access of one context to the memory of another, on another device.  It is given context by
 * context: two contexts of one device are two peers.  What ends with a context is forgotten.
 */
#include <stdlib.h>

#include "sim/cuda/context.h"

struct peer {
	struct list node; /* CUctx_st.peers */
	CUcontext ctx;
};

static struct peer *find(CUcontext ctx, CUcontext other)
{
	struct peer *it;

	list_for_each (it, &ctx->peers, node) {
		if (it->ctx == other)
			return it;
	}
	return NULL;
}

static void forget(struct peer *peer)
{
	if (!peer)
		return;
	list_del(&peer->node);
	free(peer);
}

bool sim_peer_is_enabled(CUcontext ctx, CUcontext other)
{
	return find(ctx, other);
}

void sim_peers_end(CUcontext ctx)
{
	while (!list_is_empty(&ctx->peers))
		forget(list_entry(ctx->peers.next, struct peer, node));
	for (unsigned i = 0; i < sim.device_count; i++) {
		CUcontext it;

		list_for_each (it, &sim.devices[i].contexts, node)
			forget(find(it, ctx));
	}
}

static CUresult enable(CUcontext ctx, CUcontext other, unsigned flags)
{
	CUresult result = other ? sim_ctx_check(other) : CUDA_ERROR_INVALID_CONTEXT;
	struct peer *peer;

	if (result)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (other->device == ctx->device)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	if (find(ctx, other))
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return CUDA_ERROR_OUT_OF_MEMORY;
	peer->ctx = other;
	list_append(&ctx->peers, &peer->node);
	return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	return SIM_CALL(cuCtxEnablePeerAccess, SIM_CTX | SIM_LOCK,
			enable(call.ctx, peerContext, Flags), "peer=%p flags=%u",
			(void *)peerContext, Flags);
}

static CUresult disable(CUcontext ctx, CUcontext other)
{
	CUresult result = other ? sim_ctx_check(other) : CUDA_ERROR_INVALID_CONTEXT;
	struct peer *peer;

	if (result)
		return CUDA_ERROR_INVALID_CONTEXT;
	peer = find(ctx, other);
	if (!peer)
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	forget(peer);
	return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
	return SIM_CALL(cuCtxDisablePeerAccess, SIM_CTX | SIM_LOCK, disable(call.ctx, peerContext),
			"peer=%p", (void *)peerContext);
}
