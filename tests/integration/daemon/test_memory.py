# SPDX-License-Identifier: Apache-2.0
"""attach, need, wait, views: what a shim is told"""
import os
import subprocess
import time
import unittest

import wire
from world import CIRCLE, FULL, GIB, MIB, NO_LEASE, OK, OVER_LIMIT, World


class Sizes(unittest.TestCase):
    def test_wire_sizes(self):
        """the layouts written down in wire.py are the compiler's"""
        lines = subprocess.run([os.environ["WIRE_SIZES"]], capture_output=True, text=True,
                               check=True).stdout.split("\n")
        compiled = {n: (int(a), int(b)) for n, a, b in (x.split() for x in lines if x)}
        self.assertEqual(compiled.pop("SLOT")[1], 64)
        compiled.pop("PAGE")
        ours = {name: (number, layout.size) for name, number, layout, _ in wire.LAYOUTS}
        self.assertEqual(ours, compiled)


class Attach(World):
    def test_lease(self):
        self.start()
        keeper, child = self.job(GIB, 2 * GIB)
        answer, body, n_fds = child.attach()
        self.assertEqual((answer, n_fds), ("ATTACHED", 2))
        self.assertEqual(body["job_id"], keeper.job_id)
        self.assertEqual((body["n_gpus"], body["fresh_page"]), (1, 1))
        self.assertEqual(body["driver_dir"], self.sim)
        self.assertEqual(body["grace_ns"], 10**10)
        self.assertEqual(keeper.recv()[0], "KEEP")

    def test_stranger_is_refused(self):
        self.start()
        self.job(GIB)
        answer, body, _ = self.actor().attach()
        self.assertEqual((answer, body["code"]), ("ERROR", 6))
        self.assertIn("allot run", body["text"])

    def test_grandchild_and_orphan_belong_to_the_job(self):
        self.start()
        keeper, child = self.job(GIB)
        grandchild = self.child_of(child)
        self.assertEqual(grandchild.attach()[1]["job_id"], keeper.job_id)
        child.fork_orphan()
        orphan = self.accept()
        orphan.setsid()
        self.assertEqual(orphan.attach()[1]["job_id"], keeper.job_id)

    def test_further_connection_shares_the_page(self):
        self.start()
        _, child = self.program(GIB)
        answer, body, n_fds = child.attach("second", stream=1)
        self.assertEqual((answer, body["fresh_page"], n_fds), ("ATTACHED", 0, 0))
        self.assertEqual(child.need(MIB, "second")[1]["result"], OK)
        child.close("main")
        time.sleep(0.1)
        self.assertEqual([i["flags"] for i in self.ps()], [0])  # not detached: one is left

    def test_twice_on_one_connection(self):
        self.start()
        _, child = self.program(GIB)
        self.assertEqual(child.attach()[0], "ERROR")

    def test_need_before_attach(self):
        self.start()
        _, child = self.job(GIB)
        self.assertEqual(child.need(MIB)[1]["code"], 2)
        for name in ("CONTEXT_DONE", "VIEW", "PROCS"):
            self.assertEqual(child.call(name)[1]["code"], 2)

    def test_observer(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        child.need(100 * MIB)
        watcher = self.child_of(keeper)
        answer, body, n_fds = watcher.attach(role=2)
        self.assertEqual((answer, n_fds), ("ATTACHED", 0))
        view = watcher.call("VIEW", slot=0)[1]
        self.assertEqual(view["total_bytes"], 2 * GIB)
        self.assertEqual(view["free_bytes"], 2 * GIB - 100 * MIB)
        watcher.send("PROCS", slot=0)
        item = watcher.recv()[1]
        self.assertEqual((item["pid"], item["used_bytes"]), (child.os_pid, 100 * MIB))
        self.assertEqual(watcher.recv()[1], {"count": 1})
        self.assertEqual(watcher.need(MIB)[0], "ERROR")  # an observer holds nothing


class Need(World):
    def test_limit(self):
        self.start()
        _, child = self.program(GIB, 2 * GIB)
        body = child.need(GIB)[1]
        self.assertEqual((body["result"], body["bytes"]), (OK, GIB))
        self.assertEqual(child.credit()[0], body["credit_bytes"])
        self.assertGreater(body["credit_bytes"], 0)
        body = child.need(GIB + 1)[1]
        self.assertEqual(body["result"], OVER_LIMIT)
        self.assertEqual((body["used_bytes"], body["limit_bytes"]), (GIB, 2 * GIB))
        self.assertEqual(child.credit()[0], 0)  # called back before it was refused
        self.assertEqual(child.need(GIB)[1]["result"], OK)  # and exactly the limit fits
        self.assertEqual(child.need(1)[1]["result"], OVER_LIMIT)

    def test_two_processes_share_the_limit(self):
        self.start()
        keeper, a = self.program(GIB, 2 * GIB)
        b = self.child_of(keeper)
        b.attach()
        self.assertEqual(a.need(GIB)[1]["result"], OK)
        self.assertGreater(a.credit()[0], 0)
        self.assertEqual(b.need(GIB)[1]["result"], OK)  # takes a's unused credit back
        self.assertEqual(a.credit()[0], 0)
        self.assertEqual(b.need(1)[1]["result"], OVER_LIMIT)

    def test_other_gpu(self):
        self.start()
        _, child = self.program(GIB)
        for slot in (1, 15, 16, 2**32 - 1):
            self.assertEqual(child.need(MIB, slot=slot)[1]["result"], NO_LEASE)

    def test_absurd_sizes(self):
        self.start()
        _, child = self.program(GIB, 2 * GIB)
        for count in (2**64 - 1, 2**63, 2**62, 5 * GIB):
            self.assertEqual(child.need(count)[1]["result"], OVER_LIMIT)
        self.assertEqual(child.need(2 * GIB)[1]["result"], OK)

    def test_scribbled_credit_gives_nothing(self):
        """a tenant that writes more into its page than it was granted has nothing of it"""
        self.start()
        _, child = self.program(GIB, 2 * GIB)
        child.need(GIB)
        child.scribble(2**63)
        self.assertEqual(child.need(2 * GIB + MIB)[1]["result"], OVER_LIMIT)
        self.assertEqual(self.daemon.poll(), None)

    def test_waits_for_a_return(self):
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        _, a = self.program(0, 0)
        _, b = self.program(0, 0)
        self.assertEqual(a.need(total - 256 * MIB)[1]["result"], OK)
        b.send("NEED", slot=0, kind=1, bytes=512 * MIB)
        with self.assertRaises(TimeoutError):
            b.recv(timeout=0.3)
        waiting = [i for i in self.ps() if i["state"] == 1]  # waiting-vram
        self.assertEqual([i["waiting_bytes"] for i in waiting], [512 * MIB])
        self.assertGreater(waiting[0]["waiting_ns"], 2 * 10**8)
        self.assertTrue(waiting[0]["reason"])
        before = time.monotonic()
        self.assertTrue(a.give(512 * MIB))  # somebody wants it: it rings
        answer, body, _ = b.recv()
        self.assertLess(time.monotonic() - before, 0.1)
        self.assertEqual((answer, body["result"]), ("GRANT", OK))
        self.assertGreater(body["waited_ns"], 2 * 10**8)

    def test_waits_for_a_death(self):
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        _, a = self.program()
        _, b = self.program()
        a.need(total - 256 * MIB)
        b.send("NEED", slot=0, kind=1, bytes=512 * MIB)
        with self.assertRaises(TimeoutError):
            b.recv(timeout=0.1)
        a.kill()
        self.assertEqual(b.recv(timeout=1.0)[1]["result"], OK)

    def test_wait_is_bounded(self):
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        _, a = self.program(total, total)
        _, b = self.program(when_full=3 * 10**8)
        body = b.need(MIB)[1]
        self.assertEqual(body["result"], FULL)
        self.assertGreaterEqual(body["waited_ns"], 3 * 10**8)
        self.assertLess(body["waited_ns"], 6 * 10**8)
        self.assertEqual(a.need(total)[1]["result"], OK)  # what was promised is there

    def test_no_wait_in_a_capture_or_when_told(self):
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        self.program(total, total)
        _, b = self.program()
        self.assertEqual(b.need(MIB, flags=1)[1]["result"], FULL)
        _, c = self.program(when_full_wait=0)
        self.assertEqual(c.need(MIB)[1]["result"], FULL)

    def test_circle_is_broken(self):
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        _, a = self.program()
        _, b = self.program()
        half = total // 2 - MIB
        a.need(half)
        b.need(half)
        a.send("NEED", slot=0, kind=1, bytes=GIB)
        time.sleep(0.05)
        self.assertEqual(b.need(GIB)[1]["result"], CIRCLE)  # the younger one
        b.give(GIB)
        self.assertEqual(a.recv()[1]["result"], OK)

    def test_waiter_that_goes_away(self):
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        _, a = self.program()
        _, b = self.program()
        a.need(total - 256 * MIB)
        b.attach("second", stream=1)
        b.send("NEED", "second", slot=0, kind=1, bytes=512 * MIB)
        self.until(lambda: self.status()["waiting"] == 1)
        b.close("second")
        self.until(lambda: self.status()["waiting"] == 0)
        self.assertEqual(b.need(MIB)[1]["result"], OK)


class Context(World):
    def test_measured(self):
        """the estimate is replaced by what NVML shows"""
        self.start()
        faults = os.path.join(self.sim, "faults")
        with open(faults, "w") as f:  # else the probe may have measured it before we ask
            f.write("cuDevicePrimaryCtxRetain=2")
        _, child = self.program(GIB, 2 * GIB)
        self.until(lambda: "was not measured" in self.log_text(), 10)
        os.unlink(faults)
        body = child.need(0, kind=2)[1]
        self.assertEqual((body["result"], body["bytes"]), (OK, 512 * MIB))
        child.cuda(self.sim)
        answer, body = child.call("CONTEXT_DONE", slot=0, ok=1)
        self.assertEqual((answer, body["keep"]), ("CONTEXT_SETTLED", 1))
        self.assertGreater(body["cost_bytes"], 100 * MIB)
        self.assertNotEqual(body["cost_bytes"], 512 * MIB)
        self.assertEqual(body["used_bytes"], body["cost_bytes"])
        cost = body["cost_bytes"]
        # the next one knows, also after a restart of allotd
        _, other = self.program(GIB, 2 * GIB)
        self.assertEqual(other.need(0, kind=2)[1]["bytes"], cost)
        self.stop()
        self.start()
        _, third = self.program(0, 2 * GIB)
        self.assertEqual(third.need(0, kind=2)[1]["bytes"], cost)

    def test_failed(self):
        self.start()
        _, child = self.program(GIB, 2 * GIB)
        child.need(0, kind=2)
        body = child.call("CONTEXT_DONE", slot=0, ok=0)[1]
        self.assertEqual((body["cost_bytes"], body["used_bytes"]), (0, 0))

    def test_out_of_order(self):
        self.start()
        _, child = self.program(GIB, 2 * GIB)
        self.assertEqual(child.call("CONTEXT_DONE", slot=0, ok=1)[0], "ERROR")
        child.need(0, kind=2)
        self.assertEqual(child.need(0, kind=2)[0], "ERROR")
        self.assertEqual(child.call("CONTEXT_DONE", slot=3, ok=1)[0], "ERROR")
        self.assertEqual(child.call("CONTEXT_DONE", slot=0, ok=0)[0], "CONTEXT_SETTLED")

    def test_too_small_for_a_context(self):
        self.start()
        _, first = self.program(GIB, 2 * GIB)
        first.need(0, kind=2)
        first.cuda(self.sim)
        first.call("CONTEXT_DONE", slot=0, ok=1)
        _, child = self.program(0, 64 * MIB)
        body = child.need(0, kind=2)[1]
        self.assertEqual(body["result"], OVER_LIMIT)
        self.assertIn("context", body["text"])


class View(World):
    def test_views(self):
        self.start()
        _, child = self.program(GIB, 2 * GIB)
        body = child.call("VIEW", slot=0)[1]
        self.assertEqual((body["total_bytes"], body["free_bytes"]), (2 * GIB, 2 * GIB))
        child.need(GIB)
        self.assertEqual(child.call("VIEW", slot=0)[1]["free_bytes"], GIB)
        self.assertEqual(child.call("VIEW", slot=1)[0], "ERROR")

    def test_lowered_limit_reads_zero(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        child.need(GIB)
        self.assertEqual(self.ask("SET", job_id=keeper.job_id, key="vram",
                                  value="512M:512M").type, "OK")
        self.assertEqual(child.call("VIEW", slot=0)[1]["free_bytes"], 0)
        self.assertEqual(child.need(MIB)[1]["result"], OVER_LIMIT)

    def test_ceiling_does_not_move_and_survives(self):
        self.start()
        keeper, child = self.program()
        first = child.call("VIEW", slot=0)[1]
        _, other = self.program(GIB, GIB)
        other.need(GIB)
        self.assertEqual(child.call("VIEW", slot=0)[1], first)
        self.kill_daemon()
        self.start()
        self.assertEqual(keeper.resume(keeper.job_id)[0], "OK")
        child.connect("again")
        child.attach("again", with_page=True)
        self.assertEqual(child.call("VIEW", "again", slot=0)[1], first)


if __name__ == "__main__":
    import tap
    tap.main()
