# SPDX-License-Identifier: Apache-2.0
"""A job's own cgroup: who is in it, also without a keeper, and how what is left in it ends."""
import ctypes
import os
import pathlib
import signal
import sqlite3
import time
import unittest

import cgroups
import others
from world import GIB, MIB, OK, World

NEEDS = "needs cgroups of version 2 that may be written, and no systemd above them"
CLONE_NEWNS, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x4000, 1 << 18, 2


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as f:
            return f.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


class Base(World):
    def folder(self, job_id, there=True):
        """of that job, once it is there (or gone)"""
        def find():
            found = [f for f in cgroups.folders(self.state) if cgroups.job_of(f.name) == job_id]
            return found if there else not found
        found = self.until(find, what=f"the cgroup of job {job_id}")
        return found[0] if there else None

    def members(self, job_id, *actors):
        """wait until exactly these are in it"""
        folder, want = self.folder(job_id), sorted(a.os_pid for a in actors)
        self.until(lambda: cgroups.members(folder) == want, what=f"{want} in {folder}")
        return folder

    def orphan(self, actor):
        """a process that has done nothing yet, whose parent is gone: the keeper's by adoption"""
        actor.fork_orphan()
        return self.accept()

    def kill_keeper(self, keeper):
        keeper.kill()
        os.waitpid(keeper.os_pid, 0)
        self.until(lambda: "died" in self.log_text() or "over" in self.log_text())

    def start(self, *more, before=None):
        os.environ["ALLOT_LOG"] = "debug"  # it says when a cgroup is in the store
        try:
            super().start(*more, before=before)
        finally:
            del os.environ["ALLOT_LOG"]

    def until_stored(self, job_id, times=1):
        self.until(lambda: self.log_text().count(f"job {job_id} is in the cgroup") == times)

    def until_stopped(self, sql):
        time.sleep(0.1)
        self.stop()
        rows = self.stored(sql)
        self.start()
        return rows

    def stored(self, sql):
        """only while allotd is away: it has the file for itself"""
        db = sqlite3.connect(os.path.join(self.state, "allot.db"))
        rows = db.execute(sql).fetchall()
        db.commit()
        db.close()
        return rows


@unittest.skipUnless(cgroups.is_writable(), NEEDS)
class Members(Base):
    def test_keeper_and_whoever_it_started_before(self):
        self.start()
        info = self.ask("DAEMON").body
        self.assertEqual(info["has_cgroups"], 1)
        self.assertIn(str(cgroups.mount()), info["cgroups"])
        keeper, child = self.job(GIB)
        orphan = self.orphan(child)
        self.members(keeper.job_id, keeper, child, orphan)
        late = self.child_of(child)
        self.members(keeper.job_id, keeper, child, orphan, late)
        self.assertTrue(cgroups.of(keeper.os_pid).startswith(cgroups.of("self")))
        # no controller was switched on for it, and allotd is not in it
        control = (self.folder(keeper.job_id).parent / "cgroup.subtree_control")
        self.assertEqual(control.read_text().split(), [])
        self.assertEqual(cgroups.of(self.daemon.pid), cgroups.of("self"))

    def test_a_fork_storm_at_the_start(self):
        self.start()
        keeper, child = self.job(GIB)
        actors = [self.orphan(child) for _ in range(12)]
        self.members(keeper.job_id, keeper, child, *actors)

    def test_jobs_are_apart(self):
        self.start()
        a, a_child = self.job(MIB)
        b, b_child = self.job(MIB)
        self.members(a.job_id, a, a_child)
        self.members(b.job_id, b, b_child)

    def test_a_nested_job_stays_in_the_outer_one(self):
        self.start()
        outer, child = self.job(GIB, 2 * GIB)
        inner = self.child_of(child)
        inner.be_subreaper()
        answer, body = inner.run(MIB)
        self.assertEqual((answer, body["nested"]), ("ADMITTED", 1))
        leaf = self.child_of(inner)
        self.members(outer.job_id, outer, child, inner, leaf)
        self.assertEqual(len(cgroups.folders(self.state)), 1)
        self.assertEqual(leaf.attach()[1]["job_id"], body["job_id"])
        self.assertEqual(child.attach()[1]["job_id"], outer.job_id)

    def test_gone_with_the_job(self):
        self.start()
        keeper, child = self.job(GIB)
        self.members(keeper.job_id, keeper, child)
        child.kill()
        keeper.reap()
        keeper.send("ENDED", status=0)
        keeper.kill()
        self.folder(keeper.job_id, there=False)
        self.assertEqual(self.until_stopped("SELECT * FROM scopes"), [])


