# SPDX-License-Identifier: Apache-2.0
"""allotd is killed at every step and comes back to the same figures"""
import contextlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time

from world import GIB, MIB, OK, World

SCHEMA_1 = os.path.join(os.path.dirname(__file__), "../../unit/data/store-schema-1.sql")


class Restart(World):
    def again(self):
        self.kill_daemon()
        self.start()

    def held(self):
        return {i["pid"]: (i["job_id"], i["vram_used_bytes"]) for i in self.ps()}

    def test_figures_are_the_same(self):
        self.start()
        keeper, child = self.program(GIB, 3 * GIB)
        child.need(0, kind=2)
        child.cuda(self.sim)
        child.call("CONTEXT_DONE", slot=0, ok=1)
        for _ in range(4):
            child.need(256 * MIB)
            child.cuda_alloc(256 * MIB)
        before, s = self.held(), self.status()
        self.again()
        self.assertEqual(keeper.resume(keeper.job_id)[0], "OK")
        self.until(lambda: self.held() == before, what=f"{before}")
        self.until(lambda: self.status()["vram_held_bytes"] == s["vram_held_bytes"])
        self.assertEqual(self.status()["vram_requested_bytes"], GIB)
        # the shim comes back by itself and goes on
        answer, body, n_fds = self.reattach(child)
        self.assertEqual((answer, body["fresh_page"], n_fds), ("ATTACHED", 0, 1))
        self.assertEqual(child.need(3 * GIB)[1]["result"], 1)
        self.assertEqual(child.need(256 * MIB)[1]["result"], OK)
        used = before[child.os_pid][1] + 256 * MIB
        self.assertEqual(self.held()[child.os_pid][1], used)

    def reattach(self, child):
        child.connect()
        return child.attach(with_page=True)

    def with_context(self, *sizes):
        """a program that holds a context and really has what it asked for"""
        keeper, child = self.program(*sizes)
        child.need(0, kind=2)
        child.cuda(self.sim)
        return keeper, child, child.call("CONTEXT_DONE", slot=0, ok=1)[1]["cost_bytes"]

    def test_credit_in_flight(self):
        """what was granted and not used comes back, what was used stays"""
        self.start()
        keeper, child, cost = self.with_context(2 * GIB, 2 * GIB)
        child.need(100 * MIB)
        self.assertTrue(child.take(20 * MIB))
        self.assertGreater(child.credit()[0], 0)
        for n in (50 * MIB, 70 * MIB):
            code, pointer = child.cuda_alloc(n)
            self.assertEqual(code, 0)
        self.again()
        keeper.resume(keeper.job_id)
        self.reattach(child)
        self.assertEqual(self.held()[child.os_pid][1], cost + 120 * MIB)
        # taken and returned while allotd was away counts, too
        child.cuda_free(pointer)
        child.give(70 * MIB)
        self.until(lambda: self.held()[child.os_pid][1] == cost + 50 * MIB)

    def test_shim_before_keeper(self):
        self.start()
        keeper, child, cost = self.with_context(GIB, 2 * GIB)
        child.need(GIB)
        child.cuda_alloc(GIB)
        self.again()
        self.assertEqual(self.reattach(child)[0], "ATTACHED")
        self.assertEqual(self.held()[child.os_pid], (keeper.job_id, GIB + cost))
        self.assertEqual(keeper.resume(keeper.job_id)[0], "OK")
        self.assertEqual(self.held()[child.os_pid], (keeper.job_id, GIB + cost))
        self.assertEqual(child.need(GIB - cost)[1]["result"], OK)

    def test_page_fd_lost(self):
        """a shim whose descriptors were closed by its host attaches as if after exec"""
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        child.need(GIB)
        self.again()
        keeper.resume(keeper.job_id)
        child.connect()
        answer, body, n_fds = child.attach()
        self.assertEqual((answer, body["fresh_page"], n_fds), ("ATTACHED", 1, 2))
        self.assertEqual(len(self.held()), 1)

    def test_waiters_wait_on(self):
        """the one that waits asks again after the restart, and goes on when room comes"""
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        keeper_a, a = self.program()
        keeper_b, b = self.program()
        a.need(0, kind=2)
        a.cuda(self.sim)
        cost = a.call("CONTEXT_DONE", slot=0, ok=1)[1]["cost_bytes"]
        a.need(total - GIB - cost)
        pointers = [a.cuda_alloc(n)[1] for n in (GIB, total - 2 * GIB - cost)]
        self.assertNotIn(0, pointers)
        b.send("NEED", slot=0, kind=1, bytes=2 * GIB)
        self.again()
        keeper_a.resume(keeper_a.job_id)
        keeper_b.resume(keeper_b.job_id)
        self.reattach(b)
        b.send("NEED", slot=0, kind=1, bytes=2 * GIB)
        with self.assertRaises(TimeoutError):
            b.recv(timeout=1.5)
        # a has not come back: its doorbell is nobody's, yet its return is found
        self.assertEqual(a.cuda_free(pointers[0]), 0)
        a.give(GIB)
        self.assertEqual(b.recv(timeout=2.5)[1]["result"], OK)

    def test_admission_waits_for_keepers(self):
        """room of a job that has not come back yet is not given away"""
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        keeper, child, cost = self.with_context(0, 0)
        child.need(total - GIB - cost)
        self.assertEqual(child.cuda_alloc(total - GIB - cost)[0], 0)
        self.again()
        runner = self.actor()
        runner.send("RUN", request=2 * GIB, n_gpus=1, admit_wait_ns=2**64 - 1, name="late")
        with self.assertRaises(TimeoutError):
            runner.recv(timeout=0.2)
        keeper.resume(keeper.job_id)
        self.assertEqual(runner.recv()[0], "WAITING")

    def test_keeper_that_does_not_come_back(self):
        """it is alive and silent: after the grace life goes on, with its promise kept"""
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        self.job(total - GIB)
        self.kill_daemon()
        before = time.monotonic()
        self.start()
        runner = self.actor()
        self.assertEqual(runner.run(GIB)[0], "ADMITTED")
        self.assertLess(time.monotonic() - before, 2.0)
        self.assertEqual(self.actor().run(MIB)[0], "WAITING")

    def test_keeper_dead_meanwhile(self):
        self.start()
        keeper, child = self.program(GIB)
        self.kill_daemon()
        keeper.kill()
        child.kill()
        os.waitpid(keeper.os_pid, 0)
        self.start()
        self.assert_nothing_held()

    def orphaned(self, first, second):
        """keeper and allotd both die: what is really held stays charged to the job"""
        self.start()
        keeper, child, cost = self.with_context(0, 2 * GIB)
        child.need(GIB)
        child.cuda_alloc(GIB)
        time.sleep(1.2)  # members are written when there is time
        for kill in (first, second):
            if kill == "keeper":
                keeper.kill()
                os.waitpid(keeper.os_pid, 0)
            else:
                self.kill_daemon()
        self.start()
        self.until(lambda: self.held() == {child.os_pid: (keeper.job_id, GIB + cost)})
        self.assertEqual(self.reattach(child)[0], "ATTACHED")
        self.assertEqual(child.need(GIB)[1]["result"], 1)
        self.until(lambda: child.need(GIB - cost)[1]["result"] == OK)
        child.kill()
        self.assert_nothing_held()

    def test_keeper_and_allotd_die(self):
        self.orphaned("keeper", "allotd")

    def test_allotd_and_keeper_die(self):
        self.orphaned("allotd", "keeper")

    def test_pid_reused_by_another(self):
        """a keeper's number with another start time is not the keeper"""
        self.start()
        keeper, _ = self.job(GIB)
        self.stop()
        db = sqlite3.connect(os.path.join(self.state, "allot.db"))
        db.execute("UPDATE jobs SET keeper_start = keeper_start - 1")
        db.execute("DELETE FROM scopes")  # nor is it in the job's cgroup: else it were ended with it
        db.commit()
        db.close()
        self.start()
        self.assertEqual(keeper.resume(keeper.job_id)[0], "ERROR")
        self.assert_nothing_held()

    def test_forged_resume(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        thief = self.actor()
        self.assertEqual(thief.resume(keeper.job_id)[0], "ERROR")
        self.assertEqual(child.resume(keeper.job_id)[0], "ERROR")
        self.assertEqual(thief.resume(12345)[0], "ERROR")

    def test_forged_page(self):
        """a page of one's own is no claim in a job that began under this allotd"""
        self.start()
        _, child = self.program(0, GIB)
        child.need(MIB)
        grandchild = self.child_of(child)  # has the parent's page by fork
        answer, body, n_fds = grandchild.attach()
        self.assertEqual((answer, body["fresh_page"], n_fds), ("ATTACHED", 1, 2))
        self.assertEqual(self.held()[grandchild.os_pid][1], 0)

    def test_end_told_after_restart(self):
        self.start()
        keeper, child = self.program(GIB)
        self.kill_daemon()
        child.kill()
        keeper.reap()
        self.start()
        keeper.connect()
        keeper.send("RESUME", job_id=keeper.job_id, n_pages=0, ended=1, status=0)
        keeper.send("END")
        self.assertEqual(keeper.recv()[0], "OK")
        self.until(lambda: self.status()["vram_requested_bytes"] == 0)
        keeper.kill()
        self.assert_nothing_held()

    def test_gentle_stop_keeps_the_jobs(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        child.need(0, kind=2)
        child.cuda(self.sim)
        child.call("CONTEXT_DONE", slot=0, ok=1)
        child.need(GIB)
        child.cuda_alloc(GIB)
        before = self.held()
        self.assertEqual(self.stop(), 0)
        self.start()
        keeper.resume(keeper.job_id)
        self.until(lambda: self.held() == before)

    def test_set_survives(self):
        self.start()
        keeper, _ = self.job(GIB, 2 * GIB)
        for key, value in (("vram", "512M:1G"), ("class", "batch"), ("name", "other"),
                           ("when-full", "wait=5s")):
            self.assertEqual(self.ask("SET", job_id=keeper.job_id, key=key, value=value).type,
                             "OK")
        self.again()
        keeper.resume(keeper.job_id)
        row = self.ps()[0]
        self.assertEqual((row["vram_request_bytes"], row["vram_limit_bytes"], row["job_class"],
                          row["name"]), (512 * MIB, GIB, 2, "other"))

    def test_what_a_killed_one_left_is_waited_for(self):
        """a helper between vfork and exec still has the lock of an allotd that is dead"""
        self.start()
        self.kill_daemon()
        holder = subprocess.Popen([sys.executable, "-c", "import fcntl, sys, time; f = open(sys.argv[1]); "
                                   "fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); time.sleep(0.2)",
                                   os.path.join(self.state, "lock")], stdout=subprocess.PIPE)
        holder.stdout.readline()
        self.start()
        holder.communicate(timeout=5)
        self.assertEqual(holder.returncode, 0)

    def test_many_times(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        child.need(0, kind=2)
        child.cuda(self.sim)
        cost = child.call("CONTEXT_DONE", slot=0, ok=1)[1]["cost_bytes"]
        for i in range(5):
            child.need(100 * MIB)
            child.cuda_alloc(100 * MIB)
            self.assertEqual(self.held()[child.os_pid][1], cost + (i + 1) * 100 * MIB)
            self.again()
            keeper.resume(keeper.job_id)
            self.reattach(child)
            self.assertEqual(self.held()[child.os_pid][1], cost + (i + 1) * 100 * MIB)

    def test_ids_are_never_given_twice(self):
        self.start()
        keeper, _ = self.job(GIB)
        keeper.kill()
        self.again()
        self.assertGreater(self.job(GIB)[0].job_id, keeper.job_id)


class State(World):
    def test_damaged_file(self):
        os.mkdir(self.state, 0o700)
        with open(os.path.join(self.state, "allot.db"), "wb") as f:
            f.write(b"no database" * 1000)
        self.start()
        self.job(GIB)
        self.assertIn("damaged", self.log_text())
        self.assertTrue([n for n in os.listdir(self.state) if "damaged" in n])

    def test_file_of_a_newer_allot(self):
        self.start()
        self.stop()
        db = sqlite3.connect(os.path.join(self.state, "allot.db"))
        db.execute("PRAGMA user_version = 99")
        db.close()
        with self.assertRaises(AssertionError):
            self.start()
        self.assertEqual(self.daemon.returncode, 1)
        self.daemon = None
        self.assertIn("newer allot", self.log_text())

    def test_file_of_an_older_allot(self):
        """a restarted allotd of later days keeps the jobs of one of schema 1"""
        self.start()
        keeper, child = self.program(GIB)
        self.kill_daemon()
        path = os.path.join(self.state, "allot.db")
        new = sqlite3.connect(path)
        newest = new.execute("PRAGMA user_version").fetchone()[0]
        rows = {}
        old = sqlite3.connect(":memory:")
        with open(SCHEMA_1) as f:
            old.executescript(f.read())
        for table in ("meta", "jobs", "members", "gpus", "contexts"):
            columns = [c[1] for c in old.execute(f"PRAGMA table_info({table})")]
            rows[table] = new.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
        new.close()
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(path + suffix):
                os.unlink(path + suffix)
        with contextlib.closing(sqlite3.connect(path)) as db:
            with open(SCHEMA_1) as f:
                db.executescript(f.read())
            for table, values in rows.items():
                db.execute(f"DELETE FROM {table}")
                if values:
                    marks = ", ".join("?" * len(values[0]))
                    db.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
            db.commit()
        self.start()
        self.assertEqual(keeper.resume(keeper.job_id)[0], "OK")
        child.connect()
        self.assertEqual(child.attach(with_page=True)[0], "ATTACHED")
        self.assertEqual(child.need(MIB)[1]["result"], OK)
        self.assertEqual(os.path.exists(path + ".schema-1"), newest > 1)

    def test_full_disk(self):
        """the file cannot grow: said, nothing is lost, and it is mended by itself"""
        self.start()
        keeper, child = self.program(GIB)
        resource.prlimit(self.daemon.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        second, _ = self.job(GIB)
        self.assertIn("state file", self.ask("DAEMON").body["trouble"])
        self.assertEqual(child.need(MIB)[1]["result"], OK)
        resource.prlimit(self.daemon.pid, resource.RLIMIT_FSIZE,
                         (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.until(lambda: self.ask("DAEMON").body["trouble"] == "")
        self.kill_daemon()
        self.start()
        self.assertEqual(keeper.resume(keeper.job_id)[0], "OK")
        self.assertEqual(second.resume(second.job_id)[0], "OK")

    def test_jobs_of_another_boot(self):
        self.start()
        self.job(GIB)
        self.kill_daemon()
        db = sqlite3.connect(os.path.join(self.state, "allot.db"))
        db.execute("UPDATE meta SET value = 'another' WHERE key = 'boot'")
        db.commit()
        db.close()
        self.start()
        self.assert_nothing_held()


class Sampler(World):
    def sampler_pid(self):
        with open(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/children") as f:
            for pid in f.read().split():
                with open(f"/proc/{pid}/comm") as comm:
                    if comm.read().strip() == "allot-sampler":
                        return int(pid)
        return 0

    def test_killed(self):
        self.start()
        os.kill(self.sampler_pid(), signal.SIGKILL)
        self.until(lambda: not self.ask("DAEMON").body["nvml_ok"])
        self.until(lambda: self.ask("DAEMON").body["nvml_ok"], 4)

    def faults(self, words):
        path = os.path.join(self.sim, "nvml-faults")
        with open(path + ".new", "w") as f:
            f.write(words)
        os.rename(path + ".new", path)

    def test_restart_while_nvml_hangs(self):
        """the jobs of before are had back without NVML, and its figures when it answers"""
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        child.need(100 * MIB)
        self.faults("hang")
        self.kill_daemon()
        self.start()
        self.assertEqual(keeper.resume(keeper.job_id)[0], "OK")
        child.connect()
        self.assertEqual(child.attach(with_page=True)[0], "ATTACHED")
        self.assertEqual(child.need(100 * MIB)[1]["result"], OK)
        self.assertEqual(child.need(2 * GIB)[1]["result"], 1)
        self.assertEqual(self.ask("DAEMON").body["nvml_ok"], 0)
        self.assertEqual(self.status()["flags"] & 1, 1)
        self.assertGreaterEqual(self.held_by(child), 200 * MIB)  # the claim, and perhaps a context
        self.faults("")
        self.until(lambda: self.ask("DAEMON").body["nvml_ok"], 5)
        self.until(lambda: self.held_by(child) == 0, 5)  # this actor has nothing on the card, and NVML says so

    def held_by(self, actor):
        return sum(i["vram_used_bytes"] for i in self.ps() if i["pid"] == actor.os_pid)

    def test_lost_gpu(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        self.faults("lost")
        self.until(lambda: self.status()["flags"] & 2)
        self.assertNotEqual(child.need(MIB, flags=1)[1]["result"], OK)
        self.assertEqual(self.actor().run(MIB, wait=0)[0], "ERROR")
        self.faults("")
        self.until(lambda: not self.status()["flags"] & 2, 5)
        self.until(lambda: child.need(MIB)[1]["result"] == OK)

    def test_no_driver_at_first(self):
        """allotd starts before the driver does"""
        os.mkdir(self.sim)
        self.faults("error=nvmlInit_v2:NVML_ERROR_DRIVER_NOT_LOADED")
        self.start()
        answer, body = self.actor().run(MIB)
        self.assertEqual(answer, "ERROR")
        self.assertIn("Driver Not Loaded", body["text"])
        self.faults("")
        self.until(lambda: self.ask("DAEMON").body["n_gpus"] == 1, 5)
        self.assertEqual(self.actor().run(MIB)[0], "ADMITTED")

    def test_hangs_while_a_program_dies(self):
        """its memory counts as held until NVML can say that it is gone"""
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        child.need(GIB)
        self.faults("hang")
        child.kill()
        keeper.reap()
        time.sleep(0.5)
        self.assertEqual(self.held_by(child), GIB)
        self.faults("")
        self.until(lambda: not self.held_by(child), 8)

    def test_hangs(self):
        """NVML does not answer: allotd does, marks its figures, and recovers"""
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        hung = self.sampler_pid()
        os.kill(hung, signal.SIGSTOP)
        slowest = 0
        end = time.monotonic() + 6
        while self.ask("DAEMON").body["nvml_ok"] and time.monotonic() < end:
            before = time.monotonic()
            self.assertEqual(child.need(MIB)[1]["result"], OK)
            slowest = max(slowest, time.monotonic() - before)
            time.sleep(0.01)
        self.assertLess(slowest, 0.5)
        self.assertEqual(self.status()["flags"] & 1, 1)
        self.until(lambda: self.ask("DAEMON").body["nvml_ok"], 4)
        self.assertEqual(self.status()["flags"] & 1, 0)
        self.assertNotEqual(self.sampler_pid(), hung)


if __name__ == "__main__":
    import tap
    tap.main()
