// SPDX-License-Identifier: Apache-2.0
/* daemon/credit: pages that are ours, pages that are not, and the ledger's hands on them */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "daemon/credit.h"
#include "daemon/registry.h"

static void test_make_and_adopt(void **state)
{
	struct credit_page *page, *again;
	uint64_t claim[LEDGER_MAX_SLOTS];
	struct err err = { 0 };
	uint64_t inode;
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(credit_page_make(&page, &fd, &inode), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_ino == inode);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 0), -1); /* nobody can take it from under us */
	assert_int_equal(ftruncate(fd, 8192), -1);
	atomic_store(&page->slot[3].granted_bytes, 1ull << 40);
	assert_int_equal(credit_page_adopt(fd, &again, &err), 0);
	credit_page_claim(again, claim);
	assert_true(claim[3] == 1ull << 40);
	assert_true(claim[0] == 0);
	atomic_store(&again->slot[0].credit_bytes, 5); /* the same memory */
	assert_true(atomic_load(&page->slot[0].credit_bytes) == 5);
	credit_page_unmap(again);
	credit_page_unmap(page);
	credit_page_unmap(NULL);
	close(fd);
}

static void refuse(int fd, const char *what)
{
	struct credit_page *page = NULL;
	struct err err = { 0 };

	if (credit_page_adopt(fd, &page, &err) >= 0)
		fail_msg("%s was taken for a page", what);
	assert_true(err.text[0] != '\0');
	assert_null(page);
}

static void test_foreign_descriptors(void **state)
{
	uint32_t marks[2] = { CREDIT_PAGE_MAGIC, CREDIT_PAGE_VERSION + 1 };
	int fd, pipes[2];

	(void)state;
	refuse(-1, "no descriptor");
	fd = open("/dev/null", O_RDWR);
	refuse(fd, "/dev/null");
	close(fd);
	assert_int_equal(pipe(pipes), 0);
	refuse(pipes[0], "a pipe");
	close(pipes[0]);
	close(pipes[1]);
	fd = open("/proc/self/exe", O_RDONLY);
	refuse(fd, "a file");
	close(fd);
	fd = memfd_create("x", MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, CREDIT_PAGE_BYTES), 0);
	refuse(fd, "an unsealed memfd");
	close(fd);
	fd = fd_memfd_sealed("x", CREDIT_PAGE_BYTES / 2);
	refuse(fd, "a small one");
	close(fd);
	fd = fd_memfd_sealed("x", CREDIT_PAGE_BYTES * 2);
	refuse(fd, "a large one");
	close(fd);
	fd = fd_memfd_sealed("x", CREDIT_PAGE_BYTES);
	refuse(fd, "one without marks");
	assert_int_equal(pwrite(fd, marks, sizeof(marks), 0), sizeof(marks));
	refuse(fd, "one of another version");
	close(fd);
}

static void test_ops(void **state)
{
	const struct credit_ops *ops = &credit_page_ops;
	struct process p = { 0 };
	uint64_t inode;
	int fd;

	(void)state;
	/* a process that NVML found has no page and no credit */
	ops->add(&p, 0, 10);
	ops->set_granted(&p, 0, 10);
	ops->set_wanted(&p, 0, true);
	assert_true(ops->peek(&p, 0) == 0);
	assert_true(ops->call_back(&p, 0) == 0);
	assert_int_equal(credit_page_make(&p.page, &fd, &inode), 0);
	close(fd);
	ops->add(&p, 2, 10);
	ops->add(&p, 2, 5);
	assert_true(ops->peek(&p, 2) == 15);
	assert_true(ops->peek(&p, 1) == 0);
	assert_true(ops->call_back(&p, 2) == 15);
	assert_true(ops->peek(&p, 2) == 0);
	ops->set_granted(&p, 15, 77);
	assert_true(atomic_load(&p.page->slot[15].granted_bytes) == 77);
	ops->set_wanted(&p, 15, true);
	assert_true(atomic_load(&p.page->slot[15].wanted) == 1);
	ops->set_wanted(&p, 15, false);
	assert_true(atomic_load(&p.page->slot[15].wanted) == 0);
	assert_true(ops->peek(&p, 16) == 0); /* no such slot */
	credit_page_unmap(p.page);
}

#define ROUNDS 20000

/* the shim's side: take what is there, give it back */
static void *tenant(void *arg)
{
	struct credit_slot *s = arg;
	uint64_t held = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t seen = atomic_load(&s->credit_bytes);

		while (seen && !atomic_compare_exchange_weak(&s->credit_bytes, &seen, seen - 1))
			;
		held += seen != 0;
		if (held && i % 3 == 0) {
			atomic_fetch_add(&s->credit_bytes, 1);
			held--;
		}
	}
	return (void *)(uintptr_t)held;
}

/* nothing is lost or made while both move the word */
static void test_sum_is_kept(void **state)
{
	const struct credit_ops *ops = &credit_page_ops;
	struct process p = { 0 };
	uint64_t given = 0, back = 0;
	pthread_t thread;
	void *held;
	uint64_t inode;
	int fd;

	(void)state;
	assert_int_equal(credit_page_make(&p.page, &fd, &inode), 0);
	close(fd);
	assert_int_equal(pthread_create(&thread, NULL, tenant, &p.page->slot[0]), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		ops->add(&p, 0, 3);
		given += 3;
		if (i % 4 == 0)
			back += ops->call_back(&p, 0);
	}
	assert_int_equal(pthread_join(thread, &held), 0);
	back += ops->call_back(&p, 0);
	assert_true(given == back + (uintptr_t)held);
	credit_page_unmap(p.page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_make_and_adopt),
		cmocka_unit_test(test_foreign_descriptors),
		cmocka_unit_test(test_ops),
		cmocka_unit_test(test_sum_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
