#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `make check` counts: nothing that fails, crashes, hangs or is left out may look like success."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))

import check  # noqa: E402
import tap  # noqa: E402


def record(result, stdout='', code=0):
    return {'name': 'allot:unit / prog', 'result': result, 'stdout': stdout, 'returncode': code}


class Cases(unittest.TestCase):
    def test_each_case_is_counted(self):
        good, bad, skips = check.cases_of(record('OK', '1..2\nok 1 - a\n# note\nok 2 - b\n'), True)
        self.assertEqual((good, bad, skips), (2, [], []))

    def test_a_failed_case_keeps_what_it_said(self):
        good, bad, _ = check.cases_of(record('FAIL', '1..2\nok 1 - a\nnot ok 2 - b\n# 1 != 2\n# x.c:7\n', 1), True)
        self.assertEqual(good, 1)
        self.assertEqual(len(bad), 1)
        self.assertTrue(bad[0].startswith('prog: b'))
        self.assertIn('1 != 2', bad[0])
        self.assertIn('x.c:7', bad[0])

    def test_a_crash_after_good_cases_is_a_failure(self):
        for result, code in (('ERROR', -11), ('TIMEOUT', -15), ('FAIL', 1), ('INTERRUPT', -2)):
            good, bad, _ = check.cases_of(record(result, '1..3\nok 1 - a\n', code), True)
            self.assertEqual((good, len(bad)), (1, 1), result)
            self.assertIn(result, bad[0])

    def test_no_case_at_all_is_a_failure(self):
        good, bad, _ = check.cases_of(record('OK', '1..0\n'), True)
        self.assertEqual((good, len(bad)), (0, 1))

    def test_a_program_without_cases_counts_once(self):
        self.assertEqual(check.cases_of(record('OK', 'ok 1 - not TAP\n'), False), (1, [], []))
        self.assertEqual(len(check.cases_of(record('FAIL', '', 3), False)[1]), 1)

    def test_skips_are_told(self):
        good, bad, skips = check.cases_of(record('OK', '1..3\nok 1 - a\nok 2 # SKIP b\nok 3 - c # SKIP no root\n'), True)
        self.assertEqual((good, bad), (1, []))
        self.assertEqual(skips, [('prog: b', 'b'), ('prog: c', 'no root')])
        self.assertEqual(check.cases_of(record('SKIP', '', 77), False)[2], [('prog', 'exit status 77')])

    def test_a_skip_as_cmocka_writes_it(self):
        good, bad, skips = check.cases_of(record('FAIL', '1..2\nok 1 - a\nnot ok 2 # SKIP b\n# ok - tests\n', 0), True)
        self.assertEqual((good, bad, skips), (1, [], [('prog: b', 'b')]))


    def test_only_what_a_busy_machine_can_cause_is_asked_again(self):
        self.assertTrue(check.may_be_the_machine(record('ERROR', 'not ok 1 - slow\n', 1)))
        self.assertTrue(check.may_be_the_machine(record('TIMEOUT', '', -15)))
        self.assertFalse(check.may_be_the_machine(record('ERROR', '', -11)))
        self.assertFalse(check.may_be_the_machine(record('FAIL', 'WARNING: ThreadSanitizer: data race\n', 66)))
        self.assertFalse(check.may_be_the_machine(record('OK', '', 0)))


class Skips(unittest.TestCase):
    def setUp(self):
        self.said = contextlib.redirect_stdout(io.StringIO())
        self.said.__enter__()
        self.counts = check.passed, check.failed, check.skipped
        check.passed = check.failed = check.skipped = 0

    def tearDown(self):
        self.said.__exit__(None, None, None)
        check.passed, check.failed, check.skipped = self.counts

    def test_only_a_listed_skip_is_none_of_the_failures(self):
        self.assertFalse(check.skip('prog: something new', 'because'))
        self.assertTrue(check.skip('table against the toolkit', ''))
        self.assertEqual(check.skipped, 1)

    def test_a_step_that_cannot_run_fails(self):
        with tempfile.NamedTemporaryFile() as log:
            check.single('absent', ['/nonexistent/tool'], log.name)
            check.single('says no', ['false'], log.name)
            check.single('skips itself', ['sh', '-c', 'echo nothing to do; exit 77'], log.name)
            check.single('works', ['true'], log.name)
        self.assertEqual((check.passed, check.failed, check.skipped), (1, 3, 0))

    def test_every_listed_skip_has_a_reason(self):
        for pattern, reason in check.load_skips():
            self.assertGreater(len(reason), 20, pattern)


if __name__ == '__main__':
    tap.main()
