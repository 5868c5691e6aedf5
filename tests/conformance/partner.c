// SPDX-License-Identifier: Apache-2.0
#include "partner.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARTNER_FD  9
#define PATIENCE_MS 20000
#define FD_TYPE     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

extern char **environ;

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

void reads(const char *who, CUdeviceptr p, size_t bytes)
{
	out_flush();
	out_append("# %s reads:", who);
	data_u32(p, bytes);
	out_flush();
}

/* ---- the sequence's side ---- */

void partner_start(struct partner *p)
{
	const char *argv[] = { "conform", "--lib", conf_lib_path, "--helper", "partner", NULL };
	posix_spawn_file_actions_t actions;
	struct reply ready;
	int pair[2];

	*p = (struct partner){ .sock = -1 };
	out_flush();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out_fd(), 1);
	posix_spawn_file_actions_adddup2(&actions, pair[1], PARTNER_FD);
	if (posix_spawn(&p->pid, "/proc/self/exe", &actions, NULL, (char *const *)argv, environ))
		p->pid = 0;
	posix_spawn_file_actions_destroy(&actions);
	close(pair[1]);
	p->sock = pair[0];
	partner_step(p, 0, &ready);
}

static bool receive(int sock, struct reply *ret)
{
	struct pollfd ready = { .fd = sock, .events = POLLIN };
	struct iovec iov = { ret->bytes, sizeof(ret->bytes) };
	union control control = { 0 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c;

	ret->fd = -1;
	if (poll(&ready, 1, PATIENCE_MS) != 1 ||
	    recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(ret->bytes))
		return false;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&ret->fd, CMSG_DATA(c), sizeof(ret->fd));
	return true;
}

void partner_step(struct partner *p, enum partner_letter letter, struct reply *ret)
{
	char byte = (char)letter;

	*ret = (struct reply){ .fd = -1 };
	out_flush();
	if (p->pid <= 0)
		return;
	/* letter 0: it says by itself that it is there */
	if ((byte && send(p->sock, &byte, 1, MSG_NOSIGNAL) != 1) || !receive(p->sock, ret)) {
		out_line("!! the partner does not answer");
		partner_end(p, true);
	}
}

void partner_end(struct partner *p, bool by_force)
{
	int status = 0;

	out_flush();
	if (p->pid > 0) {
		if (by_force)
			kill(p->pid, SIGKILL);
		(void)shutdown(p->sock, SHUT_RDWR);
		waitpid(p->pid, &status, 0);
		out_line("# the partner %s", WIFSIGNALED(status) ? "was killed" : "ended");
	}
	if (p->sock >= 0)
		close(p->sock);
	*p = (struct partner){ .sock = -1 };
}

/* ---- the partner's ---- */

static struct {
	CUdeviceptr p, small[2], mapped, pooled;
	CUmemGenericAllocationHandle handle;
	CUmemoryPool pool;
	CUevent event;
} own;

static void fill(CUdeviceptr p, unsigned int value, size_t bytes)
{
	char text[40];
	CUresult r = QUIET(cuMemsetD32_v2, p, value, bytes / 4);

	if (r == CUDA_SUCCESS)
		r = QUIET(cuCtxSynchronize);
	if (r != CUDA_SUCCESS)
		out_line("!! partner's fill: %s", result_text(r, text));
}

static void do_linear(char letter, struct reply *reply)
{
	CUipcMemHandle handle;

	memset(&handle, 0, sizeof(handle));
	switch (letter) {
	case PARTNER_ALLOC:
		QUIET(cuMemAlloc_v2, &own.p, 4 * MIB);
		fill(own.p, 0x51, 2 * MIB);
		fill(own.p + 2 * MIB, 0x52, 2 * MIB);
		break;
	case PARTNER_SMALL:
		for (unsigned int i = 0; i < 2; i++) {
			QUIET(cuMemAlloc_v2, &own.small[i], 4096);
			fill(own.small[i], 0x61 + i, 4096);
		}
		break;
	case PARTNER_HANDLE:
		CALL(cuIpcGetMemHandle, &handle, own.p);
		break;
	case PARTNER_INNER_HANDLE:
		CALL(cuIpcGetMemHandle, &handle, own.p + 2 * MIB + 512);
		break;
	case PARTNER_SMALL_HANDLE:
		CALL(cuIpcGetMemHandle, &handle, own.small[0]);
		break;
	case PARTNER_SMALL_HANDLE2:
		CALL(cuIpcGetMemHandle, &handle, own.small[1]);
		break;
	case PARTNER_FREE:
		CALL(cuMemFree_v2, own.p);
		break;
	default:
		reads("the partner", own.p, 4096);
		break;
	}
	memcpy(reply->bytes, &handle, sizeof(handle));
}

