// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

/* A verb's conversation with allotd, with the complaint and the exit status of the interface. */

#include "cli/cmd.h"
#include "client/client.h"

#define SESSION_TIMEOUT_NS CLIENT_ANSWER_NS

/** session_open - connect to the daemon; 0, or the exit status after a line on stderr */
int session_open(const char *verb, const struct common *common, struct client *ret);

/** session_failed - say what went wrong and return the exit status for it */
int session_failed(const char *verb, const struct client *c, int r, const struct err *err);

#endif
