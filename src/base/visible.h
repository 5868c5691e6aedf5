// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_VISIBLE_H
#define BASE_VISIBLE_H

/*
 * The grammar of CUDA_VISIBLE_DEVICES: which of some devices does a list name, and in which order?
 *
 * As CUDA reads it, recorded with driver 580.159 (tests/conformance, visible.*).  Not set: all, in
 * their order.  Else entries with commas between them; the order of the entries is the order of the
 * devices.  The first entry decides of which kind all are:
 *
 *   - names, where it begins with "GPU-" or "MIG-", just so written.  An entry is the beginning of
 *     one device's UUID behind that, which no other device's begins with; its digits in upper or
 *     lower case.  What follows a whole UUID does not count.  A whole card answers to "MIG-" too,
 * an instance to nothing else.  No blank may stand before a name.
 *   - else numbers, as C's atoi() reads them: blanks and one sign before the digits, whatever may
 *     follow them ("1a", "1.0", "0x1" are 1, 1, 0), cut to 32 bits (4294967297 is 1).
 *
 * The first entry that is none of its kind ends the list: what stands before it counts, the rest
 * does not.  So "" and "-1" and "NoDevFiles" name nothing, "0,9,1" names 0, and "1,GPU-5a1b7c20"
 * names 1.  An empty entry is none.  A device that is named twice is named twice: CUDA makes an
 * error of that, and so the answer keeps it.
 *
 * Not recorded, and taken to follow from it: whether the list goes on behind an entry whose end
 * does not count ("1a,0": here it does), and what instances answer to.
 *
 * Pure; no allocation; any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct visible_device {
	uint8_t uuid[16];
	bool is_mig; /* its name begins with MIG-, not with GPU- */
};

/**
 * visible_pick - the devices that @list names
 * @list:    NULL: the variable is not set
 * @devices: all there are, in the order that an index counts
 * @ret:     room for @n + 1; places in @devices
 *
 * Returns how many.  More than @n can only be with one named twice, so no more are looked at.
 */
unsigned visible_pick(const char *list, const struct visible_device *devices, unsigned n,
		      unsigned *ret);

/**
 * visible_index - the number that the @len bytes of @entry are read as
 * Negative: it names nothing, as where there is no digit.
 */
int visible_index(const char *entry, size_t len);

#endif
