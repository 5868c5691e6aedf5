// SPDX-License-Identifier: Apache-2.0
#include "cli/complete.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "cli/gpu_row.h"
#include "cli/names.h"
#include "cli/ps_row.h"
#include "client/client.h"
#include "client/find.h"

#define ASK_NS (500 * NS_PER_MS) /* somebody is typing */

/* the placeholders of all options: words, or @kinds of things; "" is free */
static const struct {
	const char *placeholder, *values;
} all_values[] = {
	{ "CLASS", "latency normal batch" },
	{ "FILE", "@files" },
	{ "FORM", "table json csv" },
	{ "ID[,ID]", "@gpus" },
	{ "N", "" },
	{ "NAME", "" },
	{ "PATH", "@files" },
	{ "PID", "" },
	{ "POLICY", "closed open" },
	{ "REQ[:LIMIT]", "" },
	{ "SIG", "@signals" },
	{ "SIZE", "" },
	{ "TIME", "" },
	{ "WHAT", "wait wait= fail" },
	{ "WHEN", "auto always never" },
};

struct cursor {
	const char *word;   /* as far as it is typed */
	const char *prefix; /* what stands before it in the same word: "--output=", "0," */
	size_t prefix_len;
	const char *socket;
	uint64_t last_job; /* offered */
};

const char *complete_values(const char *placeholder)
{
	for (unsigned i = 0; i < ARRAY_SIZE(all_values); i++)
		if (strcmp(all_values[i].placeholder, placeholder) == 0)
			return all_values[i].values;
	return NULL;
}

static void offer(const struct cursor *c, const char *word, const char *what)
{
	if (str_starts_with(word, c->word))
		printf("%.*s%s\t%s\n", (int)c->prefix_len, c->prefix, word, what);
}

/* ---- what allotd knows ---- */

static int on_job(const void *item, void *arg)
{
	struct cursor *c = arg;
	struct ps_row row;
	char id[24], what[WIRE_NAME_MAX + 64];

	ps_row_fill(&row, item);
	(void)str_print(id, sizeof(id), "%llu", (unsigned long long)row.it.job_id);
	(void)str_print(what, sizeof(what), "%s, %s", row.name, row.state);
	if (row.it.job_id && row.it.job_id != c->last_job) /* a job's processes come together */
		offer(c, id, what);
	c->last_job = row.it.job_id;
	return 0;
}

static int on_gpu(const void *item, void *arg)
{
	const struct cursor *c = arg;
	struct gpu_row row;
	char place[24];

	gpu_row_fill(&row, item);
	name_place(row.it.gpu_index, (row.it.flags & WIRE_STATUS_MIG) != 0, row.it.mig_index, place,
		   sizeof(place));
	offer(c, place, row.it.model);
	if (c->word[0])
		offer(c, row.gpu, row.it.model);
	gpu_row_fini(&row);
	return 0;
}

static void offer_from_allotd(struct cursor *c, bool jobs)
{
	struct wire_ps ps = { 0 };
	struct wire_status status = { 0 };
	struct client_place place;
	struct client client;
	int r = client_find(c->socket, &place, NULL);

	if (r == 0)
		r = client_connect_within(&place, ASK_NS, NULL);
	if (r < 0)
		return; /* nothing to offer is no error */
	client_init(&client, r);
	if (jobs)
		(void)client_list(&client, WIRE_PS, &ps, WIRE_PS_ITEM, on_job, c, ASK_NS, NULL);
	else
		(void)client_list(&client, WIRE_STATUS, &status, WIRE_STATUS_ITEM, on_gpu, c,
				  ASK_NS, NULL);
	client_fini(&client);
}

/* ---- values ---- */

static void offer_kind(struct cursor *c, const char *kind)
{
	if (strcmp(kind, "@jobs") == 0) {
		offer_from_allotd(c, true);
	} else if (strcmp(kind, "@gpus") == 0) {
		offer_from_allotd(c, false);
	} else if (strcmp(kind, "@files") == 0) {
		printf(":files\n");
	} else if (strcmp(kind, "@signals") == 0) {
		for (int sig = 1; sig < NSIG; sig++)
			if (sigabbrev_np(sig))
				offer(c, sigabbrev_np(sig), sigdescr_np(sig));
	}
}

