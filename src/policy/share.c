// SPDX-License-Identifier: Apache-2.0
#include "policy/share.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "policy/books.h"

struct share {
	struct list node; /* of its bucket */
	struct ledger_share_key key;
	struct gpu *gpu;
	struct account *owner; /* NULL: gone */
	struct list of_owner;
	uint64_t bytes;
	bool is_unshown;
	bool is_by_descriptor;
	struct list orphans; /* while neither owned nor open, but perhaps in a descriptor */
	struct list imports; /* the latest first: the heir */
};

struct import {
	struct list of_share, of_account;
	struct share *share;
	struct account *account;
	unsigned opens;
	uint64_t bytes;     /* of an unshown share: what was opened of it */
	uint64_t inherited; /* by this one, and part of the account's */
};

/* the finalizer of splitmix64 */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* programs choose the keys: where the ledger lies, which they cannot know, keeps them apart */
static struct list *bucket_of(struct ledger *l, const struct ledger_share_key *key)
{
	uint64_t hash = mix(mix(key->word[0] + (uintptr_t)l) ^ key->word[1]);
	struct list *bucket = &l->shares[hash % SHARE_BUCKETS];

	if (!bucket->next)
		list_init(bucket);
	return bucket;
}

static struct share *find_share(struct ledger *l, const struct ledger_share_key *key)
{
	struct list *bucket = bucket_of(l, key);
	struct share *s;

	list_for_each (s, bucket, node)
		if (s->key.word[0] == key->word[0] && s->key.word[1] == key->word[1])
			return s;
	return NULL;
}

static struct import *find_import(const struct share *s, const struct ledger_process *p)
{
	struct import *i;

	list_for_each (i, &s->imports, of_share)
		if (i->account->process == p)
			return i;
	return NULL;
}

/* ---- charges ---- */

static void inherit(struct import *i, uint64_t bytes, uint64_t now_ns)
{
	struct account *a = i->account;

	i->inherited += bytes;
	a->inherited += bytes;
	if (i->share->is_unshown) {
		a->inherited_unshown += bytes;
	} else {
		/* NVML may have told us before the owner did */
		uint64_t told = size_min(bytes, a->overhead_since_import);

		a->overhead -= told;
		a->overhead_since_import -= told;
	}
	a->granted_peak = size_max(a->granted_peak, a->granted + a->inherited);
	a->grants++; /* a sample that is under way may have seen it or not */
	a->agreed = false;
	account_update(a, now_ns);
	account_unsettle(a, now_ns);
}

static void disinherit(struct import *i, uint64_t bytes, uint64_t now_ns)
{
	struct account *a = i->account;

	assert(i->inherited >= bytes && a->inherited >= bytes);
	i->inherited -= bytes;
	a->inherited -= bytes;
	if (i->share->is_unshown)
		a->inherited_unshown -= bytes;
	account_update(a, now_ns);
}

/* what the owner is charged for the share's first @bytes becomes its heir's */
static uint64_t pass_on(struct ledger *l, struct share *s, uint64_t bytes, uint64_t now_ns)
{
	struct account *a = s->owner;
	struct import *heir;

	if (list_is_empty(&s->imports))
		return 0;
	/* one that imported its own goes on paying */
	heir = find_import(s, a->process);
	if (!heir)
		heir = list_entry(s->imports.next, struct import, of_share);
	if (s->is_unshown)
		bytes = size_min(bytes, size_sat_sub(heir->bytes, heir->inherited));
	bytes = size_min(bytes, a->granted - account_credit(l, a));
	if (!bytes)
		return 0;
	/* NVML's last word of the owner is from before */
	a->nvml = size_sat_sub(a->nvml, bytes);
	account_set_granted(l, a, a->granted - bytes, now_ns);
	account_unsettle(a, now_ns);
	inherit(heir, bytes, now_ns);
	return bytes;
}

/* ---- ends ---- */

static void share_free(struct ledger *l, struct share *s)
{
	if (list_is_linked(&s->orphans))
		l->n_orphans--;
	list_del(&s->orphans);
	list_del(&s->node);
	free(s);
}

/*
 * Neither owned nor open: gone, unless a descriptor keeps it, which somebody may still import.
 * That cannot be known, so the youngest of such shares are remembered.
 */
static void settle_share(struct ledger *l, struct share *s)
{
	if (s->owner || !list_is_empty(&s->imports))
		return;
	if (!s->is_by_descriptor || s->is_unshown || !s->bytes) {
		share_free(l, s);
		return;
	}
	if (!l->orphans.next)
		list_init(&l->orphans);
	list_append(&l->orphans, &s->orphans);
	if (++l->n_orphans > LEDGER_MAX_ORPHANS)
		share_free(l, list_entry(l->orphans.next, struct share, orphans));
}

static void disown(struct ledger *l, struct share *s)
{
	s->owner->process->n_shares--;
	s->owner = NULL;
	list_del(&s->of_owner);
	settle_share(l, s);
}

/* @dead: what nobody inherits stays charged until NVML shows that it is gone */
static void drop_import(struct ledger *l, struct import *i, bool dead, uint64_t now_ns)
{
	struct share *s = i->share;
	uint64_t bytes = i->inherited;
	struct import *next;

	list_del(&i->of_share);
	if (bytes && !list_is_empty(&s->imports)) {
		next = list_entry(s->imports.next, struct import, of_share);
		i->account->nvml = size_sat_sub(i->account->nvml, bytes);
		disinherit(i, bytes, now_ns);
		inherit(next, bytes, now_ns);
	} else if (bytes && !dead) {
		disinherit(i, bytes, now_ns);
		account_unsettle(i->account, now_ns);
	}
	i->account->process->n_shares--;
	list_del(&i->of_account);
	if (list_is_empty(&i->account->imports))
		i->account->overhead_since_import = 0;
	free(i);
	settle_share(l, s);
}

