// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rand.h"
#include "base/size.h"
#include "fake_allotd.h"
#include "in_child.h"
#include "shim/account.h"

static struct fake fake;

static void reset(void)
{
	fake_kill(&fake);
	memset(fake.shared, 0, sizeof(*fake.shared));
	fake.shared->limit_bytes = GIB;
	fake.shared->ahead_bytes = FAKE_CREDIT_BYTES;
	fake.shared->grace_ns = 200 * NS_PER_MS;
	fake_start(&fake);
}

/* what the process holds by the daemon's books */
static uint64_t held(void)
{
	return atomic_load(&fake.shared->granted_bytes) -
	       atomic_load(&attach_page()->slot[0].credit_bytes);
}

static struct charge take(uint64_t bytes)
{
	struct charge c;

	CHILD_CHECK(account_take(0, bytes, 0, &c, NULL));
	return c;
}

static bool wait_for(_Atomic uint32_t *counter, uint32_t value)
{
	for (unsigned i = 0; i < 400; i++) {
		if (atomic_load(counter) >= value)
			return true;
		usleep(1000);
	}
	return false;
}

/* stderr into a file while @body runs; what it wrote, NUL-terminated */
static char said[8192];

static void listen_to(void (*body)(void))
{
	int file = memfd_create("stderr", 0), old = dup(2);
	ssize_t n;

	dup2(file, 2);
	body();
	dup2(old, 2);
	close(old);
	n = pread(file, said, sizeof(said) - 1, 0);
	said[n > 0 ? n : 0] = '\0';
	close(file);
}

static unsigned lines(void)
{
	unsigned n = 0;

	for (const char *p = said; *p; p++)
		n += *p == '\n';
	return n;
}

/* ---- */

static void credit_body(void)
{
	struct charge a = take(8 * MIB), b;

	CHILD_CHECK(atomic_load(&fake.shared->needs) == 1);
	CHILD_CHECK(held() == 8 * MIB);
	b = take(64 * MIB);
	CHILD_CHECK(atomic_load(&fake.shared->needs) ==
		    1); /* within the credit: nobody was asked */
	CHILD_CHECK(held() == 72 * MIB);
	account_give(a);
	account_give(b);
	CHILD_CHECK(held() == 0);
	a = take(72 * MIB); /* what came back is credit again */
	CHILD_CHECK(atomic_load(&fake.shared->needs) == 1);
	CHILD_CHECK(a.bytes == 72 * MIB && a.slot == 0);
}

static void nothing_body(void)
{
	struct charge c;

	CHILD_CHECK(account_take(0, 0, 0, &c, NULL) && c.slot == ACCOUNT_NOWHERE);
	CHILD_CHECK(account_take(ACCOUNT_NOWHERE, GIB, 0, &c, NULL) && c.bytes == 0);
	CHILD_CHECK(account_take(WIRE_MAX_GPUS, GIB, 0, &c, NULL) && c.bytes == 0);
	account_give(c);
	CHILD_CHECK(atomic_load(&fake.shared->attaches) == 0); /* and nobody was asked */
}

static void try_too_much(void)
{
	struct charge c = { .slot = 5, .bytes = 5 };

	CHILD_CHECK(!account_take(0, 2 * GIB, 0, &c, NULL));
	CHILD_CHECK(c.slot == 5 && c.bytes == 5); /* untouched */
}

/* field row D18, and the one line */
static void refusal_body(void)
{
	struct charge c = take(512 * MIB);

	listen_to(try_too_much);
	CHILD_CHECK(strcmp(said,
			   "allot: job 7 (train): out of memory: asked 2.0 GiB, used 512.0 MiB "
			   "of 1.0 GiB limit on GPU 0\n") == 0);
	CHILD_CHECK(held() == 512 * MIB);
	account_give(c);
	c = take(GIB); /* all of it, also what was credit in the meantime */
	CHILD_CHECK(held() == GIB);
}

