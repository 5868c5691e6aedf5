// SPDX-License-Identifier: Apache-2.0
#include "client/client.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"

void client_init(struct client *c, int sock)
{
	memset(c, 0, sizeof(*c));
	c->sock = sock;
}

void client_fini(struct client *c)
{
	if (c->sock >= 0)
		close(c->sock);
	c->sock = -1;
}

int client_ask(struct client *c, unsigned type, const void *payload, struct err *err)
{
	int r = packet_send(c->sock, type, ++c->next_id, payload, -1);

	if (r == -ETIMEDOUT)
		return err_set(err, r, "allotd does not answer: look at 'allot doctor'");
	if (r < 0)
		return err_set(err, r, "allotd is gone (%s)", strerror(-r));
	return 0;
}

int client_other_version(const struct packet *in, struct err *err)
{
	return err_set(err, -EPROTONOSUPPORT,
		       "allotd speaks protocol %u, this allot %s protocol %d: install the same "
		       "version of both and restart allotd (jobs go on meanwhile)",
		       in->msg.version, ALLOT_VERSION, WIRE_VERSION);
}

int client_answer(struct client *c, uint64_t timeout_ns, struct err *err)
{
	int r = packet_recv(c->sock, timeout_ns, &c->in, err);
	const struct wire_error *e;

	switch (r) {
	case 0:
		break;
	case -ETIMEDOUT:
		return err_set(err, r, "allotd does not answer: look at 'allot doctor'");
	case -ECONNRESET:
	case -EPIPE:
		return err_set(err, -ECONNRESET, "allotd closed the connection");
	case -EPROTONOSUPPORT:
		return client_other_version(&c->in, err);
	case -EBADMSG:
		return r;
	default:
		return err_set(err, r, "cannot hear allotd: %s", strerror(-r));
	}
	if (c->in.msg.type != WIRE_ERROR)
		return (int)c->in.msg.type;
	e = c->in.msg.payload;
	c->code = e->code;
	return err_set(err, -EREMOTEIO, "%s", e->text);
}

static int unexpected(unsigned got, struct err *err)
{
	return err_set(err, -EBADMSG, "allotd answered with an unexpected %s", wire_name(got));
}

int client_call(struct client *c, unsigned type, const void *payload, unsigned answer_type,
		void *ret, uint64_t timeout_ns, struct err *err)
{
	int r = client_ask(c, type, payload, err);

	if (r < 0)
		return r;
	r = client_answer(c, timeout_ns, err);
	if (r < 0)
		return r;
	packet_close_fds(&c->in);
	if ((unsigned)r != answer_type)
		return unexpected((unsigned)r, err);
	memcpy(ret, c->in.msg.payload, (size_t)wire_size(answer_type));
	return 0;
}

int client_list(struct client *c, unsigned type, const void *payload, unsigned item_type,
		int (*each)(const void *item, void *arg), void *arg, uint64_t timeout_ns,
		struct err *err)
{
	uint64_t end = size_sat_add(clock_now_ns(), timeout_ns); /* a list that drips ends too */
	int r = client_ask(c, type, payload, err);

	while (r >= 0) {
		r = client_answer(c,
				  timeout_ns == PACKET_FOREVER ? PACKET_FOREVER
							       : size_sat_sub(end, clock_now_ns()),
				  err);
		if (r < 0)
			return r;
		packet_close_fds(&c->in);
		if (r == WIRE_END)
			return 0;
		if ((unsigned)r != item_type)
			return unexpected((unsigned)r, err);
		r = each(c->in.msg.payload, arg);
		if (r < 0)
			return err_set(err, r, "cannot show what allotd answered: %s",
				       strerror(-r));
	}
	return r;
}

int client_exit_code(const struct client *c, int r)
{
	switch (r) {
	case -EREMOTEIO:
		return (int)c->code;
	case -EACCES:
	case -EPERM:
		return WIRE_CODE_NOT_PERMITTED;
	case -ENOENT:
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -EPIPE:
	case -ETIMEDOUT:
		return WIRE_CODE_NO_DAEMON;
	default:
		return WIRE_CODE_FAILED;
	}
}
