// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_PATHS_H
#define BASE_PATHS_H

/*
 * Where allot's files live: one place, so that daemon, client and shim agree.
 *
 *   system: /run/allot/allotd.sock, /var/lib/allot, /etc/allot/allot.yaml
 *   user:   $XDG_RUNTIME_DIR/allot/, $XDG_STATE_HOME/allot/, $XDG_CONFIG_HOME/allot/allot.yaml;
 *           without XDG_RUNTIME_DIR a folder /tmp/allot-UID of mode 0700 whose owner is checked
 *
 * The environment is read by secure_getenv.  Nothing is created here.  Any thread.
 */

#include <stddef.h>
#include <sys/types.h>

#define PATHS_MAX           1024
#define PATHS_SYSTEM_SOCKET "/run/allot/allotd.sock"
#define PATHS_SYSTEM_STATE  "/var/lib/allot"
#define PATHS_SYSTEM_CONFIG "/etc/allot/allot.yaml"

/* each: 0, or -ENAMETOOLONG */
int paths_user_runtime(char *buf, size_t size); /* the folder */
int paths_user_socket(char *buf, size_t size);
int paths_user_state(char *buf, size_t size);
int paths_user_config(char *buf, size_t size);

/** paths_self - the running program's own file, links resolved; 0 or -errno */
int paths_self(char *buf, size_t size);

/**
 * paths_beside - a file of ours, looked for beside the running program
 * @candidates: NULL-terminated, relative to the program's folder ("../lib/liballot-cuda.so")
 * Returns 0 with the first that exists, as an absolute clean path; -ENOENT.
 */
int paths_beside(const char *const *candidates, char *buf, size_t size);

#endif
