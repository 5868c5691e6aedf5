#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever a job starts meets our libraries; a process that is in no job starts what it likes.

Each way to start a program (starter.c), with each kind of environment, in a job and outside; with
and without us in front, where nothing may differ.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402  (lies beside the folder)

HERE = pathlib.Path(os.environ["RESOLVER_BUILD"])
SHIM, NVML = os.environ["ALLOT_SHIM"], os.environ["ALLOT_SHIM_NVML"]
PRELOAD = f"{SHIM}:{NVML}"
SOCKET = "/tmp/allot-test-no-such-socket"
TAKES_ENVIRONMENT = ["execve", "execvpe", "execle", "fexecve", "execveat", "posix_spawn",
                     "posix_spawnp"]
TAKES_ENVIRON = ["execv", "execvp", "execl", "execlp"]
SHELLS = ["system", "popen"]
KINDS = ["whole", "empty", "bare", "other", "socket", "many", "unset"]
# what the program must see of LD_PRELOAD and KEEP
EXPECTED = {
    "whole": (PRELOAD, "-"), "empty": (PRELOAD, "-"), "bare": (PRELOAD, "kept"),
    "other": (PRELOAD + ":libm.so.6", "kept"), "socket": (PRELOAD, "kept"),
    "many": (PRELOAD, "kept"), "unset": (PRELOAD, "-"), "null": (PRELOAD, "-"),
    "clobbered": (PRELOAD, "kept"),
}


