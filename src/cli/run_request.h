// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_RUN_REQUEST_H
#define CLI_RUN_REQUEST_H

/*
 * What `allot run` asks for: built from the options, then from the environment's defaults
 * (ALLOT_VRAM, ALLOT_CLASS, those of cli/run_foreign, CUDA_VISIBLE_DEVICES) for what they left out;
 * what nobody says is marked (WIRE_RUN_USUAL_…), and allotd's configuration decides.  Whatever
 * cannot be read is an error, never a default.
 */

#include <stdbool.h>

#include "wire/wire.h"

struct err;

void run_request_init(struct wire_run *m);

/**
 * run_request_env - the environment's defaults for what no option has said
 * @m:                    its GPUs are known (run_request_visible goes first)
 * @has_vram, @has_class: options that were given; their variables are not even read then
 * Returns 0, or -errno with the variable named in @err.
 */
int run_request_env(struct wire_run *m, bool has_vram, bool has_class, struct err *err);

/**
 * run_request_visible - the GPUs that CUDA_VISIBLE_DEVICES names, where no --gpu was given
 * @has_gpus: --gpus was: that many of them, else all
 *
 * Inside a job the list that `allot run` itself has set is nobody's wish.
 */
int run_request_visible(struct wire_run *m, bool has_gpus, struct err *err);

int run_request_vram(struct wire_run *m, const char *value, struct err *err);
int run_request_class(struct wire_run *m, const char *value, struct err *err);
int run_request_when_full(struct wire_run *m, const char *value, struct err *err);
int run_request_fail_policy(struct wire_run *m, const char *value, struct err *err);
/** run_request_wait - --wait-timeout; "0s": --immediate */
int run_request_wait(struct wire_run *m, const char *value, struct err *err);

/** run_request_command - the name (when none was given) and the command as people read it */
void run_request_command(struct wire_run *m, char **argv);

#endif
