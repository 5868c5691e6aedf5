# SPDX-License-Identifier: Apache-2.0
"""what each option of allot.yaml does, reload, and files with mistakes"""
import grp
import os
import signal
import socket
import stat
import subprocess
import time
import unittest

import wire
from world import ALLOTD, FULL, GIB, MIB, OK, World

USUAL_VRAM, USUAL_CLASS, USUAL_WHEN_FULL, USUAL_FAIL, USUAL_WAIT = (1 << n for n in range(8, 13))
USUAL = USUAL_VRAM | USUAL_CLASS | USUAL_WHEN_FULL | USUAL_FAIL | USUAL_WAIT


class Config(World):
    def say(self, text):
        with open(self.config + ".new", "w") as f:
            f.write(text)
        os.rename(self.config + ".new", self.config)

    def begin(self, text, *more):
        self.say(text)
        self.start(*more)

    def reload(self):
        """what was changed, or (None, mistakes)"""
        conn = wire.Conn(self.socket)
        try:
            conn.send("RELOAD")
            texts = []
            while True:
                m = conn.recv()
                if m.type == "END":
                    self.assertEqual(m.body["count"], len(texts))
                    return texts
                if m.type == "ERROR":
                    return None, texts, m.body
                texts.append(m.body["text"])
        finally:
            conn.close()

    def shown(self):
        conn = wire.Conn(self.socket)
        try:
            return {i["key"]: i for i in conn.list("CONFIG", "CONFIG_ITEM")}
        finally:
            conn.close()

    def refused(self, text, *more, config=None):
        """allotd does not start; what it says"""
        if text is not None:
            self.say(text)
        r = subprocess.run([ALLOTD, "--foreground", *self.mode, "--config", config or self.config, "--socket",
                            self.socket, "--state", self.state, "--sim=small4g", *more],
                           capture_output=True, text=True, timeout=20)
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertFalse(os.path.exists(self.state), "it had begun")
        return r.stderr


class Start(Config):
    def test_all_mistakes(self):
        said = self.refused("jobs:\n  vramm: 8G\n  class: fast\ngpu_defaults:\n  reserve: -1\nnonsense: 1\n")
        for place, words in (("2:3", "did you mean 'vram'?"), ("3:10", "'fast'"), ("5:12", "'-1'"),
                             ("6:1", "unknown section")):
            self.assertRegex(said, f"(?m){self.config}:{place}: .*{words.replace('?', '[?]')}")

    def test_unreadable(self):
        self.assertIn("No such file", self.refused(None, config=self.dir + "/other.yaml"))
        self.assertIn("no regular file", self.refused(None, config=self.dir))
        self.say("jobs:\n")
        os.chmod(self.config, 0o666)
        self.assertIn("everybody may write", self.refused(None))

    def test_may_be_missing(self):
        self.start()  # --config=-FILE
        self.assertEqual(self.shown()["jobs.class"]["source"], 0)

    def test_in_the_background(self):
        """whoever starts it hears the mistakes, and nothing is left running"""
        self.say("jobs:\n  class: fast\n")
        r = subprocess.run([ALLOTD, *self.mode, "--config", self.config, "--socket", self.socket,
                            "--state", self.state, "--sim=small4g"], capture_output=True, text=True, timeout=20)
        self.assertEqual(r.returncode, 2)
        self.assertIn(":2:10: 'jobs.class'", r.stderr)

    def test_relative_path(self):
        """the words that a keeper would start it by again name a whole path"""
        self.say("jobs:\n  kill_grace: 3s\n")
        old = os.getcwd()
        os.chdir(self.dir)
        try:
            self.start("--config", "allot.yaml")
        finally:
            os.chdir(old)
        with open(f"/proc/{self.daemon.pid}/cmdline") as f:
            self.assertIn(f"--config={self.config}", f.read().split("\0"))
        self.assertEqual(self.shown()["jobs.kill_grace"]["value"], "3s")

    def test_paths(self):
        """socket and state from the file; a flag goes before it"""
        place, flag = os.path.join(self.dir, "elsewhere"), self.socket
        self.say(f"daemon:\n  state: {place}\n  socket: /nowhere/s\n")
        self.state = place + "-flag"
        self.start()
        shown = self.shown()
        self.assertEqual((shown["daemon.socket"]["value"], shown["daemon.socket"]["source"]), (flag, 2))
        self.assertEqual(shown["daemon.state"]["value"], self.state)
        self.stop()
        ready, theirs = os.pipe()
        self.say(f"daemon:\n  state: {place}\n  socket: {place}.sock\n")
        self.daemon = subprocess.Popen([ALLOTD, "--foreground", *self.mode, "--config", self.config, "--sim=small4g",
                                        "--ready-fd", str(theirs)], pass_fds=[theirs], stderr=self.log)
        os.close(theirs)
        self.assertTrue(os.read(ready, 1), self.log_text())
        os.close(ready)
        self.socket = place + ".sock"
        info = self.ask("DAEMON").body
        self.assertEqual((info["socket"], info["state_dir"]), (self.socket, place))
        self.assertEqual(self.shown()["daemon.state"]["line"], 2)

    def test_driver(self):
        self.say("daemon:\n  driver: /nonexistent\n")
        self.start()  # --sim goes before it
        self.stop()
        self.state += "-real"
        r = subprocess.run([ALLOTD, "--foreground", *self.mode, "--config", self.config, "--socket", self.socket,
                            "--state", self.state], capture_output=True, text=True, timeout=20)
        self.assertEqual(r.returncode, 1)
        self.assertIn("driver folder '/nonexistent'", r.stderr)


