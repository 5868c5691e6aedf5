// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_ENTRY_H
#define SHIM_ENTRY_H

/*
 * The exported entries of one interposing library and how they find the real driver.
 *
 * The machinery is the same for liballot-cuda.so and liballot-nvml.so: each links its own hidden
 * copy, and says what differs in one constant, entry_lib. From the library's table entry.S makes,
 * for every symbol:
 *
 *   <symbol>       exported, one indirect jump through real_<symbol> (not for a hook: that is a C
 *                  function of this name, and whoever forgets to write it cannot link)
 *   lazy_<symbol>  where real_<symbol> points at first: saves every register an argument can be
 *                  in, calls entry_resolve(slot), jumps to what that returned
 *   real_<symbol>  the pointer, in the writable array entry_real, in the table's order
 *
 * Invariants. entry_real[slot] is never NULL: lazy stub, then the driver's function, or, where the
 * driver lacks the symbol, entry_lib.missing. It changes once, by plain atomic stores of values
 * that every thread would compute alike. Nothing waits for anybody here: threads that come
 * together at the first call each open the driver (dlopen gives all of them the same one), so no
 * order of locks between us and the dynamic linker exists. A call that comes back to us while its
 * own thread opens the driver (a constructor of the driver or of a library it needs) is answered
 * by entry_lib.no_driver and leaves no trace.
 *
 * A failure is not final: entry_lib.retry names the symbol (cuInit) whose call tries again; all
 * others are answered by entry_lib.no_driver until then. What was missing is said once on stderr.
 *
 * Threads: any, except where said. errno is left as it was.
 */

#include <stdbool.h>

struct entry_lib {
	const char *soname;                 /* of the real driver: "libcuda.so.1" */
	unsigned count;                     /* symbols in the table */
	unsigned retry;                     /* the slot whose call may try again after a failure */
	const char *(*name)(unsigned slot); /* the symbol's name */
	void *missing;                      /* function: the driver has no such symbol */
	void *(*no_driver)(unsigned slot, int error); /* function to call while there is no driver;
						       * @error: what entry_load answered */
	/* for entries that are asked about at each call: the function to call in the driver's
	 * place, NULL: the driver's; once it is open; may talk to allotd; may be NULL */
	void *(*gate)(unsigned slot);
	void (*loaded)(void); /* every real_<symbol> is set; any number of threads, each
			       * before its first real call; may be NULL */
};

/** entry_lib - defined by cuda_entry.c, or nvml_entry.c in the other library */
extern const struct entry_lib entry_lib;

/* the table itself; use real_<symbol> of real.h or nvml_real.h */
extern void *entry_real[] __attribute__((visibility("hidden")));

/**
 * entry_resolve - called by the lazy stubs with every argument register saved
 *
 * Returns the function to jump to: the driver's, or the one that answers in its place.
 */
void *entry_resolve(unsigned slot);

/**
 * entry_load - open the driver now, if that has not been done
 *
 * Returns 0; -ENOENT no driver found; -EALREADY called from within the opening itself (see above);
 * -ELIBBAD found, but it could not be opened. May block in the dynamic linker and in
 * shim_driver_dir(): call it with no lock held.
 */
int entry_load(void);

/** entry_is_loaded - is the driver open? Never opens it. */
bool entry_is_loaded(void);

/** entry_has - does the driver have this symbol? False as long as it is not open. */
bool entry_has(unsigned slot);

/**
 * shim_driver_dir - the folder allotd named for the real driver; NULL or "": what the loader picks
 *
 * Called once a thread that opens the driver, with no lock held; may talk to allotd. A weak
 * definition here returns NULL; the attach code of each library overrides it. The text must stay.
 */
const char *shim_driver_dir(void);

#endif