static void try_quietly(void)
{
	struct refusal r;
	struct charge c;

	CHILD_CHECK(!account_take(0, 2 * GIB, ACCOUNT_QUIET, &c, &r));
	CHILD_CHECK(r.grant.result == WIRE_GRANT_OVER_LIMIT && r.asked_bytes == 2 * GIB);
	account_explain(&r);
}

static void quiet_body(void)
{
	listen_to(try_quietly);
	CHILD_CHECK(lines() == 1);
}

static void bell_body(void)
{
	struct charge c = take(8 * MIB);

	account_give(c);
	usleep(5000);
	CHILD_CHECK(atomic_load(&fake.shared->rings) == 0); /* nobody wants it */
	c = take(8 * MIB);
	atomic_store(&fake.shared->want, 1);
	CHILD_CHECK(wait_for(&fake.shared->call_backs, 1));
	account_give(c);
	CHILD_CHECK(wait_for(&fake.shared->rings, 1));
}

/* allotd is killed and started again: the page goes to the new one, and the books agree */
static void restart_body(void)
{
	struct charge c = take(8 * MIB);
	struct credit_page *page = attach_page();

	fake_kill(&fake);
	c.bytes += take(1 * MIB).bytes; /* the credit does without */
	fake_start(&fake);
	CHILD_CHECK(take(256 * MIB).bytes == 256 * MIB);
	CHILD_CHECK(attach_page() == page);
	CHILD_CHECK(atomic_load(&fake.shared->with_page) == 1);
	CHILD_CHECK(atomic_load(&fake.shared->fresh_pages) == 1);
	CHILD_CHECK(held() == 265 * MIB);
	atomic_store(&fake.shared->want, 1);
	CHILD_CHECK(wait_for(&fake.shared->call_backs, 1));
	account_give(c);
	CHILD_CHECK(wait_for(&fake.shared->rings, 1)); /* the new one's bell */
}

/* a turn beyond the limit: told when it ends, and by the connection's end when allotd dies */
static void turn_body(void)
{
	struct charge c = take(8 * MIB);
	struct account_turn turn;

	CHILD_CHECK(account_turn_open(0, 32 * MIB, 0, &turn) && turn.conn);
	CHILD_CHECK(held() == 8 * MIB); /* nothing is taken for it */
	account_turn_close(&turn, 0);
	CHILD_CHECK(wait_for(&fake.shared->turns_done, 1));
	account_turn_close(&turn, 0); /* twice is once */
	CHILD_CHECK(account_turn_open(0, 32 * MIB, ACCOUNT_NO_WAIT, &turn));
	account_turn_close(&turn, 5 * MIB);
	CHILD_CHECK(wait_for(&fake.shared->turns_done, 2));
	CHILD_CHECK(atomic_load(&fake.shared->kept_bytes) == 5 * MIB);
	atomic_store(&fake.shared->no_turn, 1);
	CHILD_CHECK(!account_turn_open(0, 32 * MIB, 0, &turn) && !turn.conn);
	atomic_store(&fake.shared->no_turn, 0);
	CHILD_CHECK(account_turn_open(0, 32 * MIB, 0, &turn));
	fake_kill(&fake);
	account_turn_close(&turn, 0);
	fake_start(&fake);
	CHILD_CHECK(account_turn_open(0, 32 * MIB, 0, &turn));
	account_turn_close(&turn, 0);
	CHILD_CHECK(wait_for(&fake.shared->turns_done, 3));
	account_give(c);
}

static void *start_again(void *arg)
{
	CHILD_CHECK(wait_for(&fake.shared->died, 1));
	fake_kill(&fake);
	fake_start(&fake);
	pause(); /* the server ends with the thread that started it */
	return arg;
}

