# SPDX-License-Identifier: Apache-2.0
"""unittest with one line a test case on stdout, in the form that meson counts (TAP)."""
import sys
import unittest


class TapResult(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.lines = 0

    def say(self, ok, test, more=""):
        self.lines += 1
        name = test.id().split(".", 1)[-1].replace("#", " ")
        print(f"{'ok' if ok else 'not ok'} {self.lines} - {name}{more}", flush=True)

    def addSuccess(self, test):
        self.say(True, test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say(True, test, f" # SKIP {reason}")

    def tell(self, test, err):
        self.say(False, test)
        for line in self._exc_info_to_string(err, test).splitlines():
            print(f"# {line}", flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.tell(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.tell(subtest, err)


def main():
    """run the test cases of the calling program; what matches an argument, if there are any"""
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    if len(sys.argv) > 1:
        tests = [t for group in suite for t in group]
        suite = unittest.TestSuite(t for t in tests if any(a in t.id() for a in sys.argv[1:]))
    result = TapResult()
    suite.run(result)
    print(f"1..{result.lines}", flush=True)
    sys.exit(0 if result.wasSuccessful() and result.lines else 1)
