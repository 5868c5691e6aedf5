#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every way a program can come to the driver ends at our library, and from there at the driver.

The matrix of resolvers, on a small driver made for it (fake_driver.c). The letter and number in a
test's name is the row of the field reports that it answers.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap  # noqa: E402  (lies beside the folder)

RTLD_LAZY, RTLD_NOW, RTLD_GLOBAL, RTLD_DEEPBIND, RTLD_NODELETE = 1, 2, 0x100, 8, 0x1000
HERE = pathlib.Path(os.environ["RESOLVER_BUILD"])
SHIM = pathlib.Path(os.environ["ALLOT_SHIM"])
SIM = pathlib.Path(os.environ["ALLOT_SIM"])
NVML = pathlib.Path(os.environ["ALLOT_SHIM_NVML"])


class Resolver(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="allot-resolver-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def driver(self, number, kind="full", name="libcuda.so.1"):
        """a folder of that number with the driver in it"""
        folder = self.folder / str(number)
        folder.mkdir(exist_ok=True)
        shutil.copy(HERE / f"fake_{kind}.so", folder / name)
        return folder

    def run_program(self, program, *args, path=(), **variables):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("ALLOT_", "LD_", "CUDA_"))}
        env["LD_PRELOAD"] = f"{SHIM}:{NVML}"
        if path:
            env["LD_LIBRARY_PATH"] = ":".join(map(str, path))
        env.update(variables)
        env = {k: v for k, v in env.items() if v}
        done = subprocess.run([str(program), *map(str, args)], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=30, check=False)
        # there is no allotd here, which may be said; it is not what these tests are about
        done.stderr = "".join(line for line in done.stderr.splitlines(keepends=True)
                              if "cannot reach allotd" not in line)
        return done

    def probe(self, *args, path=None, says="", **variables):
        """run a case of probe.c; it must be content, and say what is expected on stderr"""
        if path is None:
            path = [self.driver(9001)]
        done = self.run_program(HERE / "probe", *args, path=path, **variables)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        if says:
            self.assertIn(says, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        else:
            self.assertEqual(done.stderr, "")

    def plugin(self):
        """a plugin in a folder of its own, with a second library only its RUNPATH leads to"""
        folder = self.folder / "plugin"
        folder.mkdir()
        shutil.copy(HERE / "plugin.so", folder)
        shutil.copy(HERE / "second.so", folder / "libsecond.so")
        return folder / "plugin.so"

    # which file is opened, by which spelling

    def test_d13_soname(self):
        self.probe("open", "libcuda.so.1", 0, 9001)

    def test_d14_unversioned(self):
        self.probe("open", "libcuda.so", 0, 9001)

    def test_d14_versioned(self):
        self.probe("open", "libcuda.so.580.95.05", 0, 9001)

    def test_d14_absolute_path(self):
        self.probe("open", self.driver(9001) / "libcuda.so.1", 0, 9001)

    def test_d14_absolute_path_versioned(self):
        name = self.driver(9001, name="libcuda.so.580.95.05") / "libcuda.so.580.95.05"
        self.probe("open", name, 0, 9001)

    def test_d14_only_the_absolute_path_leads_there(self):
        self.probe("open", self.driver(9002) / "libcuda.so.1", 0, 9002, path=[self.folder])

    def test_d14_absolute_path_to_nothing(self):
        self.probe("open_fails", "/no/such/folder/libcuda.so.1")

    def test_d14_other_libraries_of_like_names(self):
        self.probe("open_fails", "libcudart.so.99")
        self.probe("open_fails", "libcuda-not.so.1")

    def test_d14_nvml(self):
        for name in ("libnvidia-ml.so.1", "libnvidia-ml.so", "libnvidia-ml.so.580.95.05"):
            self.probe("open_nvml", name)

    def test_d14_nvml_absolute_path(self):
        (self.folder / "libnvidia-ml.so.1").touch()
        self.probe("open_nvml", self.folder / "libnvidia-ml.so.1", LD_PRELOAD=str(SHIM))

    def test_d23_local_global_deepbind(self):
        for flags in (RTLD_LAZY, RTLD_NOW, RTLD_NOW | RTLD_GLOBAL, RTLD_NOW | RTLD_DEEPBIND,
                      RTLD_LAZY | RTLD_NODELETE):
            for name in ("libcuda.so.1", "libcuda.so", self.driver(9001) / "libcuda.so.1"):
                self.probe("open", name, flags, 9001)

    def test_d23_plugin_deepbind(self):
        self.probe("deepbind", self.plugin())

    def test_noload(self):
        self.probe("noload")

    def test_dlmopen_is_not_touched(self):
        self.probe("dlmopen", self.driver(9001) / "libcuda.so.1")

    def test_callers_runpath(self):
        self.probe("callers_runpath", self.plugin())

    # who is found, from where

    def test_d22_linked_program(self):
        done = self.run_program(HERE / "linked", path=[self.driver(9001)])
        self.assertEqual((done.stdout, done.stderr), ("9001 -1\n", ""))

    def test_d22_linked_program_in_its_constructor(self):
        done = self.run_program(HERE / "linked", path=[self.driver(9001)], CALL_EARLY="1")
        self.assertEqual((done.stdout, done.stderr), ("9001 9001\n", ""))

    def test_d3_every_handle(self):
        self.probe("every_handle")

    def test_d3_every_handle_of_a_plugin(self):
        self.probe("every_handle_of_plugin", self.plugin())

    def test_d1_plugin_keeps_its_own_names(self):
        plugin = self.plugin()
        self.probe("plugin_keeps_its_own", plugin, "before")
        self.probe("plugin_keeps_its_own", plugin, "after")

    # which driver

    def test_d14_the_first_folder_wins(self):
        self.probe("version", 9003, path=[self.folder, self.driver(9003), self.driver(9004)])

    def test_runpath_and_rpath_of_the_program(self):
        """RPATH stands before LD_LIBRARY_PATH, RUNPATH behind"""
        for kind, expected in (("rpath", 9005), ("runpath", 9006)):
            program = self.folder / f"linked_{kind}"
            shutil.copy(HERE / f"linked_{kind}", program)
            self.driver(9005).rename(self.folder / "9005-beside")
            (self.folder / "beside").unlink(missing_ok=True)
            (self.folder / "beside").symlink_to("9005-beside")
            done = self.run_program(program, path=[self.driver(9006)])
            shown = {"0": "9005"}.get(done.stdout.split()[0], done.stdout.split()[0])
            self.assertEqual((shown, done.stderr), (str(expected), ""))
            shutil.rmtree(self.folder / "9005-beside")
            done = self.run_program(program, path=[self.driver(9006)])
            self.assertEqual(done.stdout.split()[0], "9006")

    def test_runpath_alone(self):
        program = self.folder / "linked_runpath"
        shutil.copy(HERE / "linked_runpath", program)
        (self.folder / "beside").symlink_to(self.driver(9007))
        self.assertEqual(self.run_program(program).stdout.split()[0], "0")

    def test_we_ourselves_are_skipped(self):
        for link in (False, True):
            folder = self.folder / f"ours{link}"
            folder.mkdir()
            if link:
                (folder / "libcuda.so.1").symlink_to(SHIM)
            else:
                shutil.copy(SHIM, folder / "libcuda.so.1")  # another file, and yet one of us
            self.probe("version", 9008, path=[folder, self.driver(9008)])

    def test_what_is_no_library_is_skipped(self):
        folder = self.folder / "broken"
        folder.mkdir()
        (folder / "libcuda.so.1").write_text("not a library\n")
        self.probe("version", 9009, path=[folder, self.driver(9009)])

    def test_d8_old_driver(self):
        self.probe("missing_in_old_driver", path=[self.driver(9010, "old")])

    def test_no_driver(self):
        self.skip_if_the_machine_has_one()
        self.probe("no_driver", path=[self.folder], says="no NVIDIA driver: libcuda.so.1 is not in "
                   f"{self.folder}")

    def test_driver_that_cannot_be_opened(self):
        self.skip_if_the_machine_has_one()
        folder = self.folder / "broken"
        folder.mkdir()
        (folder / "libcuda.so.1").write_text("not a library\n")
        self.probe("no_driver", path=[folder],
                   says=f"cannot open the driver {folder}/libcuda.so.1: ")

    def skip_if_the_machine_has_one(self):
        found = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True,
                               check=False)
        if "libcuda.so.1" in found.stdout:
            self.skipTest("this machine has a driver of its own")

    # the call itself

    def test_registers_and_stack(self):
        self.probe("registers")

    def test_vector_register(self):
        self.probe("vector_register")

    def test_32_bit_abi(self):
        self.probe("32_bit")

    def test_cold_start_of_16_threads(self):
        for _ in range(10):
            self.probe("cold_start")

    def test_dlclose(self):
        self.probe("dlclose")

    def test_d2_constructor_of_the_driver(self):
        self.probe("constructor", path=[self.driver(9012, "constructor")])

    def test_d15_constructor_of_a_library_in_another_thread(self):
        for _ in range(20):
            self.probe("constructor_in_another_thread", HERE / "eager.so")

    def test_fork(self):
        self.probe("fork")

    # cuGetProcAddress

    def test_d4_look_ups(self):
        self.probe("look_ups")

    def test_d4_look_ups_in_a_driver_that_meets_us_itself(self):
        self.probe("look_ups", path=[self.driver(9013, "plt")])
        self.probe("first_call_is_look_up", path=[self.driver(9013, "plt")])
        self.probe("cold_start", path=[self.driver(9013, "plt")])

    def test_d4_d10_whole_table_on_the_simulator(self):
        """with and without -Bsymbolic: each name as the simulator itself would answer, or ours"""
        for sim in (SIM, SIM / "nosym"):
            with self.subTest(sim=sim):
                self.probe("whole_table", sim / "libcuda.so.1", path=[sim],
                           ALLOT_SIM_DIR=str(self.folder))

    def test_d23_every_spelling_on_the_simulator(self):
        for name in ("libcuda.so.1", "libcuda.so", "libcuda.so.580.95.05", SIM / "libcuda.so.1"):
            with self.subTest(name=name):
                self.probe("open", name, 0, "any", path=[SIM], ALLOT_SIM_DIR=str(self.folder))
        self.probe("every_handle", path=[SIM], ALLOT_SIM_DIR=str(self.folder))

    def test_d4_ptsz_without_flags(self):
        self.probe("ptsz_without_flags")

    def test_d5_first_call_is_a_look_up(self):
        self.probe("first_call_is_look_up")

    def test_d11_null_arguments(self):
        self.probe("look_up_null")

    def test_d4_unknown_form_of_an_allocator(self):
        done = self.run_program(HERE / "probe", "unknown_allocator", path=[self.driver(9001)])
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(done.stderr.count("a newer form of cuMemAlloc"), 2, done.stderr)


if __name__ == "__main__":
    tap.main()
