// SPDX-License-Identifier: Apache-2.0
#ifndef SHIM_SAY_H
#define SHIM_SAY_H

/*
 * The one line that a guest may write on its host's stderr. "allot: " goes in front and a newline
 * behind; it is made in a buffer on the stack, cut there if need be, control characters made
 * harmless, and written by a single write(2). A reader that is gone does not kill the host
 * (SIGPIPE is held back for that write), one that does not read does not stop it (the line is
 * dropped after 50 ms), and errno stays. Use %s, %d, %u, %zu, %" PRIu64 " only: no floating point.
 * Any thread; no lock, no heap.
 */

#include <stdbool.h>

/** say - always written: why something of the host's was refused or cannot be */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/**
 * say_refusal - as say, for what a program can cause over and over
 *
 * The first 20 of a process are all written, later ones at most once a second; the line that
 * comes after a pause says how many were left out.
 */
void say_refusal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** say_once - as say, if *@said was false; sets it. @said is static, one for each subject. */
void say_once(bool *said, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** say_debug - only under ALLOT_LOG=debug */
void say_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
