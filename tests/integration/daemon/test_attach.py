# SPDX-License-Identifier: Apache-2.0
"""ATTACH in a crowd, and what is done for a process after its answer"""
import contextlib
import os
import signal
import time

from world import GIB, MIB, OK, World

CROWD = 90  # more than there are pages ready


class Crowd(World):
    @contextlib.contextmanager
    def stopped(self):
        """what is sent meanwhile is there at once when allotd goes on"""
        os.kill(self.daemon.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.daemon.pid, signal.SIGCONT)

    def held_pages(self, keeper, n):
        while len(keeper.held_pages()) < n:
            self.assertEqual(keeper.recv()[0], "KEEP")
        return keeper.held_pages()

    def test_a_crowd_attaches_at_once(self):
        self.start()
        keeper, first = self.job(GIB)
        crowd = [first] + [self.child_of(keeper) for _ in range(CROWD - 1)]
        with self.stopped():
            for child in crowd:
                child.begin("attach")
            time.sleep(0.1)
        for child in crowd:
            answer, body, n_fds = child.finish()
            self.assertEqual((answer, body["job_id"], n_fds), ("ATTACHED", keeper.job_id, 2))
        self.assertEqual(len(self.ps()), CROWD)
        self.assertEqual(len(self.held_pages(keeper, CROWD)), CROWD)
        # each has its own page, and is served further
        for child in crowd:
            self.assertEqual(child.need(MIB)[1]["result"], OK)
        first.scribble(0)
        self.assertGreater(crowd[1].credit()[0], 0)
        # the keeper's copies are the right ones
        self.kill_daemon()
        self.start()
        self.assertEqual(keeper.resume(keeper.job_id)[0], "OK")
        self.assertEqual({i["pid"] for i in self.ps()}, {child.os_pid for child in crowd})

    def test_dead_before_it_is_watched(self):
        """gone, or a zombie, by the time its ATTACH is read or its pidfd is looked at"""
        for reaped in (True, False):
            with self.subTest(reaped=reaped):
                self.start()
                keeper, child = self.job(GIB, GIB)
                other = self.child_of(keeper)
                with self.stopped():
                    child.send("ATTACH", role=1)
                    child.kill()
                    time.sleep(0.05)
                    if reaped:
                        keeper.reap()
                self.assertEqual(other.attach()[0], "ATTACHED")
                self.until(lambda: [i["pid"] for i in self.ps()] == [other.os_pid])
                self.assertEqual(other.need(GIB)[1]["result"], OK)
                keeper.kill()
                other.kill()
                self.reap()
                self.assert_nothing_held()
                self.stop()

    def test_keeper_away_when_the_page_is_to_be_kept(self):
        self.start()
        keeper, child = self.job(GIB)
        keeper.close()
        self.assertEqual(child.attach()[0], "ATTACHED")
        self.assertEqual(child.need(MIB)[1]["result"], OK)
        self.assertEqual(keeper.held_pages(), [])
        self.assertEqual(keeper.resume(keeper.job_id)[0], "OK")
        number = self.held_pages(keeper, 1)[0]
        self.assertEqual(number >> 42, child.os_pid)
        self.assertNotEqual(number & ((1 << 42) - 1), 0)

    def test_keeper_dies_before_it_has_the_page(self):
        self.start()
        keeper, child = self.job(GIB, GIB)
        with self.stopped():
            child.begin("attach")
            time.sleep(0.05)
        child.finish()
        keeper.kill()  # what it was to hold comes when allotd is quiet
        self.reap()
        self.assertIn(child.os_pid, [i["pid"] for i in self.ps()])
        self.assertEqual(child.need(MIB)[1]["result"], OK)
        child.kill()
        self.reap()
        self.assert_nothing_held()

    def test_everybody_rings_the_same_bell(self):
        """whoever of the job returns what a waiter needs, it goes on"""
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        keeper, a = self.program()
        b, c = self.child_of(keeper), self.child_of(keeper)
        for child in (b, c):
            self.assertEqual(child.attach()[0], "ATTACHED")
        _, waiter = self.program()
        for child in (a, b, c):
            self.assertEqual(child.need(total // 3 - 64 * MIB)[1]["result"], OK)
        for child in (c, a, b):
            waiter.send("NEED", slot=0, kind=1, bytes=512 * MIB)
            with self.assertRaises(TimeoutError):
                waiter.recv(timeout=0.1)
            self.assertTrue(child.give(512 * MIB))
            self.assertEqual(waiter.recv()[1]["result"], OK)

    def test_children_of_a_new_keeper_are_its_own(self):
        """a parent once found to belong to one job keeps a job of its own later"""
        self.start()
        keeper, parent = self.job(2 * GIB)
        first = self.child_of(parent)
        second = self.child_of(parent)
        self.assertEqual(first.attach()[1]["job_id"], keeper.job_id)
        answer, body = parent.run(GIB)
        self.assertEqual(answer, "ADMITTED", body)
        self.assertNotEqual(body["job_id"], keeper.job_id)
        self.assertEqual(second.attach()[1]["job_id"], body["job_id"])


if __name__ == "__main__":
    import tap
    tap.main()
