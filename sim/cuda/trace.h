// SPDX-License-Identifier: Apache-2.0
#ifndef SIM_CUDA_TRACE_H
#define SIM_CUDA_TRACE_H

/*
 * What tests use to look at the driver and to break it.
 *
 * Call log: ALLOT_SIM_LOG=FILE gets one line a call, written by one write(2):
 *   PID cuMemAlloc_v2(bytes=2097152) = 0
 * Faults: ALLOT_SIM_FAULTS, and the file "faults" in the simulator's folder (when it was there at
 * the first call, it is read again whenever it changes). Rules stand in lines or between ';':
 *   [after=N] [every=N] [times=N] [sticky] [pid=N] [delay=TIME] [hang] PATTERN[=RESULT]
 * PATTERN is a symbol, with * and ? as in file names; RESULT a number or CUDA_ERROR_…. A rule
 * passes over the first N calls that match (after), takes each N-th from then on (every, 1), and
 * fires once (times=N: N times; sticky: for ever; without RESULT also for ever). delay and hang act
 * in each call that fires. A text that cannot be read makes every call fail with UNKNOWN, and
 * stderr says why.
 *
 * Any thread. With neither log nor faults a call costs one load.
 */

#include <stdarg.h>
#include <stdbool.h>

#include "sim/cuda/sim.h"

enum sim_trace_mode {
	SIM_TRACE_UNKNOWN,
	SIM_TRACE_OFF,
	SIM_TRACE_ON,
};

extern int sim_trace_mode;

/** sim_trace_init - read the environment once; returns the mode */
int sim_trace_init(void);

static inline bool sim_is_traced(void)
{
	int mode = __atomic_load_n(&sim_trace_mode, __ATOMIC_ACQUIRE);

	return (mode ? mode : sim_trace_init()) == SIM_TRACE_ON;
}

/** sim_log_init - whether a log is asked for */
bool sim_log_init(void);

void sim_log_call(const char *name, CUresult result, const char *fmt, va_list args)
	__attribute__((format(printf, 3, 0)));
void sim_log_plain(const char *name, CUresult result);

/** sim_faults_init - whether there are rules; reads them */
bool sim_faults_init(void);

/**
 * sim_faults_parse - count and check the rules of @text; 0, or -EINVAL with the offending word
 * Replaces the rules in force.
 */
int sim_faults_parse(const char *text, struct err *err);

#endif
