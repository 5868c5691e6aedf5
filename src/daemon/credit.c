// SPDX-License-Identifier: Apache-2.0
#include "daemon/credit.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "daemon/registry.h"

_Static_assert(LEDGER_MAX_SLOTS == WIRE_MAX_GPUS, "a lease has as many slots as a page");

static struct credit_page *map_page(int fd)
{
	void *p = mmap(NULL, CREDIT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

int credit_page_make(struct credit_page **ret, int *ret_fd, uint64_t *ret_inode)
{
	AUTO_FD int fd = fd_memfd_sealed("allot-credit", CREDIT_PAGE_BYTES);
	struct credit_page *page;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	page = map_page(fd);
	if (!page)
		return -errno;
	page->magic = CREDIT_PAGE_MAGIC;
	page->version = CREDIT_PAGE_VERSION;
	*ret = page;
	*ret_fd = TAKE_FD(fd);
	*ret_inode = st.st_ino;
	return 0;
}

int credit_page_adopt(int fd, struct credit_page **ret, struct err *err)
{
	struct credit_page *page;
	int r = fd_is_sealed_memfd(fd, CREDIT_PAGE_BYTES);

	if (r <= 0)
		return err_set(err, -EINVAL, "the descriptor is no sealed credit page");
	page = map_page(fd);
	if (!page)
		return err_set(err, -errno, "cannot map a credit page: %s", strerror(errno));
	if (page->magic != CREDIT_PAGE_MAGIC || page->version != CREDIT_PAGE_VERSION) {
		credit_page_unmap(page);
		return err_set(err, -EINVAL, "the descriptor is no credit page of this version");
	}
	*ret = page;
	return 0;
}

void credit_page_claim(const struct credit_page *page, uint64_t ret[LEDGER_MAX_SLOTS])
{
	for (unsigned i = 0; i < LEDGER_MAX_SLOTS; i++)
		ret[i] = atomic_load(&page->slot[i].granted_bytes);
}

void credit_page_unmap(struct credit_page *page)
{
	if (page)
		(void)munmap(page, CREDIT_PAGE_BYTES); /* cannot fail for a page we mapped */
}

static struct credit_slot *slot_of(void *owner, unsigned slot)
{
	struct process *p = owner;

	return p->page && slot < WIRE_MAX_GPUS ? &p->page->slot[slot] : NULL;
}

static uint64_t op_peek(void *owner, unsigned slot)
{
	struct credit_slot *s = slot_of(owner, slot);

	return s ? atomic_load(&s->credit_bytes) : 0;
}

static uint64_t op_call_back(void *owner, unsigned slot)
{
	struct credit_slot *s = slot_of(owner, slot);

	return s ? atomic_exchange(&s->credit_bytes, 0) : 0;
}

static void op_add(void *owner, unsigned slot, uint64_t bytes)
{
	struct credit_slot *s = slot_of(owner, slot);

	if (s)
		(void)atomic_fetch_add(&s->credit_bytes, bytes);
}

static void op_set_wanted(void *owner, unsigned slot, bool wanted)
{
	struct credit_slot *s = slot_of(owner, slot);

	if (s)
		atomic_store(&s->wanted, wanted);
}

static void op_set_granted(void *owner, unsigned slot, uint64_t bytes)
{
	struct credit_slot *s = slot_of(owner, slot);

	if (s)
		atomic_store(&s->granted_bytes, bytes);
}

static uint64_t op_managed(void *owner, unsigned slot)
{
	struct credit_slot *s = slot_of(owner, slot);

	return s ? atomic_load(&s->managed_bytes) : 0;
}

static uint64_t op_elastic(void *owner, unsigned slot)
{
	struct credit_slot *s = slot_of(owner, slot);

	return s ? atomic_load(&s->elastic_bytes) : 0;
}

static uint64_t op_returned(void *owner, unsigned slot)
{
	struct credit_slot *s = slot_of(owner, slot);

	return s ? atomic_load(&s->returned_bytes) : 0;
}

static uint64_t op_moving(void *owner, unsigned slot)
{
	struct credit_slot *s = slot_of(owner, slot);

	return s ? atomic_load(&s->moving_bytes) : 0;
}

const struct credit_ops credit_page_ops = {
	.peek = op_peek,
	.call_back = op_call_back,
	.add = op_add,
	.set_wanted = op_set_wanted,
	.set_granted = op_set_granted,
	.managed = op_managed,
	.elastic = op_elastic,
	.returned = op_returned,
	.moving = op_moving,
};
