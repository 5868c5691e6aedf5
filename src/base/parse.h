// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

/*
 * The one place where text becomes a number.  The whole string must be used, the value must be in
 * range and carry the unit it needs; everything else is an error whose text names the offending
 * word.  What cannot be read is never taken for "no limit".  No locale, no allocation.
 */

#include <stdint.h>

struct err;

/** parse_u64 - decimal digits only, lo … hi */
int parse_u64(const char *s, uint64_t lo, uint64_t hi, uint64_t *ret, struct err *err);

/**
 * parse_size - "8G", "512MiB", "1.5T": a number and a unit, powers of 1024
 *
 * K M G T (also KB/KiB …, any case).  A bare number, zero, a sign, an unknown unit and anything
 * beyond 2^60 are refused.
 */
int parse_size(const char *s, uint64_t *ret_bytes, struct err *err);

/** parse_percent - "25%", "12.5 %": ret in permille, 1 … 1000 */
int parse_percent(const char *s, unsigned *ret_permille, struct err *err);

/** struct parse_amount - bytes, or a part of the card; exactly one of the two is not 0 */
struct parse_amount {
	uint64_t bytes;
	unsigned permille;
};

/**
 * parse_vram - "REQ[:LIMIT]" of --vram; each a SIZE or PCT, LIMIT also "unlimited"
 *
 * One value sets both.  An unlimited limit is returned as { 0, 0 }.
 */
int parse_vram(const char *s, struct parse_amount *ret_request, struct parse_amount *ret_limit,
	       struct err *err);

/** parse_duration - "90s", "30m", "4h", "7d", "1h30m", "500ms", Slurm's "MM:SS", "D-HH:MM:SS" */
int parse_duration(const char *s, uint64_t *ret_ns, struct err *err);

/** parse_uuid - 32 hex digits with or without dashes, after an optional "GPU-" or "MIG-" */
int parse_uuid(const char *s, uint8_t ret_uuid[16], struct err *err);

#endif
