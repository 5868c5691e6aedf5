// SPDX-License-Identifier: Apache-2.0
/*
 * Who waits for each other, and who does not: a table of stories on four cards of 10 GiB.
 *
 * A story is words.  A capital letter is a job and its one process, on all four cards:
 *   A0=8   it takes 8 GiB of card 0             A0-8   it gives them back
 *   A1?4   it asks for 4 GiB of card 1 and must wait
 *   K<A    the job K is one nested in A; said before K is named otherwise
 *   A~     it waits for half a second only, from now on
 *   +1000  milliseconds pass, and nothing becomes due
 *   A!     A is refused now, as the youngest of a circle; A#  at the end of its time
 *   A*     A's wait is over, it has what it asked for
 *   A.     its process ends, and NVML shows it gone
 */
#include <stdlib.h>

#include "ledger_fixture.h"

#define GPUS    4
#define LETTERS 26

struct story {
	const char *name;
	const char *words;
};

static const struct story stories[] = {
	{ "two jobs across two cards", "A0=8 B1=8 A1?4 +5000 B0?4 +999 +1 B! +5000 B1-8 A*" },
	{ "three jobs round three cards", "A0=8 B1=8 C2=8 A1?4 B2?4 +5000 C0?4 +999 +1 C! +9000" },
	{ "four round four, asked in another order",
	  "A0=8 B1=8 C2=8 D3=8 C3?4 A1?4 D0?4 B2?4 +999 +1 B! +9000 B1-8 A*" },
	{ "both on one card", "A0=5 B0=4 A0?3 B0?3 +999 +1 B! +5000 B0-4 A*" },
	{ "a bystander who will end is hope", "A0=5 C0=2 B1=8 A1?4 B0?4 +20000 C. B*" },
	{ "… also with a card between", "A0=8 B1=6 C1=3 A1?4 B0?4 +20000 C1-3 A*" },
	{ "a bystander who comes to wait for them is none",
	  "A0=5 C0=2 B1=8 A1?4 B0?4 +20000 C1?4 +999 +1 C! +20000" },
	{ "who stands behind a circle is not refused for it",
	  "A0=8 B1=8 A1?4 B0?4 D2=1 D0?5 +999 +1 B! +5000 B1-8 A* D0?1" },
	{ "… nor who holds nothing", "A0=5 B0=4 A0?3 B0?3 D0?9 +999 +1 B! +5000" },
	{ "two circles are broken one after the other",
	  "A0=8 B1=8 C2=8 D3=8 A1?4 B0?4 C3?4 D2?4 +999 +1 D! B! +9000" },
	{ "hope at the end of a chain", "A0=8 B1=8 C2=8 B0?4 A2?4 +20000 C2-8 A* +20000 A0-8 B*" },
	{ "a wait that ends by itself comes first",
	  "A0=8 B1=8 A~ A1?4 B0?4 +499 +1 A# +5000 A0-8 B*" },
	{ "a card that moves keeps the other waiting",
	  "A0=8 B1=8 C1=1 C3=1 A1?4 B0?4 C0?4 +900 B1-1 +900 B1-1 +900 +99 +1 C! +9000" },
	{ "two waits of one job", "A0=5 B0=2 B1=8 A1?4 A0?4 +5000 B0?4 +999 +1 B! +9000" },
	{ "nested: a sibling at work is hope", "K<A L<A K0=4 L0=3 B0=2 B0?2 K0?3 +20000 L0-3 B*" },
	{ "nested: siblings who wait for each other",
	  "K<A L<A K0=4 L0=3 B0=2 B0?2 K0?3 L0?2 +999 +1 L! +5000 L0-3 B*" },
	{ "nested: the job around them at work is hope",
	  "K<A A0=2 K0=4 B0=3 B0?2 K0?3 +20000 A0-2 B*" },
	{ "nested: across two cards with a job outside",
	  "K<A K0=8 B1=8 K1?4 B0?4 +999 +1 B! +5000 B1-8 K*" },
	{ "nested: a sibling on another card", "K<A L<A K0=8 L1=3 B1=5 B0?4 K1?4 +20000 L1-3 K*" },
};

struct cast {
	struct world w;
	struct ledger_job *job[LETTERS];
	struct program prog[LETTERS];
	int parent[LETTERS];    /* 0: none; else letter + 1 */
	bool answered[LETTERS]; /* OK, while somebody ended */
};

static struct program *player(struct cast *c, int who)
{
	struct ledger_job_spec spec = spec_of((uint64_t)who + 1, 0, 0);

