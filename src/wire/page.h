// SPDX-License-Identifier: Apache-2.0
#ifndef WIRE_PAGE_H
#define WIRE_PAGE_H

/*
 * The credit page: what a process may take without asking.
 *
 * allotd makes one sealed memfd a process and maps it; the shim maps the same page; the keeper
 * holds a duplicate of the descriptor, so that a restarted allotd gets it back.  Slot i belongs to
 * the i-th GPU of the lease.
 *
 *   charged to the process = granted (allotd's own figure; the copy here serves a restart only)
 *   unused part of it      = credit_bytes
 *   held by the process    = granted − credit
 *
 * Taking:   compare-and-swap credit_bytes downwards, only when it is large enough.
 * Returning: atomic add to credit_bytes, then load `wanted`; when it is set, ring the doorbell
 *           (write 1 to the eventfd, which is the whole job's).  Both are sequentially consistent.
 * Calling back (allotd, also from a stopped process): store `wanted` = 1, then exchange
 *           credit_bytes with 0.  Either the shim's add came before the exchange and is called
 *           back, or its load comes after the store and sees `wanted`: no wake-up is lost.
 *
 * Moving: how much was taken at most for calls of the driver that are under way.  So much of what
 * is held NVML may lack, and allotd does not take the difference for a driver that needs less than
 * before.
 *
 * Returned: all that was ever given back.  What went and came again while NVML was read is so
 * known.
 *
 * Managed: how much of what is held lies in managed memory.  The driver moves that between host and
 * card as it is touched, and NVML shows it with the card but with no process (measured, driver
 * 580.159: docs/benchmarks.md): allotd adds it to NVML's figure of the process.
 *
 * Elastic: how much of what is held the driver takes when it likes: a heap at the first kernel that
 * uses it, a module at its first use.  Until then NVML lacks it, afterwards not: allotd takes both
 * for right.
 *
 * The page is the tenant's to scribble on: allotd never believes more credit than it granted, and
 * NVML shows the rest.  Bytes everywhere.
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/wire.h"

#define CREDIT_PAGE_MAGIC   0x45474150u /* "PAGE" */
#define CREDIT_PAGE_VERSION 4
#define CREDIT_PAGE_BYTES   4096

struct credit_slot {
	_Atomic uint64_t credit_bytes;
	_Atomic uint32_t wanted; /* somebody waits or calls back: ring after a return */
	uint32_t pad0;
	_Atomic uint64_t granted_bytes; /* written by allotd; read back only after a restart */
	_Atomic uint64_t managed_bytes; /* written by the shim, as the next three */
	_Atomic uint64_t elastic_bytes;
	_Atomic uint64_t moving_bytes;
	_Atomic uint64_t returned_bytes;
	uint64_t pad1[1];
};

struct credit_page {
	uint32_t magic;
	uint32_t version;
	uint64_t process; /* allotd's number of the process */
	uint64_t job_id;
	uint64_t pad[5];
	struct credit_slot slot[WIRE_MAX_GPUS];
};

_Static_assert(sizeof(struct credit_slot) == 64, "one cache line a GPU");
_Static_assert(offsetof(struct credit_page, slot) == 64, "slots begin at a cache line");
_Static_assert(sizeof(struct credit_page) <= CREDIT_PAGE_BYTES, "fits its page");

#endif
