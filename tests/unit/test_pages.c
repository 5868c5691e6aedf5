// SPDX-License-Identifier: Apache-2.0
/* daemon/pages: ready ahead, never the same twice, more after a crowd, none when they are short */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/credit.h"
#include "daemon/pages.h"

#define CROWD (PAGES_STOCK + 6)

static sd_event *event;
static struct pages *pages;

static int begin(void **state)
{
	(void)state;
	return sd_event_new(&event) < 0 || pages_new(event, &pages) < 0;
}

static int end(void **state)
{
	(void)state;
	pages = pages_free(pages);
	event = sd_event_unref(event);
	return 0;
}

/* until nothing is left to do */
static void get_quiet(void)
{
	int r;

	do
		r = sd_event_run(event, 0);
	while (r > 0);
	assert_int_equal(r, 0);
}

static void take(uint64_t *ret_inode)
{
	struct credit_page *page;
	struct stat st;
	int fd;

	assert_int_equal(pages_take(pages, &page, &fd, ret_inode), 0);
	assert_int_equal(fd_is_sealed_memfd(fd, CREDIT_PAGE_BYTES), 1);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_ino == *ret_inode);
	assert_int_equal(page->magic, CREDIT_PAGE_MAGIC);
	assert_true(page->process == 0 && page->job_id == 0); /* nobody's before */
	page->process = *ret_inode;
	credit_page_unmap(page);
	close(fd);
}

static void test_crowd(void **state)
{
	uint64_t inodes[CROWD];

	(void)state;
	assert_int_equal(pages_ready(pages), 0);
	get_quiet();
	assert_int_equal(pages_ready(pages), PAGES_STOCK);
	for (unsigned i = 0; i < CROWD; i++) {
		take(&inodes[i]);
		for (unsigned k = 0; k < i; k++)
			assert_true(inodes[k] != inodes[i]);
	}
	assert_int_equal(pages_ready(pages), 0);
	get_quiet();
	assert_int_equal(pages_ready(pages), CROWD); /* the next one of that size finds all */
}

static void test_drop(void **state)
{
	uint64_t inode;

	(void)state;
	get_quiet();
	pages_drop(pages);
	assert_int_equal(pages_ready(pages), 0);
	get_quiet();
	assert_int_equal(pages_ready(pages), 0); /* not before it is wanted */
	take(&inode);
	get_quiet();
	assert_true(pages_ready(pages) >= PAGES_STOCK);
}

static void test_few_descriptors(void **state)
{
	struct rlimit old, few;
	uint64_t inode;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 80;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	end(state);
	assert_int_equal(begin(state), 0);
	get_quiet();
	assert_int_equal(pages_ready(pages), 10); /* an eighth */
	for (unsigned i = 0; i < CROWD; i++)
		take(&inode);
	get_quiet();
	assert_int_equal(pages_ready(pages), 10);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_crowd, begin, end),
		cmocka_unit_test_setup_teardown(test_drop, begin, end),
		cmocka_unit_test_setup_teardown(test_few_descriptors, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
