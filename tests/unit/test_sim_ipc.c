// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/size.h"
#include "sim_driver.h"

#define PAGE (2 * MIB)

/* what the owner tells the opener; the VMM descriptor travels beside it */
struct message {
	CUipcMemHandle large, small;
};

static int send_fd(int socket, const struct message *m, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)m, sizeof(*m) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(socket, &msg, 0) == sizeof(*m) ? 0 : -1;
}

static int receive_fd(int socket, struct message *m)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { m, sizeof(*m) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	int fd;

	if (recvmsg(socket, &msg, 0) != sizeof(*m) || !CMSG_FIRSTHDR(&msg))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

static int owner(void *argument)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
	};
	CUmemAccessDesc access = { prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h;
	CUdeviceptr large, small, va;
	int socket = *(int *)argument, fd;
	struct message m;
	char byte;

	if (sim_driver_context() || CU(cuMemAlloc_v2)(&large, 4 * PAGE) ||
	    CU(cuMemAlloc_v2)(&small, 100))
		return 1;
	strcpy((char *)(uintptr_t)(large + 3 * PAGE), "large");
	strcpy((char *)(uintptr_t)small, "small");
	if (CU(cuIpcGetMemHandle)(&m.large, large) || CU(cuIpcGetMemHandle)(&m.small, small + 3))
		return 2;
	if (strcmp((char *)(uintptr_t)(large + 3 * PAGE), "large"))
		return 3;
	if (CU(cuMemCreate)(&h, PAGE, &prop, 0) || CU(cuMemAddressReserve)(&va, PAGE, 0, 0, 0) ||
	    CU(cuMemMap)(va, PAGE, 0, h, 0) || CU(cuMemSetAccess)(va, PAGE, &access, 1) ||
	    CU(cuMemExportToShareableHandle)(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
		return 4;
	strcpy((char *)(uintptr_t)va, "vmm");
	if (CU(cuIpcOpenMemHandle_v2)(&va, m.large, 1) != CUDA_ERROR_INVALID_CONTEXT)
		return 5;
	if (send_fd(socket, &m, fd) || read(socket, &byte, 1) != 1)
		return 6;
	/* the opener wrote; and closing there took nothing from here */
	return strcmp((char *)(uintptr_t)(large + 3 * PAGE), "LARGE") ? 7 : 0;
}

static int open_vmm(int fd)
{
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h;
	size_t before = sim_driver_free_bytes();
	CUdeviceptr va;

	if (CU(cuMemImportFromShareableHandle)(&h, (void *)(intptr_t)fd,
					       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ||
	    CU(cuMemAddressReserve)(&va, PAGE, 0, 0, 0) || CU(cuMemMap)(va, PAGE, 0, h, 0) ||
	    CU(cuMemSetAccess)(va, PAGE, &access, 1))
		return 1;
	if (strcmp((char *)(uintptr_t)va, "vmm") || sim_driver_free_bytes() != before)
		return 2;
	if (CU(cuMemUnmap)(va, PAGE) || CU(cuMemRelease)(h) || CU(cuMemAddressFree)(va, PAGE))
		return 3;
	/* any descriptor will not do */
	return CU(cuMemImportFromShareableHandle)(&h, (void *)0,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) !=
	       CUDA_ERROR_UNKNOWN;
}

static int opener(void *argument)
{
	CUdeviceptr large, small, again;
	int socket = *(int *)argument, fd;
	struct message m;
	size_t before;

	if (sim_driver_context())
		return 1;
	fd = receive_fd(socket, &m);
	before = sim_driver_free_bytes();
	if (fd < 0 || CU(cuIpcOpenMemHandle_v2)(&large, m.large, 1) ||
	    CU(cuIpcOpenMemHandle_v2)(&small, m.small, 1) ||
	    CU(cuIpcOpenMemHandle_v2)(&again, m.large, 1))
		return 2;
	if (again != large || sim_driver_free_bytes() != before)
		return 3;
	if (strcmp((char *)(uintptr_t)(large + 3 * PAGE), "large") ||
	    strcmp((char *)(uintptr_t)small, "small"))
		return 4;
	strcpy((char *)(uintptr_t)(large + 3 * PAGE), "LARGE");
	if (CU(cuMemFree_v2)(large) != CUDA_ERROR_INVALID_VALUE)
		return 5;
	if (CU(cuIpcCloseMemHandle)(large) || CU(cuIpcCloseMemHandle)(large) ||
	    CU(cuIpcCloseMemHandle)(large) != CUDA_ERROR_INVALID_VALUE ||
	    CU(cuIpcCloseMemHandle)(small))
		return 6;
	if (open_vmm(fd))
		return 7;
	memset(&m.large, 7, sizeof(m.large));
	if (CU(cuIpcOpenMemHandle_v2)(&large, m.large, 1) != CUDA_ERROR_INVALID_VALUE)
		return 8;
	return write(socket, "x", 1) != 1;
}

static void memory_is_shared_between_processes(void **unused)
{
	int sockets[2];
	pid_t a, b;

	(void)unused;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
	a = sim_driver_child(owner, &sockets[0]);
	b = sim_driver_child(opener, &sockets[1]);
	close(sockets[0]);
	close(sockets[1]);
	assert_int_equal(sim_driver_wait(b), 0);
	assert_int_equal(sim_driver_wait(a), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_shared_between_processes),
	};

	sim_driver_setup(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