/* allotd dies between granting and answering: what nobody got is not held */
static void lost_grant_body(void)
{
	pthread_t t;

	(void)take(8 * MIB);
	atomic_store(&fake.shared->die_granting, 1);
	pthread_create(&t, NULL, start_again, NULL);
	CHILD_CHECK(take(256 * MIB).bytes == 256 * MIB);
	CHILD_CHECK(held() == 264 * MIB);
	CHILD_CHECK(atomic_load(&attach_shared()->held_bytes[0]) == 264 * MIB);
}

/* the host closes every descriptor it does not know */
static void closefrom_body(void)
{
	struct charge c = take(8 * MIB);
	int other;

	for (int fd = 3; fd < 256; fd++)
		close(fd);
	other = open("/dev/null", O_WRONLY | O_CLOEXEC); /* and uses our numbers */
	CHILD_CHECK(other >= 0 && other < 16);
	CHILD_CHECK(take(128 * MIB).bytes == 128 * MIB);
	CHILD_CHECK(held() == 136 * MIB);
	CHILD_CHECK(fcntl(other, F_GETFD) >= 0); /* the host's own file was not closed by us */
	CHILD_CHECK(atomic_load(&fake.shared->fresh_pages) == 1); /* the same process as before */
	atomic_store(&fake.shared->want, 1);
	CHILD_CHECK(wait_for(&fake.shared->call_backs, 1));
	account_give(c);
	CHILD_CHECK(wait_for(&fake.shared->settles, 1) || wait_for(&fake.shared->rings, 1));
}

static void grandchild(void)
{
	CHILD_CHECK(attach_page() == NULL && attach_lease() == NULL);
	account_give((struct charge){ .slot = 0, .bytes = GIB }); /* the parent's: not ours */
	CHILD_CHECK(take(4 * MIB).bytes == 4 * MIB);
	CHILD_CHECK(attach_page() != NULL);
}

/* field row E6: also a raw clone, which runs no atfork handlers */
static void fork_body(void)
{
	struct charge c = take(8 * MIB);
	uint64_t credit = atomic_load(&attach_page()->slot[0].credit_bytes);
	int status;
	pid_t pid;

	CHILD_CHECK(run_in_child(grandchild) == 0);
	CHILD_CHECK(atomic_load(&fake.shared->fresh_pages) == 2);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0) {
		if (attach_page() || attach_lease())
			_exit(1);
		_exit(0);
	}
	CHILD_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHILD_CHECK(atomic_load(&attach_page()->slot[0].credit_bytes) == credit);
	account_give(c);
	CHILD_CHECK(atomic_load(&attach_page()->slot[0].credit_bytes) == credit + 8 * MIB);
	CHILD_CHECK(take(512 * MIB).bytes == 512 * MIB); /* the connection is still ours */
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* field row E5 */
static void eintr_body(void)
{
	struct itimerval every = { { 0, 2000 }, { 0, 2000 } };
	struct sigaction sa = { .sa_handler = on_alarm }; /* no SA_RESTART */

	sigaction(SIGALRM, &sa, NULL);
	atomic_store(&fake.shared->delay_ns, 60 * NS_PER_MS);
	setitimer(ITIMER_REAL, &every, NULL);
	errno = 77;
	CHILD_CHECK(take(8 * MIB).bytes == 8 * MIB);
	CHILD_CHECK(errno == 77);
	CHILD_CHECK(take(512 * MIB).bytes == 512 * MIB);
	CHILD_CHECK(atomic_load(&fake.shared->needs) == 2);
}

static uint64_t try_away_ns;
static uint64_t at_once_ns = 100 * NS_PER_MS;

static void try_away(void)
{
	uint64_t start = clock_now_ns();
	struct charge c;

	CHILD_CHECK(!account_take(0, 512 * MIB, 0, &c, NULL));
	try_away_ns = clock_now_ns() - start;
	start = clock_now_ns();
	CHILD_CHECK(!account_take(0, 512 * MIB, 0, &c, NULL));
	CHILD_CHECK(clock_now_ns() - start < at_once_ns); /* the grace is over */
}

