// SPDX-License-Identifier: Apache-2.0
/* Run inside a job: N processes attach and then do nothing for SECONDS; says "attached" first. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parse.h"
#include "client/find.h"
#include "client/packet.h"

static int attach_and_sleep(const struct client_place *place, unsigned seconds, int ready)
{
	struct wire_attach m = { .role = WIRE_ROLE_CUDA };
	static struct packet p;
	int sock = packet_connect(place->socket);

	if (sock < 0 || packet_send(sock, WIRE_ATTACH, 1, &m, -1) < 0 ||
	    packet_recv(sock, PACKET_FOREVER, &p, NULL) < 0 || p.msg.type != WIRE_ATTACHED)
		return 1;
	(void)!write(ready, "", 1);
	(void)sleep(seconds);
	return 0;
}

int main(int argc, char **argv)
{
	struct client_place place;
	uint64_t n, seconds;
	int ends[2], status, bad = 0;
	char byte;

	if (argc < 3 || parse_u64(argv[1], 1, 1024, &n, NULL) < 0 ||
	    parse_u64(argv[2], 1, 3600, &seconds, NULL) < 0 ||
	    client_find(NULL, &place, NULL) < 0 || pipe(ends) < 0)
		return 2;
	for (unsigned i = 0; i < n; i++)
		if (fork() == 0)
			_exit(attach_and_sleep(&place, (unsigned)seconds, ends[1]));
	for (unsigned i = 0; i < n; i++)
		if (read(ends[0], &byte, 1) != 1)
			return 1;
	printf("attached\n");
	(void)fflush(stdout);
	for (unsigned i = 0; i < n; i++)
		bad |= wait(&status) < 0 || status != 0;
	return bad;
}
