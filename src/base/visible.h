// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_VISIBLE_H
#define BASE_VISIBLE_H

/*
 * The grammar of CUDA_VISIBLE_DEVICES: which of some devices does a list name, and in which order?
 *
 * As CUDA reads it.  Not set: all, in their order.  Else entries with commas between them; the
 * order of the entries is the order of the devices.  An entry is an index, or the beginning of one
 * device's name ("GPU-5a1b7c20", "MIG-…") that no other device's name begins with; in upper or
 * lower case; blanks around it do not count.  The first entry that is none of these ends the list:
 * what stands before it counts, the rest does not.  So "" and "-1" and "NoDevFiles" name nothing,
 * and "0,9,1" names 0.  An empty entry is none of these.  A device that is named twice is named
 * twice: CUDA makes an error of that, and so the answer keeps it.
 *
 * Pure; no allocation; any thread.
 */

#include <stdbool.h>
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

#endif