static void offer_values(struct cursor *c, const char *values, const char *what)
{
	char word[32];

	while (values && *values) {
		size_t len = strcspn(values, " ");

		(void)str_print(word, sizeof(word), "%.*s", (int)len, values);
		if (word[0] == '@')
			offer_kind(c, word);
		else
			offer(c, word, what);
		values += len + (values[len] == ' ');
	}
}

static void offer_value_of(struct cursor *c, const struct opt *o)
{
	const char *comma = strchr(o->arg, ',') ? strrchr(c->word, ',') : NULL;

	if (comma) { /* a list: its last part */
		if (!c->prefix_len)
			c->prefix = c->word;
		c->prefix_len += (size_t)(comma + 1 - c->word);
		c->word = comma + 1;
	}
	offer_values(c, complete_values(o->arg), o->help);
}

/* ---- options ---- */

static const struct opt *find_long(const struct cmd *cmd, const char *name, size_t len)
{
	for (const struct opt *o = cmd->opts; o->name; o++)
		if (strlen(o->name) == len && strncmp(o->name, name, len) == 0)
			return o;
	return NULL;
}

/* the option whose value comes as the next word; NULL: none */
static const struct opt *wants_next(const struct cmd *cmd, const char *word)
{
	const struct opt *o = NULL;

	if (str_starts_with(word, "--")) {
		if (!strchr(word, '='))
			o = find_long(cmd, word + 2, strlen(word + 2));
	} else if (word[0] == '-' && word[1]) {
		for (const struct opt *i = cmd->opts; i->name; i++)
			if (i->letter == word[strlen(word) - 1] && i->letter)
				o = i;
	}
	return o && o->arg ? o : NULL;
}

static void offer_options(const struct cursor *c, const struct cmd *cmd)
{
	for (const struct opt *o = cmd->opts; o->name; o++) {
		char name[64], letter[3] = { '-', o->letter, '\0' };

		(void)str_print(name, sizeof(name), "--%s", o->name);
		if (c->word[1] == '-' || !o->letter)
			offer(c, name, o->help);
		else
			offer(c, letter, o->help);
	}
	if (cmd->has_command && c->word[1] != '-')
		offer(c, "--", "the command follows");
}

static void offer_verbs(const struct cursor *c)
{
	for (unsigned i = 0; i < cmd_count; i++)
		offer(c, cmd_all[i]->name, cmd_all[i]->summary);
	offer(c, "help", "the help of a verb");
}

/* the words of a verb before the cursor: in *ret_value the option that waits for its value */
static int walk(const struct cmd *cmd, int n, char **words, struct cursor *c,
		const struct opt **ret_value)
{
	*ret_value = NULL;
	for (int i = 1; i < n; i++) {
		if (*ret_value) {
			if ((*ret_value)->id == OPT_ID_SOCKET)
				c->socket = words[i];
			*ret_value = NULL;
		} else if (strcmp(words[i], "--") == 0) {
			return cmd->has_command ? i + 1 : -1;
		} else if (str_starts_with(words[i], "--socket=")) {
			c->socket = words[i] + strlen("--socket=");
		} else if (words[i][0] == '-' && words[i][1]) {
			*ret_value = wants_next(cmd, words[i]);
		} else if (cmd->has_command) {
			return i;
		}
	}
	return -1;
}

int complete_words(int n, char **words)
{
	struct cursor c = { .word = n > 0 ? words[n - 1] : "" };
	const struct opt *value, *o;
	const struct cmd *cmd;
	const char *eq;
	int command;

	if (n <= 1) {
		offer_verbs(&c);
		return 0;
	}
	if (strcmp(words[0], "help") == 0) {
		offer_verbs(&c);
		return 0;
	}
	cmd = cmd_find(words[0]);
	if (!cmd)
		return 0;
	command = walk(cmd, n - 1, words, &c, &value);
	eq = strchr(c.word, '=');
	if (command >= 0 || (cmd->has_command && !value && c.word[0] != '-')) {
		printf(":command %d\n", command >= 0 ? command : n - 1);
	} else if (value) {
		offer_value_of(&c, value);
	} else if (str_starts_with(c.word, "--") && eq) {
		o = find_long(cmd, c.word + 2, (size_t)(eq - c.word - 2));
		c.prefix = c.word;
		c.prefix_len = (size_t)(eq + 1 - c.word);
		c.word = eq + 1;
		if (o && o->arg)
			offer_value_of(&c, o);
	} else if (c.word[0] == '-') {
		offer_options(&c, cmd);
	} else {
		offer_values(&c, cmd->complete, "");
	}
	return 0;
}
