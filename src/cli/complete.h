// SPDX-License-Identifier: Apache-2.0
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

/*
 * What may stand where the cursor is.  The shells' scripts (data/completion) ask with the words of
 * the line; everything known about verbs, options and values is in the tables of cli/cmd.h, and
 * jobs and GPUs are asked of allotd, briefly and in silence.
 *
 * An answer is a line "WORD<tab>what it is".  Two more say what the shell knows better: ":command
 * N" (a command begins with the N-th word of those given, from 0) and ":files".
 */

/**
 * complete_words - print what fits; always 0
 * @words: after "allot", the last one is where the cursor is and may be ""
 */
int complete_words(int n, char **words);

/** complete_values - what the value of an option with that placeholder can be; NULL: not known */
const char *complete_values(const char *placeholder);

#endif
