// SPDX-License-Identifier: Apache-2.0
#include "shim/account.h"
#include "base/cleanup.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fmt.h"
#include "base/size.h"
#include "base/str.h"
#include "shim/say.h"
#include "shim/wiped.h"

#define SETTLE_EVERY_NS (250 * NS_PER_MS) /* allotd looks by itself about once a second */
#define LOST_LOOKS      4       /* equal ones, before a difference is taken for a lost grant … */
#define LOST_PAUSE_NS   1000000 /* … so far apart */

struct account_region {
	_Atomic uint64_t settled_ns[WIRE_MAX_GPUS];
};

static void *_Atomic account_memory;

static struct account_region *region(void)
{
	return wiped_once(&account_memory, sizeof(struct account_region));
}

/* ---- explaining ---- */

/* "19.1 of 20.0 GiB", "512.0 MiB of 20.0 GiB" */
static void print_used(char *buf, size_t size, uint64_t used, uint64_t limit)
{
	struct fmt_buf u, l;
	char *used_unit, *limit_unit;

	fmt_size(&u, used);
	fmt_size(&l, limit);
	used_unit = strchr(u.s, ' ');
	limit_unit = strchr(l.s, ' ');
	if (used_unit && limit_unit && strcmp(used_unit, limit_unit) == 0)
		*used_unit = '\0';
	(void)str_print(buf, size, "%s of %s", u.s, l.s);
}

void account_explain(const struct refusal *refusal)
{
	const struct wire_grant *g = &refusal->grant;
	const struct wire_attached *lease = attach_lease();
	char used[64], waited[FMT_TIME_MAX + 32] = "", instance[16] = "";
	const struct wire_lease_gpu *gpu;
	int saved_errno = errno;
	struct fmt_buf asked, time;

	if (refusal->is_away || !lease || refusal->slot < 0 ||
	    (uint32_t)refusal->slot >= lease->n_gpus)
		return;
	print_used(used, sizeof(used), g->used_bytes, g->limit_bytes);
	/* allotd's own words say that the card is full, or who waited for whom */
	if (g->result == WIRE_GRANT_FULL && (g->waited_ns || !g->text[0]))
		(void)str_print(waited, sizeof(waited), ": %swaited %s",
				g->text[0] ? "" : "the card is full, ",
				fmt_duration(&time, g->waited_ns));
	else if (g->result == WIRE_GRANT_CIRCLE && !g->text[0])
		(void)str_print(waited, sizeof(waited), ": all jobs waited for each other");
	if (refusal->asked_bytes)
		(void)fmt_size(&asked, refusal->asked_bytes);
	else
		(void)str_copy(asked.s, sizeof(asked.s), "a context");
	gpu = &lease->gpus[refusal->slot];
	if (gpu->flags & WIRE_GPU_MIG)
		(void)str_print(instance, sizeof(instance), ":%u", gpu->mig_index);
	say_refusal("job %" PRIu64
		    " (%s): out of memory: asked %s, used %s limit on GPU %u%s%s%s%s",
		    lease->job_id, lease->job_name, asked.s, used, gpu->index, instance, waited,
		    g->text[0] ? ": " : "", g->text);
	errno = saved_errno;
}

static bool refused(struct refusal *r, unsigned flags, struct refusal *ret)
{
	if (flags & ACCOUNT_QUIET) {
		if (ret)
			*ret = *r;
	} else {
		account_explain(r);
	}
	return false;
}

/* ---- taking and giving ---- */

static HOT void give_credit(struct credit_page *page, int slot, uint64_t bytes)
{
	struct credit_slot *s = &page->slot[slot];

	atomic_fetch_add_explicit(&s->returned_bytes, bytes, memory_order_relaxed);
	atomic_fetch_add(&s->credit_bytes, bytes);
	if (atomic_load(&s->wanted))
		attach_ring((uint32_t)slot);
}

/*
 * A grant whose answer was lost with allotd is in the page (granted_bytes) and in nobody's hands.
 * When that may have happened, the page is compared with our own count, and what is too much
 * becomes credit.  Other threads and allotd may be in the middle of something, and then the
 * figures move: only a difference that stands still for a while is believed.
 */
static void find_lost_grant(int slot)
{
	struct attach_shared *shared = attach_shared();
	struct credit_page *page = attach_page();
	struct timespec pause = { .tv_nsec = LOST_PAUSE_NS };
	uint64_t lost = 0;

	for (unsigned i = 0; page && i < LOST_LOOKS; i++) {
		struct credit_slot *s = &page->slot[slot];
		uint64_t credit = atomic_load(&s->credit_bytes);
		uint64_t granted = atomic_load(&s->granted_bytes);
		uint64_t known = size_sat_add(atomic_load(&shared->held_bytes[slot]), credit);
		uint64_t now = size_sat_sub(granted, known);

		if (now == 0 || (i > 0 && now != lost))
			return;
		lost = now;
		(void)nanosleep(&pause, NULL);
	}
	if (page) {
		say_debug("slot %d: a grant of %" PRIu64 " bytes was lost, returning it", slot,
			  lost);
		give_credit(page, slot, lost);
	}
}

