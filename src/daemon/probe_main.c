// SPDX-License-Identifier: Apache-2.0
/*
 * allot-probe: a child of allotd that uses a GPU as a program would, so that allotd can look at
 *what that costs before anybody's program does it.  It may hang or die with the driver: allotd
 *gives it up then.
 *
 *	allot-probe [--driver FOLDER] context UUID    a primary context, until allotd has seen it
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/probe_wire.h"
#include "gpu/cuda.h"

static int context(const char *driver_dir, const char *uuid)
{
	struct probe_said said = { 0 };
	struct err err = { 0 };
	ssize_t n;
	char c;

	said.is_ready = gpu_cuda_context(driver_dir, uuid, &err) == 0;
	(void)str_copy(said.text, sizeof(said.text), err.text);
	if (send(PROBE_FD, &said, sizeof(said), MSG_NOSIGNAL) < 0)
		return 1; /* allotd is gone */
	do
		n = recv(PROBE_FD, &c, sizeof(c), 0);
	while (n > 0 || (n < 0 && errno == EINTR));
	return !said.is_ready;
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "driver", required_argument, NULL, 'd' },
						 { 0 } };
	const char *driver_dir = "";
	socklen_t len = sizeof(int);
	int c, type;

	log_setup("allot-probe", LOG_LEVEL_INFO);
	while ((c = getopt_long(argc, argv, "", options, NULL)) == 'd')
		driver_dir = optarg;
	if (c != -1 || argc - optind != 2 || strcmp(argv[optind], "context") != 0)
		return 2;
	if (getsockopt(PROBE_FD, SOL_SOCKET, SO_TYPE, &type, &len) < 0) {
		log_error("this program is started by allotd only");
		return 2;
	}
	/* a hung one must not outlive allotd; one that does not hang sees the socket close */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* without the driver's farewell, which may hang: the kernel takes everything back */
	_exit(context(driver_dir, argv[optind + 1]));
}
