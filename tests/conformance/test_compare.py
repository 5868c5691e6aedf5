#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py sees what it should see, and conform outlives a library that dies or hangs."""
import contextlib
import importlib.util
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location('compare', HERE / 'compare.py')
compare = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare)

CONFORM, CRASHING = None, None


class Comparing(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.path = pathlib.Path(self.dir.name)

    def transcripts(self, text):
        (self.path / 'a.txt').write_text(text, encoding='utf-8')
        return compare.read_transcripts(self.path)

    def expected(self, text, where='sim'):
        (self.path / 'expected').write_text(text, encoding='utf-8')
        return compare.Expected(self.path / 'expected', where)

    def test_sequences_are_told_apart(self):
        read, problems = self.transcripts('== a\none\n--\n== b\ntwo\nthree\n--\n')
        self.assertEqual(read, {'a': ['one'], 'b': ['two', 'three']})
        self.assertEqual(problems, [])

    def test_a_cut_transcript_is_a_problem(self):
        self.assertEqual(len(self.transcripts('== a\none\n')[1]), 1)

    def test_one_changed_code_is_two_lines(self):
        self.assertEqual(compare.differing(['f() → A', 'g() → B'], ['f() → A', 'g() → C']),
                         ['-g() → B', '+g() → C'])

    def test_a_missing_line_is_seen(self):
        self.assertEqual(compare.differing(['f', 'g'], ['f']), ['-g'])

    def test_an_entry_explains_only_its_sequences_and_side(self):
        text = 'shim | memory.* | ^[-+]# card | a view\n'
        e = self.expected(text, 'shim')
        self.assertTrue(e.explains('memory.growth', '-# card: 1'))
        self.assertFalse(e.explains('pool.growth', '-# card: 1'))
        self.assertFalse(e.explains('memory.growth', '-cuMemAlloc'))
        self.assertEqual(e.entries[0]['used'], 1)
        self.assertEqual(self.expected(text, 'sim').entries, [])

    def test_an_entry_without_a_reason_is_a_problem(self):
        self.assertEqual(len(self.expected('sim | a | b\n').problems), 1)
        self.assertEqual(len(self.expected('sim | a | ( | why\n').problems), 1)

    def test_recorded_and_replayed_must_be_the_same_set(self):
        self.transcripts('== a\none\n--\n')
        tap = compare.Tap()
        with contextlib.redirect_stdout(io.StringIO()) as text:
            compare.compare_folder(tap, 'sim', self.path, {'b': []}, self.expected(''))
        self.assertEqual(tap.failed, 2)
        self.assertIn('never recorded', text.getvalue())
        self.assertIn('not replayed', text.getvalue())


class Running(unittest.TestCase):
    def run_conform(self, *options):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([CONFORM, '--nvml', 'none', '--out', out, *options],
                                  capture_output=True, text=True, timeout=60, check=False)
            return done, compare.read_transcripts(pathlib.Path(out))

    def test_death_and_hang_end_one_sequence(self):
        done, (read, problems) = self.run_conform('--lib', CRASHING, '--only', 'init.*',
                                                  '--hang', '1')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(problems, [])
        self.assertEqual(read['init.flags'], ['cuInit(1)', '!! killed by signal 11'])
        self.assertEqual(read['init.before.device'][-1], '!! killed by signal 9 (it hung)')
        self.assertIn('cuInit(0) → CUDA_SUCCESS', read['init.twice'])

    def test_a_missing_library_is_said(self):
        done, _ = self.run_conform('--lib', '/nonexistent/libcuda.so.1', '--only', 'misc.*')
        self.assertEqual(done.returncode, 1)
        self.assertIn('/nonexistent/libcuda.so.1', done.stderr)

    def test_a_pattern_without_a_sequence_fails(self):
        done, _ = self.run_conform('--lib', CRASHING, '--only', 'nothing')
        self.assertEqual(done.returncode, 1)


class Tap(unittest.TextTestResult):
    """every case by its name"""

    def report(self, test, ok):
        print(f'{"ok" if ok else "not ok"} {self.testsRun} - {test.id()}', flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.report(test, True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.report(test, False)

    def addError(self, test, err):
        super().addError(test, err)
        self.report(test, False)


if __name__ == '__main__':
    CONFORM, CRASHING = sys.argv[1:3]
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules['__main__'])
    result = unittest.TextTestRunner(resultclass=Tap, stream=sys.stderr).run(suite)
    print(f'1..{result.testsRun}')
    sys.exit(not result.wasSuccessful())