static bool ask(int slot, uint64_t bytes, unsigned flags, struct charge *ret, struct refusal *r)
{
	bool no_wait = flags & ACCOUNT_NO_WAIT;
	struct wire_need need = { .slot = (uint32_t)slot,
				  .kind = WIRE_NEED_MEMORY,
				  .bytes = bytes,
				  .flags = no_wait ? WIRE_NEED_NO_WAIT : 0 };
	uint32_t resent = attach_resent();
	int e = attach_call(WIRE_NEED, &need, WIRE_GRANT, &r->grant, no_wait ? ATTACH_NO_WAIT : 0,
			    NULL);

	if (e == 0 && resent != attach_resent() && !no_wait)
		find_lost_grant(slot);
	if (e < 0 && e != -EREMOTEIO && attach_is_open()) {
		*ret = CHARGE_NONE;
		return true;
	}
	r->is_away = e < 0;
	if (e < 0 || r->grant.result != WIRE_GRANT_OK)
		return false;
	*ret = (struct charge){ .slot = slot, .bytes = bytes };
	return true;
}

bool account_take_slow(int slot, uint64_t bytes, unsigned flags, struct charge *ret,
		       struct refusal *ret_refusal)
{
	struct refusal r = { .slot = slot, .asked_bytes = bytes };
	int saved_errno = errno;
	struct attach_shared *shared;
	bool taken;

	/* the count must stand before the request goes out; the first call makes room for it */
	if (!attach_shared())
		(void)attach_ensure();
	shared = attach_shared();
	if (!shared)
		return false;
	atomic_fetch_add(&shared->held_bytes[slot], bytes);
	taken = ask(slot, bytes, flags, ret, &r);
	if (!taken || ret->slot < 0)
		atomic_fetch_sub(&shared->held_bytes[slot], bytes);
	errno = saved_errno;
	return taken || refused(&r, flags, ret_refusal);
}

/* whoever changed the count last also shows it last: a store of an older one is looked at again */
static void publish(_Atomic uint64_t *count, _Atomic uint64_t *shown)
{
	uint64_t bytes;

	do {
		bytes = atomic_load(count);
		atomic_store(shown, bytes);
	} while (atomic_load(count) != bytes);
}

static void count_kind(const struct charge *charge, uint64_t more)
{
	struct attach_shared *shared = attach_shared();
	struct credit_slot *slot = &attach_page()->slot[charge->slot];

	if (charge->kind == CHARGE_MANAGED) {
		atomic_fetch_add(&shared->managed_bytes[charge->slot], more);
		publish(&shared->managed_bytes[charge->slot], &slot->managed_bytes);
	} else if (charge->kind == CHARGE_ELASTIC) {
		atomic_fetch_add(&shared->elastic_bytes[charge->slot], more);
		publish(&shared->elastic_bytes[charge->slot], &slot->elastic_bytes);
	}
}

void account_mark(struct charge *charge, enum charge_kind kind)
{
	if (!attach_page() || charge->slot < 0 || charge->slot >= WIRE_MAX_GPUS)
		return;
	charge->kind = kind;
	count_kind(charge, charge->bytes);
}

HOT void account_give(struct charge charge)
{
	struct credit_page *page = attach_page();

	if (!page || charge.slot < 0 || charge.slot >= WIRE_MAX_GPUS || charge.bytes == 0)
		return;
	count_kind(&charge, 0 - charge.bytes); /* first: the driver seems to need less, not more */
	give_credit(page, charge.slot, charge.bytes);
	atomic_fetch_sub(&attach_shared()->held_bytes[charge.slot], charge.bytes);
}

void account_gone(struct charge charge)
{
	struct attach_shared *shared = attach_shared();

	if (shared && charge.slot >= 0 && charge.slot < WIRE_MAX_GPUS)
		atomic_fetch_sub(&shared->held_bytes[charge.slot], charge.bytes);
}

struct charge account_split(struct charge *charge, uint64_t bytes)
{
	struct charge part = { .slot = charge->slot,
			       .kind = charge->kind,
			       .bytes = size_min(bytes, charge->bytes) };

	charge->bytes -= part.bytes;
	return part;
}

