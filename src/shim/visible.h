// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_VISIBLE_H
#define SHIM_VISIBLE_H

/*
 * The real driver sees the lease's GPUs, and no others.
 *
 * CUDA numbers its devices once, in cuInit, and from then on every ordinal, device handle, pool
 * location, access descriptor and pointer attribute speaks of that numbering.  So instead of
 * translating in hundreds of places, the one place is turned where the driver learns which devices
 * there are: it asks getenv for CUDA_VISIBLE_DEVICES.  Of the driver's own import of getenv (and
 * secure_getenv), and of nobody else's, we are the answer: the list that the program has set, read
 * by CUDA's rules (base/visible.h) as if the lease's GPUs were all that the machine has, and
 * written as UUIDs.  The program's environment is not touched, so nothing races with it; whatever
 * the program does to it (unset, another order, another spelling, env -i) picks among the lease.
 *
 * What an index counts: with CUDA_DEVICE_ORDER=PCI_BUS_ID, which `allot run` sets, the lease's GPUs
 * in PCI order, as nvidia-smi lists them inside the job; without it the lease's order (that of
 * --gpu, else PCI order).  A lease of all that the machine has is no narrowing: the driver gets the
 * program's own words, and its answer is its own in every detail.
 *
 * Should a driver read the variable by another way than getenv, it shows devices outside of the
 * lease.  They are seen then (visible_check), and nothing can be had of them: a context there is
 * refused (devices.h).
 *
 * Texts that were handed out stay for the life of the process: getenv's callers expect that.  Few:
 * one for each list that a process tries.  Any thread; no lock; no malloc.
 */

/** visible_redirect - from entry_lib.loaded: the driver is open, and asks us */
void visible_redirect(void);

/**
 * visible_narrow - what the driver is told when the program's CUDA_VISIBLE_DEVICES is @asked
 * @asked: NULL: not set
 */
const char *visible_narrow(const char *asked);

/** visible_check - after a cuInit that succeeded: say (ALLOT_LOG=debug) what should not be seen */
void visible_check(void);

#endif
