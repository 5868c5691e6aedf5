// SPDX-License-Identifier: Apache-2.0
#include "cli/session.h"

#include "base/err.h"
#include "client/find.h"

int session_open(const char *verb, const struct common *common, struct client *ret)
{
	struct client none = { .sock = -1 };
	struct client_place place;
	struct err err = { 0 };
	int r = client_find(common->socket, &place, &err);

	if (r == 0)
		r = client_connect_within(&place, SESSION_TIMEOUT_NS, &err);
	if (r < 0)
		return session_failed(verb, &none, r, &err);
	client_init(ret, r);
	return 0;
}

int session_failed(const char *verb, const struct client *c, int r, const struct err *err)
{
	complain(verb, "%s", err->text);
	return client_exit_code(c, r);
}
