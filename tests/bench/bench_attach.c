// SPDX-License-Identifier: Apache-2.0
/*
 * Run inside a job: N processes start on a barrier, each attaches to allotd as the shim does.
 *   bench_attach N      prints "attach P50 P99" in us
 */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "client/find.h"
#include "client/packet.h"

#define MAX_N 4096u

struct shared {
	_Atomic unsigned ready, go, done, leave;
	uint64_t took_ns[MAX_N];
};

static struct shared *sh;

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void wait_for(_Atomic unsigned *word)
{
	while (!atomic_load(word))
		(void)syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void release(_Atomic unsigned *word)
{
	atomic_store(word, 1);
	(void)syscall(SYS_futex, word, FUTEX_WAKE, MAX_N, NULL, NULL, 0);
}

static void attach_once(const struct client_place *place, unsigned i)
{
	struct wire_attach m = { .role = WIRE_ROLE_CUDA };
	static struct packet p;
	uint64_t start;
	int sock;

	atomic_fetch_add(&sh->ready, 1);
	wait_for(&sh->go);
	start = clock_now_ns();
	sock = packet_connect(place->socket);
	if (sock < 0 || packet_send(sock, WIRE_ATTACH, 1, &m, -1) < 0 ||
	    packet_recv(sock, PACKET_FOREVER, &p, NULL) < 0 || p.msg.type != WIRE_ATTACHED)
		_exit(1);
	sh->took_ns[i] = clock_now_ns() - start;
	atomic_fetch_add(&sh->done, 1);
	wait_for(&sh->leave); /* everybody stays attached until the last has come */
	_exit(0);
}

int main(int argc, char **argv)
{
	struct client_place place;
	int status, bad = 0;
	uint64_t n;

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED || argc < 2 || parse_u64(argv[1], 1, MAX_N, &n, NULL) < 0 ||
	    client_find(NULL, &place, NULL) < 0)
		return 2;
	for (unsigned i = 0; i < n; i++)
		if (fork() == 0)
			attach_once(&place, i);
	while (atomic_load(&sh->ready) < n)
		(void)usleep(1000);
	release(&sh->go);
	for (unsigned i = 0; atomic_load(&sh->done) < n && i < 10000; i++)
		(void)usleep(1000);
	release(&sh->leave);
	for (unsigned i = 0; i < n; i++)
		bad |= wait(&status) < 0 || status != 0;
	qsort(sh->took_ns, n, sizeof(sh->took_ns[0]), by_value);
	printf("attach %.1f %.1f\n", (double)sh->took_ns[n / 2] / 1e3,
	       (double)sh->took_ns[n - 1 - n / 100] / 1e3);
	return bad;
}