	if (c->job[who])
		return &c->prog[who];
	spec.n_gpus = GPUS;
	if (c->parent[who]) {
		(void)player(c, c->parent[who] - 1);
		spec.parent = c->job[c->parent[who] - 1];
	}
	assert_int_equal(ledger_admit(c->w.l, &spec, NULL, c->w.now, &c->job[who], NULL),
			 LEDGER_ADMITTED);
	start(&c->w, &c->prog[who], c->job[who], 100 + who);
	return &c->prog[who];
}

static void end(struct cast *c, struct program *prog)
{
	struct ledger_event e;
	bool gone = false;

	ledger_process_dead(c->w.l, prog->p, c->w.now);
	memset(prog->slot, 0, sizeof(prog->slot));
	c->w.now += MS;
	for (unsigned g = 0; g < GPUS; g++)
		ledger_sample_begin(c->w.l, g, c->w.now);
	c->w.now += MS;
	for (unsigned g = 0; g < GPUS; g++) {
		struct ledger_reading readings[LETTERS];
		struct ledger_sample s = { .memory_known = true,
					   .processes_known = true,
					   .readings = readings,
					   .total_bytes = 10 * GIB };

		for (int i = 0; i < LETTERS; i++) {
			uint64_t bytes = c->job[i] ? c->prog[i].slot[g].live : 0;

			if (!bytes || &c->prog[i] == prog)
				continue;
			s.used_bytes += bytes;
			readings[s.n_readings++] =
				(struct ledger_reading){ c->prog[i].p, bytes, true };
		}
		ledger_sample(c->w.l, g, &s, c->w.now);
	}
	while (!gone && ledger_poll(c->w.l, c->w.now, &e)) {
		gone = e.kind == LEDGER_EVENT_GONE && e.process == prog->p;
		for (int i = 0; i < LETTERS && e.kind == LEDGER_EVENT_ANSWER; i++) {
			if (!c->job[i] || e.cookie != &c->prog[i])
				continue;
			assert_int_equal(e.grant.result, LEDGER_OK);
			c->answered[i] = true;
			c->prog[i].slot[e.slot].live += e.grant.bytes;
		}
	}
	assert_true(gone);
	ledger_process_free(c->w.l, prog->p, c->w.now);
	prog->p = NULL;
}

static void act(struct cast *c, const char *word)
{
	struct program *prog;
	unsigned gpu;

	if (word[0] == '+') {
		c->w.now += (uint64_t)strtol(word + 1, NULL, 10) * MS;
		if (word[1] != '1' || word[2])
			nothing_due(&c->w);
		return;
	}
	if (word[1] == '<') {
		c->parent[word[0] - 'A'] = word[2] - 'A' + 1;
		return;
	}
	prog = player(c, word[0] - 'A');
	gpu = (unsigned)(word[1] - '0');
	if (word[1] == '!') {
		answer_of(&c->w, prog, LEDGER_CIRCLE);
	} else if (word[1] == '#') {
		answer_of(&c->w, prog, LEDGER_FULL);
	} else if (word[1] == '*') {
		if (!c->answered[word[0] - 'A'])
			answer_of(&c->w, prog, LEDGER_OK);
		c->answered[word[0] - 'A'] = false;
	} else if (word[1] == '.') {
		end(c, prog);
	} else if (word[1] == '~') {
		struct ledger_job_change change = { .has_when_full = true,
						    .may_wait = true,
						    .when_full_ns = 500 * MS };

		assert_int_equal(
			ledger_job_set(c->w.l, c->job[word[0] - 'A'], &change, c->w.now, NULL), 0);
	} else if (word[2] == '=') {
		assert_int_equal(take_on(&c->w, prog, gpu, (uint64_t)(word[3] - '0') * GIB, 0),
				 LEDGER_OK);
	} else if (word[2] == '?') {
		assert_int_equal(take_on(&c->w, prog, gpu, (uint64_t)(word[3] - '0') * GIB, 0),
				 LEDGER_WAIT);
	} else {
		assert_int_equal(word[2], '-');
		give(&c->w, prog, gpu, (uint64_t)(word[3] - '0') * GIB);
	}
}

static void k1_tell(void **state)
{
	const struct story *story = *state;
	char words[256], *save = NULL;
	struct cast c = { 0 };

	world_init(&c.w, GPUS, (const uint64_t[]){ 10, 10, 10, 10 });
	assert_true(strlen(story->words) < sizeof(words));
	memcpy(words, story->words, strlen(story->words) + 1);
	for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		act(&c, w);
		assert_null(ledger_check(c.w.l));
	}
	world_fini(&c.w);
}

int main(void)
{
	struct CMUnitTest tests[sizeof(stories) / sizeof(stories[0])];

	for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++)
		tests[i] = (struct CMUnitTest){ .name = stories[i].name,
						.test_func = k1_tell,
						.initial_state = (void *)&stories[i] };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