static void closed_body(void)
{
	struct charge c = take(8 * MIB);

	fake_kill(&fake);
	listen_to(try_away);
	CHILD_CHECK(try_away_ns >= 200 * NS_PER_MS && try_away_ns < 800 * NS_PER_MS);
	CHILD_CHECK(lines() == 1 && strstr(said, "fail-policy closed"));
	account_give(c); /* that never needs anybody */
	fake_start(&fake);
	CHILD_CHECK(take(512 * MIB).bytes == 512 * MIB);
}

/* stopped, or it hangs: it accepts what is sent, and says nothing */
static void hung_body(void)
{
	struct charge c = take(8 * MIB);

	attach_answer_ns = 50 * NS_PER_MS;
	at_once_ns = 500 * NS_PER_MS; /* it is asked, for that long */
	(void)kill(fake.pid, SIGSTOP);
	listen_to(try_away);
	CHILD_CHECK(try_away_ns >= 200 * NS_PER_MS && try_away_ns < 3 * NS_PER_S);
	CHILD_CHECK(lines() == 1 && strstr(said, "fail-policy closed"));
	account_give(c);
	fake_kill(&fake);
	fake_start(&fake);
	CHILD_CHECK(take(512 * MIB).bytes == 512 * MIB);
}

static void capture_away(void)
{
	struct charge c;
	uint64_t start = clock_now_ns();

	CHILD_CHECK(!account_take(0, 512 * MIB, ACCOUNT_NO_WAIT, &c, NULL));
	CHILD_CHECK(clock_now_ns() - start < 100 * NS_PER_MS);
}

static void no_wait_body(void)
{
	(void)take(8 * MIB);
	fake_kill(&fake);
	listen_to(capture_away);
}

static void try_open(void)
{
	struct charge c;

	for (unsigned i = 0; i < 3; i++)
		CHILD_CHECK(account_take(0, 512 * MIB, 0, &c, NULL) && c.slot == ACCOUNT_NOWHERE);
}

static void open_body(void)
{
	atomic_store(&fake.shared->fail_open, 1);
	(void)take(8 * MIB);
	fake_kill(&fake);
	listen_to(try_open);
	CHILD_CHECK(lines() == 1 && strstr(said, "fail-policy open"));
}

static void context_refused(void)
{
	struct account_context ctx;

	CHILD_CHECK(account_context_open(0, 0, &ctx));
	CHILD_CHECK(!account_context_close(&ctx, true));
}

static void context_body(void)
{
	struct account_context ctx;

	CHILD_CHECK(account_context_open(0, 0, &ctx) && account_context_close(&ctx, true));
	CHILD_CHECK(account_context_open(0, 0, &ctx) && account_context_close(&ctx, false));
	CHILD_CHECK(atomic_load(&fake.shared->contexts) == 2);
	CHILD_CHECK(atomic_load(&fake.shared->contexts_ok) == 1);
	atomic_store(&fake.shared->undo_context, 1);
	listen_to(context_refused);
	CHILD_CHECK(lines() == 1 && strstr(said, "context"));
}

/* field row A14: a second process sees what the first holds */
static void view_body(void)
{
	struct wire_viewed v;

	(void)take(256 * MIB);
	CHILD_CHECK(account_view(0, &v) && v.total_bytes == GIB);
	CHILD_CHECK(v.free_bytes <= 768 * MIB);
	fake_kill(&fake);
	listen_to(capture_away);
	CHILD_CHECK(!account_view(0, &v) && v.total_bytes == GIB && v.free_bytes == 0);
}

/* ---- many threads, and a daemon that calls credit back all the time (field row A3) ---- */

#define THREADS 4
#define ROUNDS  3000

