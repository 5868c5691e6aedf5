// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_OWNER_H
#define BASE_OWNER_H

/*
 * Is the other end of a socket the machine's root?  Whoever asks SO_PEERCRED gets a user id in the
 * numbers of its own user namespace, and in one that anybody can make (unshare -r) "0" is that
 * somebody.
 *
 *   the machine's namespace      root is 0
 *   another, root not mapped     root has no number: the kernel shows the overflow id, which no
 *                                process of that namespace can take on.  Others from outside look
 *                                the same, but for whoever made the namespace, who is mapped
 *   another, 0 is mapped         that is somebody of the inside, or cannot be told from him
 *
 * So a server inside of the namespace is never taken for root, nor is one of the user who made it.
 * Any thread; three small files at the most.
 */

#include <stdbool.h>
#include <sys/types.h>

/** owner_is_root - may a peer that is seen as @uid be the machine's root? */
bool owner_is_root(uid_t uid);

/** owner_judge - the same, with what /proc/self/uid_map says; for tests */
bool owner_judge(const char *uid_map, uid_t overflow, uid_t self, uid_t uid);

#endif
