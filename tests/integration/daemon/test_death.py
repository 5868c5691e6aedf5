# SPDX-License-Identifier: Apache-2.0
"""kill -9 of anybody at every step of the protocol: the ledger ends at what is really held"""
import os
import signal
import time

from world import GIB, MIB, OK, World


class KillProgram(World):
    """each step by its name; afterwards nothing is held and the other job was never disturbed"""

    def check(self, step):
        self.start()
        other_keeper, other = self.program(GIB, GIB)
        self.assertEqual(other.need(512 * MIB)[1]["result"], OK)
        keeper, child = self.job(GIB, 2 * GIB)
        step(keeper, child)
        child.kill()
        keeper.reap()
        before = time.monotonic()
        self.assertEqual(other.need(256 * MIB)[1]["result"], OK)
        self.assertLess(time.monotonic() - before, 1.0)
        self.until(lambda: [i["job_id"] for i in self.ps() if i["vram_used_bytes"]] ==
                   [other_keeper.job_id])
        # the whole of the other part can be had again
        fresh = self.child_of(keeper)
        fresh.attach()
        self.assertEqual(fresh.need(2 * GIB)[1]["result"], OK)
        for actor in (fresh, other, keeper, other_keeper):
            actor.kill()
        self.reap()
        self.assert_nothing_held()

    def test_connected(self):
        self.check(lambda keeper, child: child.connect())

    def test_half_a_message(self):
        self.check(lambda keeper, child: child.send_raw(b"ALOT"))

    def test_attach_sent(self):
        self.check(lambda keeper, child: child.send("ATTACH", role=1))

    def test_attached(self):
        self.check(lambda keeper, child: child.attach())

    def test_need_sent(self):
        def step(keeper, child):
            child.attach()
            child.send("NEED", slot=0, kind=1, bytes=GIB)
        self.check(step)

    def test_granted(self):
        def step(keeper, child):
            child.attach()
            child.need(GIB)
        self.check(step)

    def test_context_granted(self):
        def step(keeper, child):
            child.attach()
            child.need(0, kind=2)
        self.check(step)

    def test_context_being_settled(self):
        def step(keeper, child):
            child.attach()
            child.need(0, kind=2)
            child.cuda(self.sim)
            child.send("CONTEXT_DONE", slot=0, ok=1)
        self.check(step)

    def test_holding_memory(self):
        def step(keeper, child):
            child.attach()
            child.need(0, kind=2)
            child.cuda(self.sim)
            child.call("CONTEXT_DONE", slot=0, ok=1)
            child.need(GIB)
            self.assertEqual(child.cuda_alloc(GIB)[0], 0)
        self.check(step)

    def test_view_asked(self):
        def step(keeper, child):
            child.attach()
            child.send("VIEW", slot=0)
        self.check(step)


