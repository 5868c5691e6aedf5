# SPDX-License-Identifier: Apache-2.0
"""systemd makes a job's scope: what it is asked for, and what becomes of jobs when it is slow or away

The other side is fake_systemd.c; the cgroups are real ones.
"""
import os
import signal
import subprocess
import time
import unittest

import cgroups
from test_cgroup import Base, gone
from world import GIB, MIB, OK

FAKE = os.environ["FAKE_SYSTEMD"]


@unittest.skipUnless(cgroups.is_writable() and os.geteuid() == 0,
                     "needs root, cgroups of version 2 that may be written, and no other systemd")
class Scope(Base):
    mode = []  # the machine's service: the system's manager
    bus_name = "DBUS_SYSTEM_BUS_ADDRESS"

    def setUp(self):
        super().setUp()
        self.top = cgroups.here() / f"allottest{os.getpid()}.slice"
        self.login = self.top / "user.slice" / "user-0.slice" / "session-1.scope"
        self.login.mkdir(parents=True)
        self.fake, self.part = None, self.top
        self.bus = os.path.join(self.dir, "bus")

    def tearDown(self):
        for actor in self.actors:
            try:
                actor.kill()
            except ProcessLookupError:
                pass
        super().tearDown()
        if self.fake:
            self.end_fake()
        end = time.monotonic() + 3
        while self.top.exists() and time.monotonic() < end:
            for folder in sorted(self.top.glob("**/"), reverse=True):
                try:
                    folder.rmdir()
                except OSError:
                    time.sleep(0.01)

    def end_fake(self):
        self.fake.kill()
        self.fake.wait()
        self.fake.stdout.close()

    def systemd(self, mode=""):
        self.fake = subprocess.Popen([FAKE, self.bus, str(self.part), mode], stdout=subprocess.PIPE, text=True)
        self.assertEqual(self.fake.stdout.readline(), "ready\n")

    def start(self, *more, before=None):
        os.environ[self.bus_name] = f"unix:path={self.bus}"
        try:
            super().start(*more, before=before)
        finally:
            del os.environ[self.bus_name]

    def keeper_in(self, folder, request=GIB, limit=2 * GIB):
        keeper = self.actor()
        keeper.be_subreaper()
        (folder / "cgroup.procs").write_text(str(keeper.os_pid))
        answer, body = keeper.run(request, limit)
        self.assertEqual(answer, "ADMITTED", body)
        keeper.job_id = body["job_id"]
        return keeper, self.child_of(keeper)

    def scope(self, keeper):
        return self.login.parent / f"allot-job-{keeper.job_id}-{cgroups.tag(self.state)}.scope"

    def test_a_scope_in_the_same_slice(self):
        self.systemd()
        self.start()
        info = self.ask("DAEMON").body
        self.assertEqual((info["has_cgroups"], "system's systemd" in info["cgroups"]), (1, True))
        keeper, child = self.keeper_in(self.login)
        folder = self.members(keeper.job_id, keeper, child)
        said = self.fake.stdout.readline()
        for word in (f"StartTransientUnit {self.scope(keeper).name} fail", f"PIDs={keeper.os_pid}",
                     "Slice=user-0.slice", f"Description=allot job {keeper.job_id}: job",
                     "CollectMode=inactive-or-failed"):
            self.assertIn(word, said)
        self.assertEqual(folder, self.scope(keeper))

    def test_slow_whoever_was_started_meanwhile_follows(self):
        self.systemd("slow")
        self.start()
        before = time.monotonic()
        keeper, child = self.keeper_in(self.login)
        self.assertLess(time.monotonic() - before, 0.15)  # nobody waited for it
        orphan = self.child_of(child)
        self.assertEqual(cgroups.of(child.os_pid), "/" + str(self.login.relative_to(cgroups.mount())))
        self.members(keeper.job_id, keeper, child, orphan)
        self.fake.stdout.readline()
        self.assertEqual(self.fake.stdout.readline(), f"AttachProcessesToUnit {self.scope(keeper).name} 2\n")

    def test_the_keeper_is_killed(self):
        self.systemd()
        self.start()
        keeper, child = self.keeper_in(self.login)
        child.attach()
        helper = self.orphan(child)
        self.members(keeper.job_id, keeper, child, helper)
        self.kill_keeper(keeper)
        self.assertEqual(helper.attach()[1]["job_id"], keeper.job_id)
        later = self.orphan(helper)
        later.ignore(signal.SIGTERM)
        for actor in (child, helper):
            actor.kill()
        self.until(lambda: gone(later.os_pid), 6)
        self.until(lambda: not self.scope(keeper).exists())  # by systemd's hand

    def test_remembered_by_the_next_allotd(self):
        self.systemd()
        self.start()
        keeper, child = self.keeper_in(self.login)
        child.attach()
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

    def goes_on(self, keeper, child):
        """by the chain of parents, and no folder is made in systemd's tree"""
        self.assertEqual(child.attach()[1]["job_id"], keeper.job_id)
        self.assertEqual(child.need(MIB)[1]["result"], OK)
        self.assertFalse(self.scope(keeper).exists())
        self.assertEqual(cgroups.folders(self.state), [])

    def test_silent(self):
        self.systemd("silent")
        self.start()
        before = time.monotonic()
        keeper, child = self.keeper_in(self.login)
        self.assertLess(time.monotonic() - before, 1)
        self.goes_on(keeper, child)
        self.until(lambda: "systemd made no scope" in self.log_text(), 8)
        self.goes_on(keeper, self.child_of(child))

    def test_refused(self):
        self.systemd("refuse")
        self.start()
        keeper, child = self.keeper_in(self.login)
        self.until(lambda: "systemd made no scope" in self.log_text())
        self.goes_on(keeper, child)

    def test_not_out_of_a_service_or_of_another_managers_part(self):
        self.systemd()
        self.start()
        for name in ("cron.service", "session-1.scope/job_7", "x.slice"):
            folder = self.login.parent / name
            folder.mkdir()
            keeper, child = self.keeper_in(folder, MIB, GIB)
            where = cgroups.of(keeper.os_pid)
            self.until(lambda k=keeper: f"job {k.job_id} has no cgroup" in self.log_text())
            self.goes_on(keeper, child)
            self.assertEqual(cgroups.of(keeper.os_pid), where)

    def test_a_bus_without_systemd(self):
        self.systemd("empty")
        self.start()
        keeper, child = self.keeper_in(self.login)
        self.assertEqual(self.members(keeper.job_id, keeper, child).parent, self.login)
        self.assertIn("a folder each", self.ask("DAEMON").body["cgroups"])

    def test_the_bus_goes_and_comes_back(self):
        self.systemd()
        self.start()
        first, child = self.keeper_in(self.login, MIB, GIB)
        self.members(first.job_id, first, child)
        self.end_fake()
        second, child = self.keeper_in(self.login, MIB, GIB)
        self.until(lambda: f"job {second.job_id} has no cgroup" in self.log_text())
        self.assertEqual(child.attach()[1]["job_id"], second.job_id)
        self.systemd()
        third, child = self.keeper_in(self.login, MIB, GIB)
        self.members(third.job_id, third, child)

    def test_a_job_too_short_for_it(self):
        self.systemd("slow")
        self.start()
        keeper, child = self.keeper_in(self.login)
        keeper.kill()
        self.assert_nothing_held()
        self.assertEqual(self.actor().run(MIB)[0], "ADMITTED")
        child.kill()


