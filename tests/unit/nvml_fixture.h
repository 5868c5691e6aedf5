// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_UNIT_NVML_FIXTURE_H
#define TESTS_UNIT_NVML_FIXTURE_H

/*
 * A simulated machine in a folder of its own, and processes that hold memory on it: for the tests
 * of whatever reads NVML.  Holders are children that do nothing but hold until they are killed.
 */

#include <sys/types.h>

#include "base/size.h"

#define FIXTURE_UUID_A   "GPU-0a0a0a0a-1111-2222-3333-444444444401"
#define FIXTURE_UUID_B   "GPU-0b0b0b0b-1111-2222-3333-444444444402"
#define FIXTURE_TOTAL_A  (8192 * MIB)
#define FIXTURE_TOTAL_B  (4096 * MIB)
#define FIXTURE_RESERVED (512 * MIB)

/** fixture_make - make the folder with two cards and point ALLOT_SIM_DIR at it; the folder */
const char *fixture_make(void);

/** fixture_adopt - after an exec: go on with the folder that ALLOT_SIM_DIR names */
void fixture_adopt(void);

/** fixture_remove - the folder and what is in it */
void fixture_remove(void);

/** fixture_hold - a child that holds @bytes of device @index in one context; returns when it does
 */
pid_t fixture_hold(unsigned index, uint64_t bytes);

/**
 * fixture_hold_apart - the same, as the first process of a PID namespace of its own
 *
 * Returns its number in ours; -1 where such a namespace may not be made.
 */
pid_t fixture_hold_apart(unsigned index, uint64_t bytes);

/** fixture_kill - end a holder and wait until it is gone */
void fixture_kill(pid_t pid);

/** fixture_faults - write the file that makes the simulated NVML fail; NULL removes it */
void fixture_faults(const char *text);

#endif