class Jobs(Config):
    def test_what_a_job_gets(self):
        self.begin("jobs:\n  vram: 1G:2G\n  class: batch\n  fail_policy: open\n  kill_grace: 3s\n"
                   "  away_grace: 7s\n")
        keeper, child = self.job(flags=USUAL)
        row = self.ps()[0]
        self.assertEqual((row["vram_request_bytes"], row["vram_limit_bytes"], row["job_class"]),
                         (GIB, 2 * GIB, 2))
        attached = child.attach()[1]
        self.assertEqual((attached["fail_policy"], attached["grace_ns"]), (1, 7 * 10**9))
        keeper.recv()
        # what was said goes before it
        keeper, child = self.job(GIB // 2, GIB // 2)
        row = [r for r in self.ps() if r["job_id"] == keeper.job_id][0]
        self.assertEqual((row["vram_request_bytes"], row["job_class"]), (GIB // 2, 1))
        self.assertEqual(child.attach()[1]["fail_policy"], 0)
        keeper.recv()
        # and a run inside a job lives in that job's part
        inner = self.child_of(child)
        answer, body = inner.run(flags=USUAL)
        self.assertEqual((answer, body["nested"], body["request_bytes"]), ("ADMITTED", 1, 0))

    def test_more_than_any_card(self):
        """who did not ask for it hears who did"""
        self.begin("jobs:\n  vram: 9T\n")
        body = self.actor().run(flags=USUAL)[1]
        self.assertEqual(body["code"], 5)
        self.assertIn("jobs.vram", body["text"])
        self.assertNotIn("jobs.vram", self.actor().run(9 << 40, 9 << 40)[1]["text"])

    def test_part_of_the_card(self):
        self.begin("jobs:\n  vram: 25%\n")
        answer, body = self.actor().run(flags=USUAL)
        self.assertEqual(answer, "ADMITTED")
        self.assertAlmostEqual(body["limit_bytes"], GIB, delta=64 * MIB)

    def test_kill_grace(self):
        self.begin("jobs:\n  kill_grace: 3s\n")
        keeper, _ = self.job(GIB)
        self.say("jobs:\n  kill_grace: 4s\n")
        self.reload()
        self.ask("CANCEL", job_id=keeper.job_id)
        name, body, _ = keeper.recv()
        self.assertEqual((name, body["grace_ns"]), ("SIGNAL", 4 * 10**9))
        self.assertEqual(self.actor().run()[1]["kill_grace_ns"], 4 * 10**9)

    def test_when_full(self):
        self.begin("jobs:\n  when_full: fail\n")
        allocatable = self.status()["vram_allocatable_bytes"]
        self.program(allocatable - 256 * MIB)
        _, b = self.program(flags=USUAL)
        start = time.monotonic()
        self.assertEqual(b.need(512 * MIB)[1]["result"], FULL)
        self.assertLess(time.monotonic() - start, 2)

    def test_wait_timeout(self):
        self.begin("jobs:\n  wait_timeout: 300ms\n")
        self.job(self.status()["vram_allocatable_bytes"])
        late = self.actor()
        self.assertEqual(late.run(GIB, GIB, wait=0, flags=USUAL_WAIT)[0], "WAITING")
        name, body, _ = late.recv()
        self.assertEqual((name, body["code"]), ("ERROR", 75))
        # the time that it waited for an allotd before this one counts
        late = self.actor()
        self.assertEqual(late.run(GIB, GIB, wait=10**9, flags=USUAL_WAIT)[1]["code"], 75)


class Gpus(Config):
    profile = "four"

    def test_reserve(self):
        self.begin("gpu_defaults:\n  reserve: 1G\n")
        before = [self.status(i)["vram_allocatable_bytes"] for i in range(4)]
        uuid = self.status(2)["gpu"].hex()
        self.say(f"gpu_defaults:\n  reserve: 1G\ngpus:\n  - id: 1\n    reserve: 0\n  - id: GPU-{uuid}\n    reserve: 50%\n"
                 f"  - id: {self.status(3)['pci_bus_id']}\n    reserve: 2G\n  - id: 9\n    reserve: 0\n")
        self.assertEqual(self.reload(), ["gpus: 0 entries → 4 entries"])
        after = [self.status(i)["vram_allocatable_bytes"] for i in range(4)]
        total = self.status(2)["vram_total_bytes"]
        self.assertEqual(after[0], before[0])
        self.assertEqual(after[1], before[1] + GIB)
        self.assertAlmostEqual(after[2], before[2] + GIB - total // 2, delta=MIB)
        self.assertEqual(after[3], before[3] - GIB)
        self.assertIn("no GPU '9'", self.log_text())
        shown = self.shown()
        self.assertEqual(shown["gpus[1].reserve"]["value"], "0")
        self.assertEqual(shown["gpus[1].reserve"]["line"], 5)
        # a job that waits for it is let in when the reserve shrinks
        for i in range(4):
            self.job(after[i], gpu=str(i))
        waiter = self.actor()
        self.assertEqual(waiter.run(GIB, GIB)[0], "WAITING")
        self.say("gpus:\n")
        self.reload()
        self.assertEqual(self.next_but_waiting(waiter)[0], "ADMITTED")

    def next_but_waiting(self, actor):
        while True:
            m = actor.recv()
            if m[0] != "WAITING":
                return m

    def test_model(self):
        self.say("gpus:\n  - model: \"*\"\n    reserve: 1G\n")
        self.start()
        with_reserve = self.status(3)["vram_allocatable_bytes"]
        self.say("")
        self.reload()
        self.assertEqual(self.status(3)["vram_allocatable_bytes"], with_reserve + GIB)


class Limits(Config):
    def test_max_jobs(self):
        self.begin("limits:\n  max_jobs: 2\n")
        first = self.job()[0]
        self.job()
        answer, body = self.actor().run()
        self.assertEqual((answer, body["code"]), ("ERROR", 1))
        self.assertIn("limits.max_jobs", body["text"])
        self.say("limits:\n  max_jobs: 3\n")
        self.assertEqual(self.reload(), ["limits.max_jobs: 2 → 3"])
        self.job()
        first.kill()  # and its place is free again
        self.until(lambda: self.ask("DAEMON").body["n_jobs"] == 2)
        self.job()

    def test_max_connections(self):
        self.begin("limits:\n  max_connections: 16\n")
        self.assertIn("too many connections", self.actor().crowd(40))


    def test_ended_jobs(self):
        self.begin("limits:\n  ended_jobs: 2\n")
        ids = []
        for _ in range(3):
            keeper, child = self.job()
            ids.append(keeper.job_id)
            child.kill()
            keeper.kill()
            self.until(lambda: self.ask("DAEMON").body["n_jobs"] == 0)

        def known():
            return [i for i in ids if self.ask("SHOW", job_id=i).type != "ERROR"]
        self.assertEqual(known(), ids[1:])
        self.say("limits:\n  ended_jobs: 0\n")
        self.reload()
        self.assertEqual(known(), [])

    def test_ended_jobs_time(self):
        self.begin("limits:\n  ended_jobs_time: 1s\n")
        keeper, child = self.job()
        child.kill()
        keeper.kill()
        self.until(lambda: self.ask("DAEMON").body["n_jobs"] == 0)
        self.assertNotEqual(self.ask("SHOW", job_id=keeper.job_id).type, "ERROR")
        time.sleep(2.1)
        self.reload()
        self.assertEqual(self.ask("SHOW", job_id=keeper.job_id).type, "ERROR")


class Daemon(Config):
    def test_sample_interval(self):
        self.begin("daemon:\n  sample_interval: 10s\n")
        self.until(lambda: self.status()["sample_age_ns"] > 2.3e9, 4, "an old sample")
        self.say("daemon:\n  sample_interval: 200ms\n")
        self.reload()
        self.until(lambda: self.status()["sample_age_ns"] < 1e9, 2, "a fresh sample")
        oldest = 0
        for _ in range(60):
            oldest = max(oldest, self.status()["sample_age_ns"])
            time.sleep(0.01)
        self.assertLess(oldest, 1.5e9)

    def test_log_level(self):
        env = os.environ.pop("ALLOT_LOG", None)
        try:
            self.begin("daemon:\n  log_level: error\n")
        finally:
            if env is not None:
                os.environ["ALLOT_LOG"] = env
        self.job()
        self.assertNotIn("admitted", self.log_text())
        self.say("daemon:\n  log_level: info\n")
        self.reload()
        self.job()
        self.assertIn("admitted", self.log_text())

    def test_log_level_of_the_environment(self):
        old = os.environ.get("ALLOT_LOG")
        os.environ["ALLOT_LOG"] = "error"
        try:
            self.begin("daemon:\n  log_level: info\n")
        finally:
            os.environ.pop("ALLOT_LOG")
            if old is not None:
                os.environ["ALLOT_LOG"] = old
        self.job()
        self.assertNotIn("admitted", self.log_text())
        self.assertEqual(self.shown()["daemon.log_level"]["source"], 3)


class Reload(Config):
    def test_all_or_nothing(self):
        self.begin("jobs:\n  class: batch\n  kill_grace: 3s\n")
        self.say("jobs:\n  class: latency\n  kill_grace: 3\n  when_ful: fail\n")
        nothing, mistakes, error = self.reload()
        self.assertIsNone(nothing)
        self.assertEqual(error["code"], 2)
        self.assertIn("nothing is changed", error["text"])
        self.assertEqual(len(mistakes), 2)
        self.assertTrue(mistakes[0].startswith(f"{self.config}:3:15: 'jobs.kill_grace'"), mistakes)
        self.assertTrue(mistakes[1].startswith(f"{self.config}:4:3: unknown key 'when_ful'"), mistakes)
        shown = self.shown()
        self.assertEqual((shown["jobs.class"]["value"], shown["jobs.kill_grace"]["value"]), ("batch", "3s"))
        for mistake in mistakes:
            self.assertIn(mistake, self.log_text())

    def test_changes_are_named(self):
        self.begin("jobs:\n  class: batch\n")
        self.say("jobs:\n  wait_timeout: 1h\n")
        self.assertEqual(sorted(self.reload()), ["jobs.class: batch → normal", "jobs.wait_timeout: never → 1h"])
        self.assertEqual(self.reload(), [])
        self.assertEqual(self.shown()["jobs.class"]["source"], 0)
        os.unlink(self.config)  # it may be missing, here
        self.assertEqual(self.reload(), ["jobs.wait_timeout: 1h → never"])

    def test_a_file_that_was_named(self):
        self.begin("jobs:\n  class: batch\n", "--config", self.config)
        os.unlink(self.config)
        nothing, mistakes, _ = self.reload()
        self.assertIsNone(nothing)
        self.assertIn("No such file", mistakes[0])
        self.assertEqual(self.shown()["jobs.class"]["value"], "batch")

    def test_hangup(self):
        self.begin("jobs:\n  class: batch\n")
        self.say("jobs:\n  class: latency\n")
        self.daemon.send_signal(signal.SIGHUP)
        self.until(lambda: self.shown()["jobs.class"]["value"] == "latency")
        self.assertIn("jobs.class: batch → latency", self.log_text())
        self.say("jobs:\n  clas: latency\n")
        self.daemon.send_signal(signal.SIGHUP)
        self.until(lambda: "unknown key 'clas'" in self.log_text())
        self.assertEqual(self.shown()["jobs.class"]["value"], "latency")

    def test_needs_a_restart(self):
        self.begin("")
        self.say(f"daemon:\n  driver: {self.dir}\njobs:\n  class: batch\n")
        changes = self.reload()
        self.assertIn("jobs.class: normal → batch", changes)
        self.assertIn(f"daemon.driver: (usual) → {self.dir} from the next start on", changes)
        driver = self.shown()["daemon.driver"]
        self.assertEqual((driver["value"], driver["flags"]), ("", 1))
        self.assertIn(f"from the next start on: {self.dir}", driver["note"])
        # named each time until it is done
        self.assertEqual(len(self.reload()), 1)

    def test_jobs_go_on(self):
        self.begin("jobs:\n  vram: 1G\n")
        keeper, child = self.program(flags=USUAL)
        self.say("jobs:\n  vram: 2G\n")
        self.reload()
        self.assertEqual(self.ps()[0]["vram_limit_bytes"], GIB)
        self.assertEqual(child.need(MIB)[1]["result"], OK)

    def test_service_manager(self):
        """RELOADING with its time, and READY again, also after mistakes"""
        path = os.path.join(self.dir, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(path)
            s.settimeout(5)
            self.say("")
            os.environ["NOTIFY_SOCKET"] = path
            try:
                self.start()
            finally:
                del os.environ["NOTIFY_SOCKET"]
            self.assertEqual(s.recv(4096), b"READY=1")
            before = time.monotonic_ns() // 1000
            self.daemon.send_signal(signal.SIGHUP)
            lines = s.recv(4096).decode().split("\n")
            self.assertEqual(lines[0], "RELOADING=1")
            self.assertGreaterEqual(int(lines[1].removeprefix("MONOTONIC_USEC=")), before)
            self.assertTrue(s.recv(4096).startswith(b"READY=1"))
            self.say("nonsense: 1\n")
            self.reload()
            s.recv(4096)
            self.assertIn(b"has mistakes", s.recv(4096))


@unittest.skipIf(os.geteuid() != 0, "the machine's service is root's")
class System(Config):
    mode = []

    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)
        os.chmod(self.control, 0o777)

    def user(self, uid):
        actor = self.actor()
        actor.become_user(uid)
        return actor

    def test_socket_mode(self):
        gid = grp.getgrnam("daemon").gr_gid
        self.begin("daemon:\n  socket_mode: 0660\n  socket_group: daemon\n")
        st = os.stat(self.socket)
        self.assertEqual((stat.S_IMODE(st.st_mode), st.st_gid), (0o660, gid))
        with self.assertRaises(Exception):
            self.user(4711).ask_status()
        self.say("")
        self.assertEqual(len(self.reload()), 2)
        self.assertEqual(stat.S_IMODE(os.stat(self.socket).st_mode), 0o666)
        self.assertEqual(self.user(4711).run()[0], "ADMITTED")

    def test_admins(self):
        self.begin("daemon:\n  admins: [\"4712\", \"@4713\"]\n")
        owner = self.user(4711)
        answer, body = owner.run(GIB, GIB)
        self.assertEqual(answer, "ADMITTED")
        job = body["job_id"]
        stranger, admin, member = self.user(4714), self.user(4712), self.user(4713)
        self.assertEqual(stranger.call("SET", job_id=job, key="class", value="batch")[1]["code"], 4)
        self.assertEqual(admin.call("SET", job_id=job, key="class", value="batch")[0], "OK")
        self.assertEqual(member.call("SET", job_id=job, key="class", value="normal")[0], "OK")
        # who may change jobs may not change the configuration
        self.assertEqual(admin.call("RELOAD")[1]["code"], 4)
        self.say("")
        self.reload()
        self.assertEqual(admin.call("CANCEL", job_id=job)[1]["code"], 4)

    def test_jobs_of_one_user(self):
        self.begin("limits:\n  max_jobs_per_user: 1\n")
        self.assertEqual(self.user(4711).run()[0], "ADMITTED")
        answer, body = self.user(4711).run()
        self.assertEqual(answer, "ERROR")
        self.assertIn("limits.max_jobs_per_user", body["text"])
        self.assertEqual(self.user(4712).run()[0], "ADMITTED")
        for _ in range(2):
            self.assertEqual(self.actor().run()[0], "ADMITTED")  # root

    def test_connections_of_one_user(self):
        self.begin("limits:\n  max_connections_per_user: 8\n")
        self.assertIn("too many connections", self.user(4711).crowd(12))
        self.assertEqual(self.user(4712).run()[0], "ADMITTED")

    def test_owner_of_the_file(self):
        self.say("jobs:\n")
        os.chown(self.config, 4711, 4711)
        self.assertIn("belongs to uid 4711", self.refused(None))
        os.chown(self.config, 0, 4711)
        os.chmod(self.config, 0o664)
        self.assertIn("group 4711 may write", self.refused(None))


class User(Config):
    def test_what_only_the_service_can(self):
        said = self.refused("daemon:\n  admins: [root]\n  socket_mode: 0666\ngpu_defaults:\n  unmanaged: kill\n")
        self.assertEqual(said.count("for the machine's service"), 3)


if __name__ == "__main__":
    import tap
    tap.main()
