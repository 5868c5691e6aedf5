// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_PAGES_H
#define DAEMON_PAGES_H

/*
 * Credit pages made ready ahead of time: making one takes more system calls than all the rest of
 * an ATTACH, and many programs attach at the same moment.
 *
 * The stock is filled while the loop has nothing else to do, PAGES_STOCK of them.  A crowd that
 * finds it empty gets pages made on the spot, and the stock grows to what that crowd took, up to
 * PAGES_STOCK_MAX; what lay unused for a minute is dropped again.  It never takes more than an
 * eighth of the descriptors this process may have, and gives all of them back when they are short.
 *
 * A ready page was never anybody's: pages are not used a second time.  One thread: the loop's.
 */

#include <stdint.h>
#include <systemd/sd-event.h>

#define PAGES_STOCK     64
#define PAGES_STOCK_MAX 512

struct credit_page;
struct pages;

int pages_new(sd_event *event, struct pages **ret);
struct pages *pages_free(struct pages *pages);

/** pages_take - one from the stock, or one made now; as credit_page_make */
int pages_take(struct pages *pages, struct credit_page **ret, int *ret_fd, uint64_t *ret_inode);

/** pages_drop - give the whole stock back; it is filled again when a page was taken */
void pages_drop(struct pages *pages);

unsigned pages_ready(const struct pages *pages);

#endif