class Exec(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="allot-exec-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.program = self.folder / "starter"
        shutil.copy(HERE / "starter", self.program)

    def start(self, how, kind, program=None, preload=PRELOAD, socket=SOCKET):
        env = {"PATH": f"{self.folder}:/usr/bin:/bin"}
        if preload:
            env["LD_PRELOAD"] = preload
        if socket:
            env["ALLOT_SOCKET"] = socket
        return subprocess.run([str(self.program), how, kind, str(program or self.program)], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=30, check=False)

    def in_job(self, how, kind, says):
        done = self.start(how, kind)
        preload, keep = EXPECTED[kind]
        self.assertIn(f"{says}ALLOT_SOCKET={SOCKET} LD_PRELOAD={preload} KEEP={keep} ", done.stdout,
                      f"{how} {kind}")
        self.assertEqual(done.stdout.count("ALLOT_SOCKET="), 1)
        return done

    def test_a_job_keeps_its_libraries(self):
        for how in TAKES_ENVIRONMENT + TAKES_ENVIRON:
            for kind in KINDS:
                if (how, kind) in (("execvp", "many"), ("execlp", "many")):
                    continue  # that environment has no PATH
                with self.subTest(how=how, kind=kind):
                    if how in ("execvp", "execlp", "execvpe", "posix_spawnp") and \
                            kind not in ("whole", "unset"):
                        continue  # see test_search_without_path
                    self.assertEqual(self.in_job(how, kind, "one two ").returncode, 0)

    def test_the_kernels_null_environment(self):
        for how in ("execve", "execveat", "posix_spawn"):
            with self.subTest(how=how):
                self.in_job(how, "null", "one two ")

    def test_after_setproctitle(self):
        """the kernel's copy of the environment is gone: the program's own still tells"""
        for how in ("execve", "posix_spawn"):
            with self.subTest(how=how):
                self.in_job(how, "clobbered", "one two ")

    def test_search_without_path(self):
        """where PATH is gone, the search goes through /bin and /usr/bin; ours changes nothing"""
        for how in ("execvp", "execlp", "execvpe", "posix_spawnp"):
            for kind in ("empty", "bare", "other", "socket"):
                with self.subTest(how=how, kind=kind):
                    here = self.start(how, kind)
                    self.assertEqual(here.stdout, self.start(how, kind, preload="").stdout)
                    done = self.start(how, kind, program="/usr/bin/env")
                    self.assertNotIn("failed", done.stdout)

    def test_vfork(self):
        for how in ("execve", "execv", "execl", "execle", "execveat", "fexecve"):
            for kind in KINDS:
                with self.subTest(how=how, kind=kind):
                    self.assertEqual(self.in_job("vfork+" + how, kind, "one two ").returncode, 0)

    def test_shells(self):
        """system and popen: quotes, several commands and the exit code arrive as they are"""
        for how in SHELLS:
            for kind in KINDS:
                with self.subTest(how=how, kind=kind):
                    done = self.in_job(how, kind, "a b c'd ")
                    self.assertIn("status 3", done.stdout)

    def test_quotes_in_what_a_shell_is_told(self):
        folder = self.folder / "it's a place"
        folder.mkdir()
        socket = str(folder / "allotd.sock")
        for how in SHELLS:
            with self.subTest(how=how):
                done = self.start(how, "bare", socket=socket)
                self.assertIn(f"ALLOT_SOCKET={socket} LD_PRELOAD={PRELOAD} KEEP=kept", done.stdout)

    def test_env_i_nested_shells_setsid(self):
        """commands that people use to shake it off, by programs that are not ours"""
        show = f"{self.program} show"
        for command in (f"env -i {show}", f"sh -c 'unset LD_PRELOAD; {show}'",
                        f"env -i sh -c 'exec env -i {show}'", f"setsid -w env -i {show}",
                        f"LD_PRELOAD= {show}", f"ALLOT_SOCKET=/tmp/other {show}",
                        f"env -u ALLOT_SOCKET -u LD_PRELOAD nice {show}",
                        f"echo 1 | env -i xargs {show} | cut -c 3-",
                        f"python3 -c 'import subprocess; subprocess.run([\"{self.program}\", "
                        "\"show\"], env={})'"):
            with self.subTest(command=command):
                done = subprocess.run(["sh", "-c", command], text=True, stdout=subprocess.PIPE,
                                      env={"PATH": os.environ["PATH"], "LD_PRELOAD": PRELOAD,
                                           "HOME": "/tmp", "ALLOT_SOCKET": SOCKET},
                                      timeout=30, check=False)
                self.assertTrue(done.stdout.startswith(
                    f"ALLOT_SOCKET={SOCKET} LD_PRELOAD={PRELOAD} "), done.stdout)

    def test_outside_a_job_nothing_changes(self):
        """preloaded by accident: whatever is started is started as without us"""
        for how in TAKES_ENVIRONMENT + TAKES_ENVIRON + SHELLS:
            for kind in KINDS:
                with self.subTest(how=how, kind=kind):
                    ours = self.start(how, kind, socket="")
                    bare = self.start(how, kind, socket="", preload="")
                    if kind == "whole":  # with one variable more
                        ours.stdout = ours.stdout.replace(f"LD_PRELOAD={PRELOAD} ", "LD_PRELOAD=- ")
                        ours.stdout = re.sub("variables=[0-9]+", "", ours.stdout)
                        bare.stdout = re.sub("variables=[0-9]+", "", bare.stdout)
                    self.assertEqual(ours.stdout, bare.stdout)

    def test_errors_are_the_same(self):
        """no such file, no permission, a folder, a script without #!, a broken program"""
        script, broken = self.folder / "script", self.folder / "broken"
        script.write_text("echo script $1 $2\n")
        script.chmod(0o755)
        broken.write_bytes(b"\x7fELF" + bytes(60))
        broken.chmod(0o755)
        (self.folder / "denied").write_text("#!/bin/sh\n")
        for how in TAKES_ENVIRONMENT + TAKES_ENVIRON + ["vfork+execve", "vfork+execl"]:
            for name in ("nothing", "denied", "", "script", "broken", "denied/below"):
                for kind in ("whole", "bare"):
                    with self.subTest(how=how, name=name, kind=kind):
                        ours = self.start(how, kind, program=self.folder / name)
                        bare = self.start(how, kind, program=self.folder / name, preload="")
                        self.assertEqual((ours.stdout, ours.returncode),
                                         (bare.stdout, bare.returncode))

    def test_another_librarys_redirections_stay(self):
        """who stands between us and libc is called, not passed over"""
        for order in ((SHIM, HERE / "between.so"), (HERE / "between.so", SHIM)):
            preload = ":".join(map(str, order))
            done = self.start("execve", "whole", preload=preload)
            self.assertIn("between\n", done.stdout)
            self.assertIn("one two ", done.stdout)


if __name__ == "__main__":
    tap.main()
