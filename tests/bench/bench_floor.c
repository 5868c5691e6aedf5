// SPDX-License-Identifier: Apache-2.0
/*
 * The floors that this machine allows, measured in the same run as allot's own figures.
 *
 *   bench_floor attach N      N processes at once, each a connection to a bare server that answers
 *                             one packet after pidfd_open: "attach P50 P99" in us
 *   bench_floor wake N        futex wake between two processes: "wake P50 P99" in us
 *   bench_floor exec N CMD…   fork and exec: "exec P50 P99" in us
 */
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"

#define MAX_N 4096u

struct shared {
	_Atomic unsigned ready, go, word;
	_Atomic uint64_t at_ns;
	uint64_t took_ns[MAX_N];
};

static struct shared *sh;

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void report(const char *name, unsigned n)
{
	qsort(sh->took_ns, n, sizeof(sh->took_ns[0]), by_value);
	printf("%s %.1f %.1f\n", name, (double)sh->took_ns[n / 2] / 1e3,
	       (double)sh->took_ns[n - 1 - n / 100] / 1e3);
}

static void futex(_Atomic unsigned *word, int op, unsigned value)
{
	(void)syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

/* a server as bare as can be: accept, one packet in, pidfd_open, one packet out */
static void serve(int listener)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = listener };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
	for (;;) {
		struct epoll_event got;
		struct ucred peer;
		socklen_t len = sizeof(peer);
		char buf[64];
		ssize_t n;
		int fd;

		if (epoll_wait(ep, &got, 1, -1) < 1)
			continue;
		if (got.data.fd == listener) {
			fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
			ev.data.fd = fd;
			(void)epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
			continue;
		}
		fd = got.data.fd;
		n = recv(fd, buf, sizeof(buf), 0);
		if (n <= 0) {
			close(fd);
			continue;
		}
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0)
			(void)close(fd_pidfd_open(peer.pid));
		(void)!send(fd, buf, (size_t)n, MSG_NOSIGNAL);
	}
}

static void connect_once(const struct sockaddr_un *sa, unsigned i)
{
	char buf[32] = { 0 };
	uint64_t start;
	int fd;

	atomic_fetch_add(&sh->ready, 1);
	while (!atomic_load(&sh->go))
		futex(&sh->go, FUTEX_WAIT, 0);
	start = clock_now_ns();
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0 ||
	    send(fd, buf, sizeof(buf), 0) < 0 || recv(fd, buf, sizeof(buf), 0) < 0)
		_exit(1);
	sh->took_ns[i] = clock_now_ns() - start;
	_exit(0);
}

static int bench_attach(unsigned n)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), status, bad = 0;
	pid_t server;

	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "/tmp/allot-floor.%d", getpid());
	if (bind(listener, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(listener, 4096) < 0)
		return 1;
	server = fork();
	if (server == 0)
		serve(listener);
	for (unsigned i = 0; i < n; i++)
		if (fork() == 0)
			connect_once(&sa, i);
	while (atomic_load(&sh->ready) < n)
		(void)usleep(1000);
	atomic_store(&sh->go, 1);
	futex(&sh->go, FUTEX_WAKE, n);
	for (unsigned i = 0; i < n; i++)
		bad |= wait(&status) < 0 || status != 0;
	(void)kill(server, SIGKILL);
	(void)waitpid(server, &status, 0);
	(void)unlink(sa.sun_path);
	report("attach", n);
	return bad;
}

static int bench_wake(unsigned n)
{
	pid_t child = fork();

	if (child == 0) {
		for (unsigned i = 0; i < n; i++) {
			while (atomic_load(&sh->word) == i)
				futex(&sh->word, FUTEX_WAIT, i);
			sh->took_ns[i] = clock_now_ns() - atomic_load(&sh->at_ns);
			atomic_store(&sh->ready, i + 1);
		}
		_exit(0);
	}
	for (unsigned i = 0; i < n; i++) {
		while (atomic_load(&sh->ready) < i)
			(void)usleep(100);
		(void)usleep(300); /* so that it sleeps really */
		atomic_store(&sh->at_ns, clock_now_ns());
		atomic_store(&sh->word, i + 1);
		futex(&sh->word, FUTEX_WAKE, 1);
	}
	(void)waitpid(child, NULL, 0);
	report("wake", n);
	return 0;
}

static int bench_exec(unsigned n, char **argv)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t start = clock_now_ns();
		pid_t child = fork();
		int status;

		if (child == 0) {
			(void)execvp(argv[0], argv);
			_exit(127);
		}
		if (waitpid(child, &status, 0) < 0 || status != 0)
			return 1;
		sh->took_ns[i] = clock_now_ns() - start;
	}
	report("exec", n);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t n;

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED || argc < 3 || parse_u64(argv[2], 1, MAX_N, &n, NULL) < 0)
		return 2;
	if (strcmp(argv[1], "attach") == 0)
		return bench_attach((unsigned)n);
	if (strcmp(argv[1], "wake") == 0)
		return bench_wake((unsigned)n);
	if (strcmp(argv[1], "exec") == 0 && argc > 3)
		return bench_exec((unsigned)n, argv + 3);
	return 2;
}
