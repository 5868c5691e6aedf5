// SPDX-License-Identifier: Apache-2.0
#ifndef DAEMON_CREDIT_H
#define DAEMON_CREDIT_H

/*
 * The credit pages (wire/page.h) as allotd handles them: made, sealed, mapped, adopted, and moved
 * by the ledger through credit_ops.
 *
 * A page is shared with a process that may write anything into it: only atomic loads and stores
 * are made on it, nothing read from it is believed beyond what the ledger granted, and since it is
 * sealed against resizing no access to it can fault.
 */

#include <stdint.h>

#include "policy/ledger.h"
#include "wire/page.h"

struct err;

/**
 * credit_page_make - a fresh page, nobody's yet
 * @ret_fd:    its memfd, the caller's to close
 * @ret_inode: what tells it from every other page
 * Returns 0 or -errno.
 */
int credit_page_make(struct credit_page **ret, int *ret_fd, uint64_t *ret_inode);

/**
 * credit_page_adopt - map a page that a keeper or a process sent back
 *
 * It must be a memfd of exactly one page, sealed, with our marks; anything else is -EINVAL with a
 * text.  @fd stays the caller's.
 */
int credit_page_adopt(int fd, struct credit_page **ret, struct err *err);

/** credit_page_claim - what the page says was granted, per slot; to be doubted */
void credit_page_claim(const struct credit_page *page, uint64_t ret[LEDGER_MAX_SLOTS]);

void credit_page_unmap(struct credit_page *page);

/** credit_ops - for ledger_new; owners are struct process (those without a page have no credit) */
extern const struct credit_ops credit_page_ops;

#endif