static void *take_and_give(void *arg)
{
	struct rand_state r = { .s = (uintptr_t)arg };
	struct charge mine[8] = { 0 };

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct charge *c = &mine[rand_below(&r, 8)];

		if (c->bytes) {
			account_give(*c);
			c->bytes = 0;
		} else if (!account_take(0, 1 + rand_below(&r, 16 * MIB), ACCOUNT_QUIET, c,
					 &(struct refusal){ 0 })) {
			c->bytes = 0;
		}
		if (i % 64 == 0)
			atomic_store(&fake.shared->want, 1);
	}
	for (unsigned i = 0; i < 8; i++)
		if (mine[i].bytes)
			account_give(mine[i]);
	return NULL;
}

static void stress_body(void)
{
	pthread_t t[THREADS];

	atomic_store(&fake.shared->limit_bytes, 200 * MIB);
	(void)take(MIB);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, take_and_give, (void *)(i + 1));
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	usleep(5000);
	CHILD_CHECK(held() == MIB); /* every byte came back, none came twice */
	CHILD_CHECK(atomic_load(&fake.shared->called_back_bytes) > 0);
}

/* somebody waits: whatever the order of calling back and giving, it is called back or it rings */
static void wakeup_body(void)
{
	for (unsigned i = 0; i < 300; i++) {
		struct charge c = take(MIB);
		uint32_t rings = atomic_load(&fake.shared->rings);
		uint64_t back = atomic_load(&fake.shared->called_back_bytes);
		uint32_t set = atomic_load(&fake.shared->call_backs);

		atomic_store(&attach_page()->slot[0].wanted, 0);
		atomic_store(&fake.shared->want, 1);
		for (unsigned spin = 0; spin < i * 7; spin++)
			__asm__ volatile("");
		account_give(c);
		CHILD_CHECK(wait_for(&fake.shared->call_backs, set + 1));
		if (atomic_load(&attach_page()->slot[0].credit_bytes) != 0)
			CHILD_CHECK(wait_for(&fake.shared->rings, rings + 1));
		else
			CHILD_CHECK(atomic_load(&fake.shared->called_back_bytes) >= back + MIB);
	}
}

/* ---- each in a process of its own: that of the shim's state ---- */

static void in_child(void **state)
{
	void (*body)(void) = *state;

	reset();
	assert_int_equal(run_in_child(body), 0);
}

#define IN_CHILD(what, body)                                                          \
	{                                                                             \
		.name = what, .test_func = in_child, .initial_state = (void *)(body), \
	}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		IN_CHILD("within the credit nobody is asked", credit_body),
		IN_CHILD("a charge of nothing", nothing_body),
		IN_CHILD("over the limit: refused at once, one line", refusal_body),
		IN_CHILD("a quiet refusal is explained by the caller", quiet_body),
		IN_CHILD("a return rings when somebody wants it", bell_body),
		IN_CHILD("allotd is killed and comes back", restart_body),
		IN_CHILD("allotd dies with a grant", lost_grant_body),
		IN_CHILD("the host closes all descriptors", closefrom_body),
		IN_CHILD("fork and clone start afresh", fork_body),
		IN_CHILD("signals do not disturb", eintr_body),
		IN_CHILD("allotd stays away: closed", closed_body),
		IN_CHILD("allotd does not answer: closed", hung_body),
		IN_CHILD("allotd stays away: no waiting in a capture", no_wait_body),
		IN_CHILD("allotd stays away: open", open_body),
		IN_CHILD("contexts are reserved, settled, undone", context_body),
		IN_CHILD("a turn beyond the limit", turn_body),
		IN_CHILD("views", view_body),
		IN_CHILD("no wake-up is lost", wakeup_body),
		IN_CHILD("threads and call-backs: the sum is conserved", stress_body),
	};
	int failed;

	(void)argc;
	/* the shim reads the environment that its process was started with */
	if (!getenv("ALLOT_SOCKET")) {
		fake_place(&fake);
		setenv("ALLOT_SOCKET", fake.socket, 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	fake_adopt(&fake, getenv("ALLOT_SOCKET"));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	fake_remove(&fake);
	return failed;
}