static void do_create(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes = FD_TYPE,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemAccessDesc access = { .location = prop.location,
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

	QUIET(cuMemCreate, &own.handle, 2 * MIB, &prop, 0);
	QUIET(cuMemAddressReserve, &own.mapped, 2 * MIB, 0, 0, 0);
	QUIET(cuMemMap, own.mapped, 2 * MIB, 0, own.handle, 0);
	QUIET(cuMemSetAccess, own.mapped, 2 * MIB, &access, 1);
	fill(own.mapped, 0x53, 2 * MIB);
}

static void do_pool(char letter, struct reply *reply)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .handleTypes = FD_TYPE,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemPoolPtrExportData data;

	memset(&data, 0, sizeof(data));
	switch (letter) {
	case PARTNER_POOL:
		QUIET(cuMemPoolCreate, &own.pool, &props);
		QUIET(cuMemAllocFromPoolAsync, &own.pooled, MIB, own.pool, NULL);
		fill(own.pooled, 0x54, MIB);
		break;
	case PARTNER_POOL_EXPORT:
		CALL(cuMemPoolExportToShareableHandle, &reply->fd, own.pool, FD_TYPE, 0);
		break;
	case PARTNER_POINTER:
		CALL(cuMemPoolExportPointer, &data, own.pooled);
		break;
	case PARTNER_POOL_FREE:
		CALL(cuMemFreeAsync, own.pooled, NULL);
		CALL(cuStreamSynchronize, NULL);
		break;
	default:
		CALL(cuMemPoolDestroy, own.pool);
		break;
	}
	memcpy(reply->bytes, &data, sizeof(data));
}

static void do_event(char letter, struct reply *reply)
{
	CUipcEventHandle handle;

	memset(&handle, 0, sizeof(handle));
	switch (letter) {
	case PARTNER_EVENT:
		CALL(cuEventCreate, &own.event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
		CALL(cuIpcGetEventHandle, &handle, own.event);
		break;
	case PARTNER_RECORD:
		CALL(cuEventRecord, own.event, NULL);
		break;
	case PARTNER_QUERY:
		CALL(cuEventSynchronize, own.event);
		CALL(cuEventQuery, own.event);
		break;
	default:
		CALL(cuEventDestroy_v2, own.event);
		break;
	}
	memcpy(reply->bytes, &handle, sizeof(handle));
}

static void obey(char letter, struct reply *reply)
{
	switch (letter) {
	case PARTNER_CREATE:
		do_create();
		break;
	case PARTNER_EXPORT:
		CALL(cuMemExportToShareableHandle, &reply->fd, own.handle, FD_TYPE, 0);
		break;
	case PARTNER_UNMAP:
		CALL(cuMemUnmap, own.mapped, 2 * MIB);
		break;
	case PARTNER_RELEASE:
		CALL(cuMemRelease, own.handle);
		break;
	case PARTNER_POOL:
	case PARTNER_POOL_EXPORT:
	case PARTNER_POINTER:
	case PARTNER_POOL_FREE:
	case PARTNER_POOL_DESTROY:
		do_pool(letter, reply);
		break;
	case PARTNER_EVENT:
	case PARTNER_RECORD:
	case PARTNER_QUERY:
	case PARTNER_EVENT_DESTROY:
		do_event(letter, reply);
		break;
	default:
		do_linear(letter, reply);
		break;
	}
}

static bool answer(const struct reply *reply)
{
	struct iovec iov = { (void *)(uintptr_t)reply->bytes, sizeof(reply->bytes) };
	union control control = { 0 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (reply->fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &reply->fd, sizeof(int));
	}
	out_flush();
	return sendmsg(PARTNER_FD, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof(reply->bytes);
}

int partner_main(void)
{
	struct reply reply = { .fd = -1 };
	char letter;

	if (!answer(&reply))
		return 1;
	while (recv(PARTNER_FD, &letter, 1, 0) == 1) {
		reply = (struct reply){ .fd = -1 };
		obey(letter, &reply);
		if (!answer(&reply))
			break;
		if (reply.fd >= 0)
			close(reply.fd);
	}
	return 0;
}