class UserScope(Scope):
    """a user's own allotd asks the user's own manager"""
    mode = ["--user"]
    bus_name = "DBUS_SESSION_BUS_ADDRESS"

    def setUp(self):
        super().setUp()
        self.part = self.top / "user.slice" / "user-0.slice" / "user@0.service"
        self.login = self.part / "app.slice" / "term.scope"
        self.login.mkdir(parents=True)

    def test_in_the_users_own_part(self):
        self.systemd()
        self.start()
        self.assertIn("user's systemd", self.ask("DAEMON").body["cgroups"])
        keeper, child = self.keeper_in(self.login)
        self.assertEqual(self.members(keeper.job_id, keeper, child), self.scope(keeper))
        self.assertIn("Slice=app.slice", self.fake.stdout.readline())

    def test_out_of_a_login(self):
        """which is not the user's manager's: in its default slice"""
        self.systemd()
        self.start()
        keeper, child = self.keeper_in(self.login.parents[2] / "session-1.scope")
        self.assertEqual(self.members(keeper.job_id, keeper, child).parent, self.part)
        self.assertNotIn("Slice=", self.fake.stdout.readline())


# what holds for one holds for the other
for _name in [n for n in vars(Scope) if n.startswith("test_")]:
    setattr(UserScope, _name, None)


if __name__ == "__main__":
    import tap
    tap.main()
