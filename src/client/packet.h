// SPDX-License-Identifier: Apache-2.0
#ifndef CLIENT_PACKET_H
#define CLIENT_PACKET_H

/*
 * One message out, one message in, on a connected SOCK_SEQPACKET socket.  libc only, no heap, no
 * signals (MSG_NOSIGNAL), EINTR retried: fit for a guest in another's process as well as for
 * programs.  Descriptors arrive close-on-exec.  A socket belongs to one thread at a time.
 */

#include <stdint.h>

#include "base/clock.h"
#include "wire/wire.h"

#define PACKET_MAX_FDS 4
#define PACKET_FOREVER UINT64_MAX

struct packet {
	_Alignas(8) unsigned char buf[WIRE_MAX_MESSAGE];
	struct wire_message msg; /* points into buf */
	int fds[PACKET_MAX_FDS]; /* what came with it; the caller closes them */
	unsigned n_fds;
};

/**
 * packet_send - encode and send one message
 * @fd: a descriptor to pass along, or -1
 * Returns 0; -EPIPE/-ECONNRESET when the peer is gone; -ETIMEDOUT when it takes nothing for as
 * long as the socket waits (packet_connect); -errno.
 */
int packet_send(int sock, unsigned type, uint32_t request_id, const void *payload, int fd);

/**
 * packet_recv - receive and check one message
 * @timeout_ns: PACKET_FOREVER, or how long to wait
 * Returns 0; -ETIMEDOUT; -ECONNRESET at the end of the connection; -EBADMSG, -EPROTONOSUPPORT for
 * bytes that are no message of ours (descriptors are closed then); other -errno.
 */
int packet_recv(int sock, uint64_t timeout_ns, struct packet *ret, struct err *err);

/** packet_close_fds - close what came with a message and was not taken (set to -1) */
void packet_close_fds(struct packet *p);

#define PACKET_CONNECT_NS (1600 * NS_PER_MS) /* and as long for a packet that is not taken */

/**
 * packet_connect - a close-on-exec SEQPACKET connection to @path
 *
 * Never blocks for long: an allotd that is stopped has room for a thousand callers, and whoever
 * comes after them would wait for ever.  The limit stays on the socket, for packet_send.
 *
 * Returns the socket; -ENOENT/-ECONNREFUSED: nobody there; -EACCES: not ours to open; -ETIMEDOUT:
 * somebody is there and does not answer; -errno.
 */
int packet_connect(const char *path);

/** packet_connect_within - the same with a limit of one's own, for connecting and sending */
int packet_connect_within(const char *path, uint64_t limit_ns);

#endif
