// SPDX-License-Identifier: Apache-2.0
#include "shim/share.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/size.h"

#define MARK_WORD UINT64_C(0x6b72616d20746f6c) /* beside a mark; a hash is no such word */

static uint64_t stir(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

struct wire_share_key share_key_of(const void *bytes, size_t n)
{
	struct wire_share_key key = { { n, ~(uint64_t)n } };

	for (size_t i = 0; i < n; i += 8) {
		uint64_t word = 0;

		memcpy(&word, (const char *)bytes + i, size_min(n - i, 8));
		key.word[0] = stir(key.word[0] ^ word);
		key.word[1] = stir(key.word[1] + word);
	}
	return key;
}

struct wire_share_key share_key_of_mark(uint64_t mark)
{
	return (struct wire_share_key){ { mark, MARK_WORD } };
}

uint64_t share_new_mark(void)
{
	int saved_errno = errno;
	uint64_t mark = 0;

	if (getrandom(&mark, sizeof(mark), GRND_NONBLOCK) != sizeof(mark))
		mark = 0;
	errno = saved_errno;
	return mark >> 2; /* a file's offset has 63 bits */
}

static bool tell(unsigned type, const void *payload, uint64_t *ret_value)
{
	struct wire_ok ok = { 0 };

	if (!attach_page() || attach_call(type, payload, WIRE_OK, &ok, ATTACH_NO_WAIT, NULL))
		return false;
	*ret_value = ok.value;
	return true;
}

bool share_out(int slot, struct wire_share_key key, uint64_t bytes, unsigned flags)
{
	struct wire_share_out m = {
		.key = key, .bytes = bytes, .slot = (uint32_t)slot, .flags = flags
	};
	uint64_t kept = 0;

	return slot >= 0 && tell(WIRE_SHARE_OUT, &m, &kept) && kept;
}

struct wire_share_known share_ask(struct wire_share_key key, uint64_t bytes)
{
	struct wire_share_in m = { .key = key, .bytes = bytes };
	struct wire_share_known known = { .known = WIRE_SHARE_NOT_KNOWN };

	if (!attach_page() ||
	    attach_call(WIRE_SHARE_IN, &m, WIRE_SHARE_KNOWN, &known, ATTACH_NO_WAIT, NULL))
		known.known = WIRE_SHARE_NOT_KNOWN;
	return known;
}

bool share_in(struct wire_share_key key, uint64_t bytes)
{
	return share_ask(key, bytes).known == WIRE_SHARE_OPEN;
}

void share_close(struct wire_share_key key, bool all)
{
	struct wire_share_close m = { .key = key, .flags = all ? WIRE_SHARE_ALL : 0 };
	uint64_t unused;

	(void)tell(WIRE_SHARE_CLOSE, &m, &unused);
}

void share_freed(struct wire_share_key key, struct charge charge, bool last)
{
	struct wire_share_freed m = { .key = key,
				      .bytes = charge.bytes,
				      .flags = last ? WIRE_SHARE_LAST : 0 };
	uint64_t moved;

	if (charge.slot >= 0 && tell(WIRE_SHARE_FREED, &m, &moved))
		account_gone(account_split(&charge, moved));
	account_give(charge);
}

struct block *share_record(uint32_t kind, struct wire_share_key key)
{
	struct block *b = blocks_reserve();

	if (!b)
		return NULL;
	b->kind = kind;
	b->charge = CHARGE_NONE;
	b->count = key.word[0];
	b->other = (void *)(uintptr_t)key.word[1];
	return b;
}

struct wire_share_key share_record_key(const struct block *b)
{
	return (struct wire_share_key){ { b->count, (uintptr_t)b->other } };
}