@unittest.skipUnless(cgroups.is_writable(), NEEDS)
class KeeperKilled(Base):
    def test_a_process_that_nobody_knew_is_still_the_jobs(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        child.need(GIB)
        orphan = self.orphan(child)
        self.members(keeper.job_id, keeper, child, orphan)
        self.kill_keeper(keeper)
        orphan.setsid()
        self.assertEqual(orphan.attach()[1]["job_id"], keeper.job_id)
        self.assertEqual(orphan.need(GIB + MIB)[1]["result"], 1)
        grandchild = self.child_of(self.orphan(orphan))
        self.assertEqual(grandchild.attach()[1]["job_id"], keeper.job_id)
        # and what never attached is charged to it, as NVML shows it
        other = self.orphan(grandchild)
        other.cuda(self.sim)
        self.until(lambda: [i for i in self.ps() if (i["pid"], i["job_id"]) == (other.os_pid, keeper.job_id)])

    def test_without_a_gpu_process_the_rest_is_ended(self):
        self.start()
        keeper, child = self.job(GIB)
        orphan = self.orphan(child)
        self.members(keeper.job_id, keeper, child, orphan)
        keeper.kill()
        self.folder(keeper.job_id, there=False)
        self.assertTrue(gone(child.os_pid) and gone(orphan.os_pid))
        self.assert_nothing_held()

    def test_the_last_gpu_process_ends_and_the_rest_is_ended(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        helper = self.orphan(child)
        self.members(keeper.job_id, keeper, child, helper)
        self.kill_keeper(keeper)
        time.sleep(0.3)
        self.assertFalse(gone(helper.os_pid))  # it may be needed
        child.kill()
        self.folder(keeper.job_id, there=False)
        self.assertTrue(gone(helper.os_pid))

    def test_who_does_not_hear_sigterm_is_killed_after_the_grace(self):
        self.start()
        keeper, child = self.job(GIB)
        child.ignore(signal.SIGTERM)
        stopped = self.child_of(child)
        self.members(keeper.job_id, keeper, child, stopped)
        stopped.kill(signal.SIGSTOP)
        before = time.monotonic()
        keeper.kill()
        self.until(lambda: gone(child.os_pid), 6)
        self.assertGreater(time.monotonic() - before, 1.5)
        self.assertTrue(gone(stopped.os_pid))
        self.folder(keeper.job_id, there=False)

    def test_cancel_reaches_all_of_it(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        helper = self.orphan(child)
        self.members(keeper.job_id, keeper, child, helper)
        self.kill_keeper(keeper)
        self.assertEqual(self.ask("CANCEL", job_id=keeper.job_id).type, "OK")
        self.until(lambda: gone(child.os_pid) and gone(helper.os_pid))
        self.folder(keeper.job_id, there=False)
        self.assert_nothing_held()

    def test_the_inner_job_ends_with_the_outer_one(self):
        self.start()
        outer, child = self.job(GIB, 2 * GIB)
        inner = self.child_of(child)
        inner.be_subreaper()
        self.assertEqual(inner.run(MIB)[0], "ADMITTED")
        leaf = self.child_of(inner)
        self.members(outer.job_id, outer, child, inner, leaf)
        inner.kill()  # its own are the outer one's now
        outer.kill()
        self.until(lambda: gone(leaf.os_pid) and gone(child.os_pid))
        self.assert_nothing_held()


@unittest.skipUnless(cgroups.is_writable(), NEEDS)
class Cancel(Base):
    def test_a_keeper_that_does_nothing_goes_with_the_rest(self):
        config = os.path.join(self.dir, "allot.yaml")
        with open(config, "w", encoding="utf-8") as f:
            f.write("jobs:\n  kill_grace: 300ms\n")
        os.chmod(config, 0o600)
        self.start("--config", config)
        keeper, child = self.program(GIB)
        helper = self.orphan(child)
        self.members(keeper.job_id, keeper, child, helper)
        before = time.monotonic()
        self.assertEqual(self.ask("CANCEL", job_id=keeper.job_id).type, "OK")
        keeper.kill(signal.SIGSTOP)
        self.until(lambda: all(gone(a.os_pid) for a in (keeper, child, helper)), 6)
        self.assertGreater(time.monotonic() - before, 2)
        self.assert_nothing_held()
        self.folder(keeper.job_id, there=False)

    @unittest.skipUnless(os.geteuid() == 0, "needs root: another user's process in the job")
    def test_a_process_of_another_user(self):
        """sudo in a job: out of its keeper's reach, not out of the cgroup's"""
        self.mode = []
        os.chmod(self.dir, 0o755)
        self.start()
        keeper = self.actor()
        keeper.be_subreaper()
        child = self.child_of(keeper)
        keeper.become_user(12001)
        answer, body = keeper.run(GIB)
        self.assertEqual(answer, "ADMITTED", body)
        keeper.job_id = body["job_id"]
        self.members(keeper.job_id, keeper, child)
        keeper.send("ENDED", status=0)
        keeper.kill()
        self.until(lambda: gone(child.os_pid))
        self.folder(keeper.job_id, there=False)


@unittest.skipUnless(cgroups.is_writable(), NEEDS)
class Restart(Base):
    def test_remembered(self):
        """keeper and allotd die: also one that had done nothing by then is the job's"""
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        child.need(0, kind=2)
        child.cuda(self.sim)
        child.call("CONTEXT_DONE", slot=0, ok=1)
        helper = self.orphan(child)
        self.members(keeper.job_id, keeper, child, helper)
        self.until_stored(keeper.job_id)
        self.kill_daemon()
        keeper.kill()
        os.waitpid(keeper.os_pid, 0)
        self.start()
        self.until(lambda: [i["job_id"] for i in self.ps()] == [keeper.job_id])
        self.assertEqual(helper.attach()[1]["job_id"], keeper.job_id)
        child.kill()
        helper.kill()
        self.folder(keeper.job_id, there=False)

    def test_a_name_used_again_is_not_believed(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        helper = self.orphan(child)
        self.members(keeper.job_id, keeper, child, helper)
        self.until_stored(keeper.job_id)
        self.stop()
        self.stored("UPDATE scopes SET id = id + 1")
        self.stored("UPDATE jobs SET keeper_start = keeper_start - 1")
        child.kill()
        self.start()
        time.sleep(0.3)
        self.assertFalse(gone(helper.os_pid))
        self.assertEqual(helper.attach()[0], "ERROR")

    def test_what_is_left_of_before_is_ended(self):
        self.start()
        keeper, child = self.job(GIB)
        helper = self.orphan(child)
        self.members(keeper.job_id, keeper, child, helper)
        self.until_stored(keeper.job_id)
        self.kill_daemon()
        keeper.kill()
        child.kill()
        os.waitpid(keeper.os_pid, 0)
        self.start()
        self.folder(keeper.job_id, there=False)
        self.assertTrue(gone(helper.os_pid))
        self.assertEqual(self.until_stopped("SELECT * FROM scopes"), [])

    def test_killed_while_it_was_being_made(self):
        """the folder is there and nothing is stored: it is taken up, not made inside itself"""
        self.start()
        keeper, child = self.job(GIB)
        self.members(keeper.job_id, keeper, child)
        self.until_stored(keeper.job_id)
        self.stop()
        self.stored("DELETE FROM scopes")
        self.start()
        self.until_stored(keeper.job_id, 2)
        self.assertEqual(keeper.resume(keeper.job_id)[0], "OK")
        self.members(keeper.job_id, keeper, child)
        self.assertEqual(len(cgroups.folders(self.state)), 1)

    def test_the_mover_dies(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        self.members(keeper.job_id, keeper, child)
        with open(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/children", encoding="ascii") as f:
            movers = [p for p in f.read().split()
                      if pathlib.Path(f"/proc/{p}/comm").read_text().strip() == "allot-mover"]
        os.kill(int(movers[0]), signal.SIGKILL)
        self.until(lambda: not self.ask("DAEMON").body["has_cgroups"])
        second, grandchild = self.program(MIB, GIB)
        self.assertEqual(grandchild.need(MIB)[1]["result"], OK)
        self.assertEqual(child.need(MIB)[1]["result"], OK)
        self.assertEqual(len(cgroups.folders(self.state)), 1)
        # those that are there still say who is whose
        helper = self.orphan(child)
        self.kill_keeper(keeper)
        self.assertEqual(helper.attach()[1]["job_id"], keeper.job_id)


@unittest.skipUnless(cgroups.is_writable() and os.geteuid() == 0, NEEDS)
class Moved(Base):
    """somebody with the right to write there moves processes about"""

    def move(self, pid, folder):
        (folder / "cgroup.procs").write_text(str(pid))

    def test_out_of_the_job_or_into_another(self):
        self.start()
        rich, rich_child = self.job(0, 3 * GIB)
        poor, child = self.job(0, GIB)
        target = self.members(rich.job_id, rich, rich_child)
        self.members(poor.job_id, poor, child)
        for folder in (target, cgroups.here()):
            for how in (self.child_of, self.orphan):
                thief = how(child)
                self.members(poor.job_id, poor, child, thief)
                self.move(thief.os_pid, folder)
                self.assertEqual(thief.attach()[1]["job_id"], poor.job_id)
                self.assertEqual(thief.need(GIB + MIB)[1]["result"], 1)
                thief.kill()
                child.reap()
                poor.reap()

    def test_into_a_job_from_outside(self):
        """it is the job's from then on: counted and limited there"""
        self.start()
        keeper, child = self.job(0, GIB)
        folder = self.members(keeper.job_id, keeper, child)
        stranger = self.actor()
        self.assertEqual(stranger.attach()[0], "ERROR")
        self.move(stranger.os_pid, folder)
        self.assertEqual(stranger.attach()[1]["job_id"], keeper.job_id)
        self.assertEqual(stranger.need(GIB + MIB)[1]["result"], 1)

    def test_a_cgroup_of_its_own_below_the_jobs(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        helper = self.orphan(child)
        folder = self.members(keeper.job_id, keeper, child, helper)
        (folder / "mine").mkdir()
        self.move(helper.os_pid, folder / "mine")
        self.kill_keeper(keeper)
        self.assertEqual(helper.attach()[1]["job_id"], keeper.job_id)
        helper.kill()
        child.kill()
        self.folder(keeper.job_id, there=False)


@unittest.skipIf(others.WHY_NO_MOUNTS, others.WHY_NO_MOUNTS)
class Without(Base):
    def start(self, *more, before=None):
        def hide():
            libc = ctypes.CDLL(None, use_errno=True)
            assert libc.unshare(CLONE_NEWNS) == 0
            assert libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) == 0
            while (place := cgroups.mount()) is not None:
                assert libc.umount2(str(place).encode(), MNT_DETACH) == 0
        super().start(*more, before=hide)

    def test_nobody_makes_one(self):
        """and all goes on by the chain of parents and by those that are known"""
        self.start()
        info = self.ask("DAEMON").body
        self.assertEqual(info["has_cgroups"], 0)
        self.assertIn("version 2", info["cgroups"])
        keeper, child = self.program(GIB, 2 * GIB)
        helper = self.orphan(child)
        self.assertEqual(cgroups.folders(self.state), [])
        self.assertEqual(helper.attach()[1]["job_id"], keeper.job_id)
        stranger = self.orphan(child)
        self.kill_keeper(keeper)
        self.assertEqual(self.child_of(helper).attach()[1]["job_id"], keeper.job_id)
        self.assertEqual(stranger.attach()[0], "ERROR")  # as said in the documents
        self.assertEqual(self.ask("CANCEL", job_id=keeper.job_id).type, "OK")
        self.assert_nothing_held()


if __name__ == "__main__":
    import tap
    tap.main()