/** shares_gone - a process ended (or became another program): its memory goes to its importers */
void shares_gone(struct ledger *l, struct ledger_process *p, uint64_t now_ns)
{
	for (unsigned k = 0; k < p->n_slots; k++) {
		struct account *a = &p->accounts[k];
		struct share *s, *next_share;
		struct import *i, *next_import;

		list_for_each_safe (i, next_import, &a->imports, of_account)
			drop_import(l, i, true, now_ns);
		list_for_each_safe (s, next_share, &a->exports, of_owner) {
			(void)pass_on(l, s, s->is_unshown ? UINT64_MAX : s->bytes, now_ns);
			disown(l, s);
		}
	}
}

/** shares_cut - NVML shows @less of what the account is said to have inherited */
void shares_cut(struct account *a, uint64_t less, uint64_t now_ns)
{
	struct import *i;

	list_for_each (i, &a->imports, of_account) {
		uint64_t part = size_min(less, i->inherited);

		if (i->share->is_unshown || !part)
			continue;
		disinherit(i, part, now_ns);
		less -= part;
	}
}

/** shares_inherited - the sum again, for ledger_check */
uint64_t shares_inherited(const struct account *a)
{
	const struct import *i;
	uint64_t sum = 0;

	list_for_each (i, &a->imports, of_account)
		sum += i->inherited;
	return sum;
}

void shares_free(struct ledger *l)
{
	for (unsigned b = 0; b < SHARE_BUCKETS; b++) {
		struct list *bucket = &l->shares[b];
		struct share *s, *next;
		struct import *i, *tmp;

		if (!bucket->next)
			continue;
		list_for_each_safe (s, next, bucket, node) {
			list_for_each_safe (i, tmp, &s->imports, of_share)
				free(i);
			free(s);
		}
	}
}

/* ---- what programs say ---- */

/* what only a descriptor kept has an owner again */
static int adopt(struct ledger *l, struct share *s, struct account *a)
{
	if (!list_is_linked(&s->orphans) || s->gpu != a->lease->gpu)
		return -EEXIST;
	list_del(&s->orphans);
	l->n_orphans--;
	s->owner = a;
	list_append(&a->exports, &s->of_owner);
	a->process->n_shares++;
	return 0;
}

int ledger_share_out(struct ledger *l, struct ledger_process *p, unsigned slot,
		     const struct ledger_share_key *key, uint64_t bytes, unsigned flags)
{
	struct account *a = process_account(p, slot);
	struct share *s = find_share(l, key);

	if (!a || p->state != LEDGER_ATTACHED || bytes > a->lease->gpu->total_bytes)
		return -EINVAL;
	if (s && s->owner == a) {
		s->bytes = bytes;
		return 0;
	}
	if (p->n_shares >= LEDGER_MAX_SHARES)
		return -ENOSPC;
	if (s)
		return adopt(l, s, a);
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->key = *key;
	s->gpu = a->lease->gpu;
	s->owner = a;
	s->bytes = bytes;
	s->is_unshown = flags & SHARE_UNSHOWN;
	s->is_by_descriptor = flags & SHARE_BY_DESCRIPTOR;
	list_init(&s->imports);
	list_append(bucket_of(l, key), &s->node);
	list_append(&a->exports, &s->of_owner);
	p->n_shares++;
	return 0;
}

static struct account *account_on(struct ledger_process *p, const struct gpu *g)
{
	for (unsigned i = 0; i < p->n_slots; i++)
		if (p->accounts[i].lease->gpu == g)
			return &p->accounts[i];
	return NULL;
}

int ledger_share_in(struct ledger *l, struct ledger_process *p, const struct ledger_share_key *key,
		    uint64_t bytes, struct ledger_share_orphan *ret_orphan)
{
	struct share *s = find_share(l, key);
	struct account *a = s ? account_on(p, s->gpu) : NULL;
	struct import *i;

	if (!a || p->state != LEDGER_ATTACHED)
		return -ENOENT;
	if (list_is_linked(&s->orphans)) {
		*ret_orphan = (struct ledger_share_orphan){ .slot = a->slot, .bytes = s->bytes };
		return 1;
	}
	i = find_import(s, p);
	if (!i) {
		if (p->n_shares >= LEDGER_MAX_SHARES)
			return -ENOSPC;
		i = calloc(1, sizeof(*i));
		if (!i)
			return -ENOMEM;
		i->share = s;
		i->account = a;
		list_add_before(s->imports.next, &i->of_share);
		list_append(&a->imports, &i->of_account);
		p->n_shares++;
	}
	i->opens += i->opens < UINT32_MAX;
	i->bytes = size_min(size_sat_add(i->bytes, bytes), s->gpu->total_bytes);
	return 0;
}

void ledger_share_close(struct ledger *l, struct ledger_process *p,
			const struct ledger_share_key *key, bool all, uint64_t now_ns)
{
	struct share *s = find_share(l, key);
	struct import *i = s ? find_import(s, p) : NULL;

	if (!i || (--i->opens && !all))
		return;
	drop_import(l, i, false, now_ns);
}

uint64_t ledger_share_freed(struct ledger *l, struct ledger_process *p,
			    const struct ledger_share_key *key, uint64_t bytes, bool last,
			    uint64_t now_ns)
{
	struct share *s = find_share(l, key);
	uint64_t moved;

	if (!s || !s->owner || s->owner->process != p || p->state != LEDGER_ATTACHED)
		return 0;
	moved = pass_on(l, s, s->is_unshown ? bytes : size_min(bytes, s->bytes), now_ns);
	if (last)
		disown(l, s);
	return moved;
}
