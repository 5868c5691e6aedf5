// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "client/client.h"
#include "client/packet.h"
#include "wire/page.h"
#include "wire/wire.h"

static _Alignas(8) unsigned char buf[WIRE_MAX_MESSAGE + 64];
static _Alignas(8) unsigned char payload[WIRE_MAX_MESSAGE];

static void every_message_goes_round(void **state)
{
	(void)state;
	for (unsigned type = 0; type <= UINT16_MAX; type++) {
		struct wire_message m;
		int size = wire_size(type), len;

		if (size < 0) {
			assert_string_equal(wire_name(type), "?");
			assert_int_equal(wire_encode(buf, sizeof(buf), type, 1, payload), -ENOENT);
			continue;
		}
		len = wire_encode(buf, sizeof(buf), type, type + 7, payload);
		assert_int_equal(len, (int)sizeof(struct wire_header) + size);
		assert_int_equal(wire_decode(buf, (size_t)len, &m, NULL), 0);
		assert_int_equal(m.type, type);
		assert_int_equal(m.request_id, type + 7);
		/* neither a byte less nor a byte more, and never into a smaller buffer */
		assert_int_equal(wire_decode(buf, (size_t)len - 1, &m, NULL), -EBADMSG);
		assert_int_equal(wire_decode(buf, (size_t)len + 1, &m, NULL), -EBADMSG);
		assert_int_equal(wire_encode(buf, (size_t)len - 1, type, 1, payload), -ENOSPC);
	}
}

static void bad_packets_are_refused(void **state)
{
	struct wire_need need = { .bytes = 5 };
	struct wire_message m = { 0 };
	struct wire_header h;
	struct err err;
	int len;

	(void)state;
	assert_int_equal(wire_decode(buf, 0, &m, &err), -EBADMSG);
	assert_int_equal(wire_decode(buf, sizeof(h) - 1, &m, &err), -EBADMSG);
	len = wire_encode(buf, sizeof(buf), WIRE_NEED, 9, &need);
	memcpy(&h, buf, sizeof(h));
	h.version++;
	memcpy(buf, &h, sizeof(h));
	assert_int_equal(wire_decode(buf, (size_t)len, &m, &err), -EPROTONOSUPPORT);
	assert_int_equal(m.request_id, 9);
	h.version--;
	h.magic ^= 1;
	memcpy(buf, &h, sizeof(h));
	assert_int_equal(wire_decode(buf, (size_t)len, &m, &err), -EBADMSG);
	h.magic ^= 1;
	h.length = UINT32_MAX;
	memcpy(buf, &h, sizeof(h));
	assert_int_equal(wire_decode(buf, (size_t)len, &m, &err), -EBADMSG);
}

static void texts_must_end(void **state)
{
	struct wire_run run = { 0 };
	struct wire_message m;
	struct err err;
	int len;

	(void)state;
	memset(run.gpu, 'x', sizeof(run.gpu));
	len = wire_encode(buf, sizeof(buf), WIRE_RUN, 1, &run);
	assert_int_equal(wire_decode(buf, (size_t)len, &m, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "RUN"));
	run.gpu[sizeof(run.gpu) - 1] = '\0';
	len = wire_encode(buf, sizeof(buf), WIRE_RUN, 1, &run);
	assert_int_equal(wire_decode(buf, (size_t)len, &m, &err), 0);
}

static void packets_carry_descriptors(void **state)
{
	struct wire_keep keep = { .process = 42 };
	struct packet p;
	int ends[2], fd;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	fd = fd_memfd_sealed("test", CREDIT_PAGE_BYTES);
	assert_true(fd >= 0);
	assert_int_equal(fd_is_sealed_memfd(fd, CREDIT_PAGE_BYTES), 1);
	assert_int_equal(fd_is_sealed_memfd(fd, CREDIT_PAGE_BYTES + 1), 0);
	assert_int_equal(packet_send(ends[0], WIRE_KEEP, 3, &keep, fd), 0);
	assert_int_equal(packet_recv(ends[1], PACKET_FOREVER, &p, NULL), 0);
	assert_int_equal(p.msg.type, WIRE_KEEP);
	assert_int_equal(p.n_fds, 1);
	assert_int_equal(fd_is_sealed_memfd(p.fds[0], CREDIT_PAGE_BYTES), 1);
	packet_close_fds(&p);
	assert_int_equal(packet_recv(ends[1], 1000000, &p, NULL), -ETIMEDOUT);
	close(ends[0]);
	assert_int_equal(packet_recv(ends[1], 1000000, &p, NULL), -ECONNRESET);
	assert_true(packet_send(ends[1], WIRE_KEEP, 3, &keep, -1) < 0); /* and no SIGPIPE */
	close(ends[1]);
	close(fd);
}

static void a_refusal_keeps_its_words_and_class(void **state)
{
	struct wire_error e = { .code = WIRE_CODE_NEVER_FITS, .text = "64 GiB never fit" };
	struct wire_ok ok;
	struct err err;
	struct client c;
	int ends[2], r;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	client_init(&c, ends[0]);
	assert_int_equal(packet_send(ends[1], WIRE_ERROR, 1, &e, -1), 0);
	assert_int_equal(client_call(&c, WIRE_CANCEL, &(struct wire_cancel){ 0 }, WIRE_OK, &ok,
				     1000000000, &err),
			 -EREMOTEIO);
	assert_string_equal(err.text, "64 GiB never fit");
	assert_int_equal(client_exit_code(&c, -EREMOTEIO), 5);
	/* an answer of another kind is an error, not a value */
	assert_int_equal(packet_send(ends[1], WIRE_END, 1, &(struct wire_end){ 0 }, -1), 0);
	assert_int_equal(client_call(&c, WIRE_CANCEL, &(struct wire_cancel){ 0 }, WIRE_OK, &ok,
				     1000000000, &err),
			 -EBADMSG);
	close(ends[1]);
	r = client_call(&c, WIRE_CANCEL, &(struct wire_cancel){ 0 }, WIRE_OK, &ok, 1000000000,
			&err);
	assert_true(r == -EPIPE || r == -ECONNRESET);
	assert_int_equal(client_exit_code(&c, r), 7);
	client_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_goes_round),
		cmocka_unit_test(bad_packets_are_refused),
		cmocka_unit_test(texts_must_end),
		cmocka_unit_test(packets_carry_descriptors),
		cmocka_unit_test(a_refusal_keeps_its_words_and_class),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
