// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_PROCADDR_H
#define SHIM_PROCADDR_H

/*
 * cuGetProcAddress in its three ABIs: the driver answers, and where the address that it returned
 * is that of a function we hook, our export takes its place. By address and not by name: the
 * driver alone knows which variant a name, a version and flags mean.
 *
 * - Everything but that one pointer is as the driver left it: result, status, and the pointer too
 *   when it reports an error. NULL arguments are the driver's to judge.
 * - Where one address stands for several symbols (a driver with aliases), those of the API asked
 *   for come first, then what we hook, then the stream kind asked for.
 * - Functions we do not hook, and names we have never heard of, are handed out as they are.
 * - But a name that we hook, answered with an address that no symbol of our table has, is a newer
 *   ABI of an allocator, which would pass unseen: NULL, CUDA_ERROR_NOT_SUPPORTED, status
 *   VERSION_NOT_SUFFICIENT, and a line on stderr. A caller that asks for CUDA 13.0 or older, as
 *   all but future programs do, cannot meet this.
 */

/** procaddr_loaded - note where the driver's functions are; once real_* are set (entry_lib) */
void procaddr_loaded(void);

#endif