void account_settle(int slot)
{
	struct account_region *r = region();
	struct wire_settle settle = { .slot = (uint32_t)slot };
	uint64_t now, last;

	if (!r || slot < 0 || slot >= WIRE_MAX_GPUS || !attach_page())
		return;
	now = clock_now_ns();
	last = atomic_load_explicit(&r->settled_ns[slot], memory_order_relaxed);
	if (now - last >= SETTLE_EVERY_NS &&
	    atomic_compare_exchange_strong(&r->settled_ns[slot], &last, now))
		attach_hint(WIRE_SETTLE, &settle);
}

void account_settle_freed(int slot)
{
	struct wire_settle settle = { .slot = (uint32_t)slot, .flags = WIRE_SETTLE_ANSWER };
	struct wire_ok ok;

	if (slot >= 0 && slot < WIRE_MAX_GPUS && attach_page())
		(void)attach_call(WIRE_SETTLE, &settle, WIRE_OK, &ok, ATTACH_NO_WAIT, NULL);
}

/* ---- contexts ---- */

/* a NEED whose end will be told on the same connection; NULL in *ret_conn: there is none to tell */
static bool open_need(uint32_t kind, int slot, uint64_t bytes, unsigned flags,
		      struct attach_conn **ret_conn)
{
	bool no_wait = flags & ACCOUNT_NO_WAIT;
	struct wire_need need = { .slot = (uint32_t)slot,
				  .kind = kind,
				  .bytes = bytes,
				  .flags = no_wait ? WIRE_NEED_NO_WAIT : 0 };
	struct refusal r = { .slot = slot, .asked_bytes = bytes };
	int e;

	*ret_conn = NULL;
	e = attach_call_keep(ret_conn, WIRE_NEED, &need, WIRE_GRANT, &r.grant,
			     no_wait ? ATTACH_NO_WAIT : 0, NULL);
	if (e < 0)
		return e != -EREMOTEIO && attach_is_open();
	if (r.grant.result == WIRE_GRANT_OK)
		return true;
	attach_release(*ret_conn);
	*ret_conn = NULL;
	account_explain(&r);
	return false;
}

bool account_context_open(int slot, unsigned flags, struct account_context *ret)
{
	*ret = (struct account_context){ .slot = slot };
	return open_need(WIRE_NEED_CONTEXT, slot, 0, flags, &ret->conn);
}

bool account_context_close(struct account_context *ctx, bool made)
{
	struct wire_context_done done = { .slot = (uint32_t)ctx->slot, .ok = made };
	struct wire_context_settled settled;
	struct refusal r = { .slot = ctx->slot };
	int e;

	if (!ctx->conn)
		return true;
	e = attach_next(ctx->conn, WIRE_CONTEXT_DONE, &done, WIRE_CONTEXT_SETTLED, &settled, NULL);
	attach_release(ctx->conn);
	ctx->conn = NULL;
	if (e < 0 || !made || settled.keep)
		return true; /* an allotd that went away meanwhile learns the cost from NVML */
	r.grant.result = WIRE_GRANT_OVER_LIMIT;
	r.grant.used_bytes = settled.used_bytes;
	r.grant.limit_bytes = settled.limit_bytes;
	r.asked_bytes = settled.cost_bytes;
	(void)str_copy(r.grant.text, sizeof(r.grant.text), "that is what a context costs here");
	account_explain(&r);
	return false;
}

/* ---- turns beyond the limit ---- */

bool account_turn_open(int slot, uint64_t bytes, unsigned flags, struct account_turn *ret)
{
	*ret = (struct account_turn){ .slot = slot };
	return open_need(WIRE_NEED_OVERDRAFT, slot, bytes, flags, &ret->conn);
}

void account_turn_close(struct account_turn *turn, uint64_t kept_bytes)
{
	struct wire_overdraft_done done = { .slot = (uint32_t)turn->slot,
					    .kept_bytes = kept_bytes };

	if (turn->conn)
		attach_tell(turn->conn, WIRE_OVERDRAFT_DONE, &done);
	turn->conn = NULL;
}

/* ---- views ---- */

bool account_view(int slot, struct wire_viewed *ret)
{
	struct wire_view ask = { .slot = (uint32_t)slot };
	const struct wire_attached *lease;

	if (attach_call(WIRE_VIEW, &ask, WIRE_VIEWED, ret, 0, NULL) == 0)
		return true;
	lease = attach_lease();
	*ret = (struct wire_viewed){ 0 };
	if (lease && slot >= 0 && (uint32_t)slot < lease->n_gpus) {
		ret->limit_bytes = lease->gpus[slot].limit_bytes;
		ret->total_bytes = lease->gpus[slot].has_limit ? lease->gpus[slot].limit_bytes
							       : lease->gpus[slot].total_bytes;
	}
	return false;
}
