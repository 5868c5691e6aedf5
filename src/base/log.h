// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_LOG_H
#define BASE_LOG_H

/*
 * The programs' log on stderr (libraries return errors and never log).  One line a message, cut at
 * 1 KiB, written by one write(2), so that lines of several processes do not mix.
 */

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/** log_setup - @who precedes each line; the level comes from ALLOT_LOG, else @level */
void log_setup(const char *who, enum log_level level);

/**
 * log_never_wait - for a program that must not stand still because nobody reads its log
 *
 * A pipe whose reader is stopped, a terminal that was halted (Ctrl-S), a journal that hangs: what
 * does not fit is lost and counted.  stderr is opened anew, so that the open file of whoever
 * started us keeps its ways.
 */
void log_never_wait(void);

/** log_level_parse - "error", "warn", "info", "debug"; -EINVAL otherwise */
int log_level_parse(const char *s, enum log_level *ret_level);

/** log_set_level - from now on; what ALLOT_LOG says is the caller's to respect */
void log_set_level(enum log_level level);

void log_print(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_print(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_print(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_print(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_print(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