class KillWaiter(World):
    def test_while_it_waits_for_memory(self):
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        _, a = self.program()
        _, b = self.program()
        _, c = self.program()
        a.need(total - GIB)
        for actor, count in ((b, 2 * GIB), (c, 3 * GIB // 2)):
            actor.send("NEED", slot=0, kind=1, bytes=count)
            self.until(lambda n=1 if actor is b else 2: self.status()["waiting"] == n)
        b.kill()  # the head of the line: the next one moves up
        a.give(GIB)
        self.assertEqual(c.recv(timeout=1.0)[1]["result"], OK)

    def test_while_it_waits_for_admission(self):
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        a, _ = self.job(total)
        b, c = self.actor(), self.actor()
        self.assertEqual(b.run(GIB)[0], "WAITING")
        self.assertEqual(c.run(GIB)[0], "WAITING")
        b.kill()
        self.until(lambda: len(self.ps()) == 2)
        a.kill()
        self.until(lambda: c.recv()[0] == "ADMITTED")

    def test_stopped_process_does_not_keep_credit(self):
        self.start()
        keeper, a = self.program(0, GIB)
        b = self.child_of(keeper)
        b.attach()
        a.need(GIB // 2)
        self.assertGreater(a.credit()[0], 0)
        a.kill(signal.SIGSTOP)
        self.assertEqual(b.need(GIB // 2)[1]["result"], OK)
        a.kill(signal.SIGCONT)
        self.assertEqual(a.credit()[0], 0)


class KillKeeper(World):
    def test_waiting(self):
        self.start()
        self.job(self.status()["vram_allocatable_bytes"])
        waiter = self.actor()
        waiter.run(GIB)
        waiter.kill()
        self.until(lambda: len(self.ps()) == 1)

    def test_admitted_without_a_process(self):
        self.start()
        keeper = self.actor()
        self.assertEqual(keeper.run(GIB)[0], "ADMITTED")
        keeper.kill()
        self.assert_nothing_held()

    def test_job_lives_while_its_processes_live(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        child.need(GIB)
        keeper.kill()
        os.waitpid(keeper.os_pid, 0)
        time.sleep(0.1)
        self.assertEqual(child.need(MIB)[1]["result"], OK)
        self.assertEqual(child.need(2 * GIB)[1]["result"], 1)  # its limit holds
        grandchild = self.child_of(child)  # belongs to it by its parent
        self.assertEqual(grandchild.attach()[0], "ATTACHED")
        # cancelled without a keeper: those we know are told
        self.assertEqual(self.ask("CANCEL", job_id=keeper.job_id).body["value"], 2)
        self.assert_nothing_held()

    def test_ended_keeper_gives_the_promise_back_at_once(self):
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        keeper, _ = self.job(total)
        waiter = self.actor()
        self.assertEqual(waiter.run(GIB)[0], "WAITING")
        keeper.send("ENDED", status=0)
        self.until(lambda: waiter.recv()[0] == "ADMITTED")


class Detached(World):
    def test_closed_socket(self):
        """its connection is gone and its process is not: still charged, still shown"""
        self.start()
        _, child = self.program(GIB, 2 * GIB)
        child.need(0, kind=2)
        child.cuda(self.sim)
        cost = child.call("CONTEXT_DONE", slot=0, ok=1)[1]["cost_bytes"]
        child.need(GIB)
        child.cuda_alloc(GIB)
        child.close()
        row = self.until(lambda: [i for i in self.ps() if i["flags"] & 1])[0]
        self.assertGreaterEqual(row["vram_used_bytes"], GIB + cost)
        self.until(lambda: self.ps()[0]["vram_used_bytes"] == GIB + cost)
        # and back again
        answer, body, _ = child.attach(with_page=True)
        self.assertEqual((answer, body["fresh_page"]), ("ATTACHED", 0))
        self.until(lambda: self.ps()[0]["flags"] == 0)
        self.assertEqual(child.need(GIB)[1]["result"], 1)

    def test_exec(self):
        """the same process without a page: a fresh one, and the old charge until NVML shows less"""
        self.start()
        _, child = self.program(GIB, 2 * GIB)
        child.need(0, kind=2)
        child.cuda(self.sim)
        child.call("CONTEXT_DONE", slot=0, ok=1)
        child.need(GIB)
        child.cuda_alloc(GIB)
        pid = child.os_pid
        child.begin("become_again")
        child = self.accept()
        self.assertEqual(child.os_pid, pid)
        answer, body, n_fds = child.attach()
        self.assertEqual((answer, body["fresh_page"], n_fds), ("ATTACHED", 1, 2))
        self.until(lambda: child.need(2 * GIB)[1]["result"] == OK)
        self.assertEqual(len(self.ps()), 1)

    def test_never_attached(self):
        """a process of a job that goes past the shim is charged to its job by NVML"""
        self.start()
        keeper, child = self.job(GIB, 2 * GIB)
        child.cuda(self.sim)
        child.cuda_alloc(GIB)
        # seen by one look of the sampler, weighed by the next
        row = self.until(lambda: [i for i in self.ps() if i["flags"] & 1 and i["vram_used_bytes"] > GIB])[0]
        self.assertEqual((row["job_id"], row["pid"]), (keeper.job_id, child.os_pid))
        other = self.child_of(keeper)
        other.attach()
        self.assertEqual(other.need(GIB)[1]["result"], 1)
        child.kill()
        keeper.reap()
        self.until(lambda: other.need(GIB)[1]["result"] == OK)

    def test_attaches_late(self):
        """seen by NVML first, attached afterwards"""
        self.start()
        keeper, child = self.job(GIB, 2 * GIB)
        child.cuda(self.sim)
        self.until(lambda: [i for i in self.ps() if i["flags"] & 1])
        self.assertEqual(child.attach()[0], "ATTACHED")
        self.until(lambda: [i["flags"] for i in self.ps()] == [0])
        self.assertEqual(child.need(GIB)[1]["result"], OK)


class Unmanaged(World):
    def test_seen_within_two_seconds(self):
        self.start()
        free = self.status()["vram_grantable_bytes"]
        stranger = self.actor()
        stranger.cuda(self.sim)
        stranger.cuda_alloc(GIB)
        row = self.until(self.ps, 2.2)[0]
        self.assertEqual((row["state"], row["job_id"], row["pid"]), (4, 0, stranger.os_pid))
        self.assertGreater(row["vram_used_bytes"], GIB)
        self.assertLess(self.status()["vram_grantable_bytes"], free - GIB)
        self.assertEqual(self.actor().run(free, wait=0)[0], "ERROR")
        stranger.kill()
        os.waitpid(stranger.os_pid, 0)
        self.assert_nothing_held()


if __name__ == "__main__":
    import tap
    tap.main()
