// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_NVML_NVML_H
#define SIM_NVML_NVML_H

/*
 * The simulated NVML from inside.
 *
 * It reads the state that the simulated driver's processes share and holds no memory itself, so it
 * never takes a row there.  Every exported function begins with sim_nvml_enter (or
 * sim_nvml_enter_device): is the library initialised, does a fault apply, is the handle one of
 * ours.  Symbols without a body of their own have a weak one in defaults.c, with the same checks,
 * that answers NOT_SUPPORTED, or NO_PERMISSION where the name would change a device.
 *
 * Cards' handles stand first in sim_nvml.devices, those of MIG instances (mig.c) behind them.  A
 * handle points into it; it stays valid for the life of the process, as the real
 * one's does.  The library is initialised as often as nvmlInit was called; the state is opened at
 * the first one, and again in a forked child, and closed by the last nvmlShutdown, which no other
 * call of the program may overlap.  Otherwise any thread.
 *
 * Faults: the file "nvml-faults" in the simulator's folder, read again whenever it changes, or the
 * environment variable ALLOT_SIM_NVML_FAULTS.  Words separated by blanks, commas or newlines:
 *   hang, hang=FUNCTION     do not return until the word is taken away
 *   error=FUNCTION:RESULT   answer RESULT, a name (NVML_ERROR_TIMEOUT) or a number; FUNCTION may be
 *                           "*", which leaves nvmlInit and nvmlShutdown alone
 *   lost, lost=INDEX        every question about the device is answered GPU_IS_LOST
 *   no-process-memory       lists name the processes, but what each uses is not available (WSL)
 *   no-instance-memory      the same, on MIG instances and on cards in MIG mode
 *   graphics=PID            that process draws too: it stands in both lists (C+G)
 *   crowd=N                 N compute processes of 2 MiB more on every card, that nobody has heard
 * of no-instance=INDEX       the MIG instance of that index (over all cards) is taken away
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/nvml_names.h"
#include "abi/nvml_proto.h"
#include "sim/state/state.h"

#define NVML_CALL(symbol, params) __attribute__((visibility("default"))) nvmlReturn_t symbol params;
#include "abi/nvml.def"
__attribute__((visibility("default"))) const char *nvmlErrorString(nvmlReturn_t result);

/* one look at how busy a device was, kept to measure from */
struct sim_nvml_mark {
	uint64_t at_ns;
	uint64_t busy_ns;
	uint64_t copy_ns;
};

struct nvmlDevice_st {
	unsigned index; /* in the shared state: cards in PCI order, then MIG instances */
	const struct sim_device_info *info;
	struct sim_nvml_mark older, newer; /* under sim_nvml.lock */
};

struct sim_nvml {
	pthread_mutex_t lock;
	unsigned init_count;
	int opened_by; /* pid that opened the state: a forked child opens its own */
	struct sim_state *state;
	char dir[4096];        /* the simulator's folder */
	unsigned device_count; /* cards */
	struct nvmlDevice_st devices[SIM_DEVICES_MAX];
};

extern struct sim_nvml sim_nvml;

/** sim_nvml_enter - what every call does first; anything but NVML_SUCCESS is the answer */
nvmlReturn_t sim_nvml_enter(enum nvml_sym symbol);

/** sim_nvml_enter_device - the same, and @device is one of ours and not lost */
nvmlReturn_t sim_nvml_enter_device(enum nvml_sym symbol, nvmlDevice_t device);

/** sim_nvml_devices - cards and instances together, as the profile is now */
unsigned sim_nvml_devices(void);

/** sim_nvml_is_instance - is it a MIG device? */
static inline bool sim_nvml_is_instance(nvmlDevice_t device)
{
	return device->info->is_instance != 0;
}

/** sim_nvml_card - the card of an instance; a card itself */
nvmlDevice_t sim_nvml_card(nvmlDevice_t device);

/** sim_nvml_fault - the answer that a configured fault gives; may not return for long */
nvmlReturn_t sim_nvml_fault(enum nvml_sym symbol);

/** sim_nvml_hides_memory - is what a process uses not told? */
bool sim_nvml_hides_memory(void);

/** sim_nvml_hides_instances - the same, where there is MIG? */
bool sim_nvml_hides_instances(void);

/** sim_nvml_is_gone - was MIG instance @index (over all cards) taken away? */
bool sim_nvml_is_gone(unsigned index);

#define SIM_NVML_CROWD_MAX 4096
#define SIM_NVML_CROWD_PID 5000000 /* the first of them; no kernel gives out such numbers */

/** sim_nvml_crowd - how many processes of nobody are listed */
unsigned sim_nvml_crowd(void);

/** sim_nvml_is_graphics - does that process draw? */
bool sim_nvml_is_graphics(unsigned pid);

/** sim_nvml_is_lost - has device @index fallen off the bus? */
bool sim_nvml_is_lost(unsigned index);

/** sim_nvml_pid - @proc's number in the reader's PID namespace; its own where it is not seen there
 */
unsigned sim_nvml_pid(const struct sim_proc *proc);

/** sim_nvml_text - copy @text to a caller's buffer: INVALID_ARGUMENT, INSUFFICIENT_SIZE */
nvmlReturn_t sim_nvml_text(char *buf, unsigned length, const char *text);

/** sim_nvml_version - is the version word of a caller's struct the one we know? */
static inline nvmlReturn_t sim_nvml_version(unsigned got, unsigned want)
{
	return got == want ? NVML_SUCCESS : NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

/* how busy, over the time since somebody asked before (a sixth of a second at least) */
struct sim_nvml_load {
	unsigned gpu_pct, copy_pct;
	uint64_t period_us;
};

/** sim_nvml_load - how busy is @device? */
void sim_nvml_load(nvmlDevice_t device, struct sim_nvml_load *ret);

/* A body of one line: checks, a NULL check of the out-parameter, and the value. */
#define SIM_NVML_GET(sym, type, expr)                                                 \
	nvmlReturn_t sym(nvmlDevice_t device, type *value)                            \
	{                                                                             \
		nvmlReturn_t entered = sim_nvml_enter_device(NVML_SYM_##sym, device); \
                                                                                      \
		if (entered)                                                          \
			return entered;                                               \
		if (!value)                                                           \
			return NVML_ERROR_INVALID_ARGUMENT;                           \
		*value = (expr);                                                      \
		return NVML_SUCCESS;                                                  \
	}

#define SIM_NVML_GET_TEXT(sym, expr)                                                  \
	nvmlReturn_t sym(nvmlDevice_t device, char *text, unsigned int length)        \
	{                                                                             \
		nvmlReturn_t entered = sim_nvml_enter_device(NVML_SYM_##sym, device); \
                                                                                      \
		return entered ? entered : sim_nvml_text(text, length, (expr));       \
	}

#endif
