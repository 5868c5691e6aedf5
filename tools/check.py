#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything `make check` runs, one step after the other; the last line is "N passed, N failed".

Usage: check.py BUILD [STEP...]     (no step named: all of them)
A step that runs test programs counts every test case in them; any other step counts as one.
"""
import os
import pathlib
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent
FUZZ_SECONDS = int(os.environ.get('ALLOT_FUZZ_SECONDS', '12'))
SKIP = 77
passed = failed = skipped = 0


def sh(args, log, env=None, timeout=1500):
    with open(log, 'a') as f:
        f.write('$ ' + ' '.join(map(str, args)) + '\n')
        f.flush()
        try:
            return subprocess.run(list(map(str, args)), cwd=ROOT, stdout=f, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})},
                                  timeout=timeout).returncode
        except subprocess.TimeoutExpired:
            f.write(f'\ntook longer than {timeout} s\n')
            return 124


def tail(log, lines=40):
    text = pathlib.Path(log).read_text(errors='replace').splitlines()
    print('\n'.join('    ' + t for t in text[-lines:]))


def report(name, ok, seconds, log=None, cases=1, bad=0, skips=0):
    global passed, failed, skipped
    if ok and not bad:
        passed += cases
        print(f'ok    {name} ({cases} tests, {seconds:.1f} s)' if cases > 1 else f'ok    {name} ({seconds:.1f} s)',
              flush=True)
    else:
        failed += max(bad, 1)
        passed += max(cases - max(bad, 1), 0)
        print(f'FAIL  {name} ({max(bad, 1)} of {max(cases, 1)}, {seconds:.1f} s)', flush=True)
        if log:
            tail(log)
    skipped += skips


def configure(build, log, *options, env=None):
    if not (build / 'build.ninja').exists():
        return sh(['meson', 'setup', build, *options], log, env)
    return 0


def meson_tests(name, build, log, *options, env=None):
    """run meson's tests and count the cases in its JUnit file, so that nothing hides in a program"""
    start = time.time()
    junit = build / 'meson-logs' / 'testlog.junit.xml'
    junit.unlink(missing_ok=True)
    rc = sh(['meson', 'test', '-C', build, '--no-rebuild', '--print-errorlogs', *options], log, env)
    cases = bad = skips = 0
    if junit.exists():
        for case in ET.parse(junit).getroot().iter('testcase'):
            if case.find('skipped') is not None:
                skips += 1
                print(f'skip  {name}: {case.get("classname")} {case.get("name")}')
                continue
            cases += 1
            if case.find('failure') is not None or case.find('error') is not None:
                bad += 1
                print(f'      failed: {case.get("classname")} {case.get("name")}')
    if cases == 0:
        rc = rc or 1
    report(name, rc == 0, time.time() - start, log, cases, bad if rc else 0, skips)


def simple(name, args, log, env=None):
    start = time.time()
    rc = sh(args, log, env)
    if rc == SKIP:
        global skipped
        skipped += 1
        print(f'skip  {name}: {pathlib.Path(log).read_text().splitlines()[-1]}')
        return
    report(name, rc == 0, time.time() - start, log)


def step_tree(b, log):
    simple('includes follow the map', ['tools/check_layers.py'], log)
    simple('house rules', ['tools/check_tree.py'], log)
    simple('table against the toolkit', ['tools/check_abi.py'], log)
    simple('field reports have their tests', ['tools/check_reports.py'], log)
    files = subprocess.run(['git', 'ls-files', '*.c', '*.h'], cwd=ROOT, capture_output=True, text=True,
                           check=False).stdout.split()
    if files:
        simple('formatter', ['clang-format', '--dry-run', '-Werror', *files], log)


def step_tests(b, log):
    simple('exports equal the tables', ['tools/check_symbols.py', b], log)
    meson_tests('unit', b, log, '--suite', 'unit')
    meson_tests('corpora', b, log, '--suite', 'fuzz')
    meson_tests('integration', b, log, '--suite', 'integration', '--num-processes', '2')
    meson_tests('conformance', b, log, '--suite', 'conformance', '--num-processes', '1')
    meson_tests('ratio gates', b, log, '--suite', 'bench', '--num-processes', '1')


def step_demo(b, log):
    simple('demo', ['tools/demo.sh', b, '--check'], log)


def step_sanitizers(b, log):
    """clang, warnings as errors, ASan + UBSan: everything compiles, the unit tests run, fuzzers too"""
    d = b / 'clang-asan'
    start = time.time()
    rc = configure(d, log, '-Db_sanitize=address,undefined', '-Db_lundef=false', '-Dfuzz=true',
                   env={'CC': 'clang'}) or sh(['ninja', '-C', d], log)
    report('clang build', rc == 0, time.time() - start, log)
    if rc:
        return
    env = {'ASAN_OPTIONS': 'detect_leaks=1:abort_on_error=1', 'UBSAN_OPTIONS': 'halt_on_error=1'}
    meson_tests('unit under ASan and UBSan', d, log, '--suite', 'unit', env=env)
    for target in sorted((d / 'tests/fuzz').glob('fuzz_*')):
        if target.is_dir() or target.suffix:
            continue
        name = target.name.removeprefix('fuzz_')
        corpus = d / 'tests/fuzz' / ('new_' + name)
        corpus.mkdir(exist_ok=True)
        simple(f'fuzz {name}', [target, f'-max_total_time={FUZZ_SECONDS}', '-print_final_stats=0', '-verbosity=0',
                                f'-artifact_prefix={d}/tests/fuzz/', '-rss_limit_mb=1024', corpus,
                                ROOT / 'tests/fuzz/corpus' / name], log)


def step_threads(b, log):
    d = b / 'tsan'
    start = time.time()
    rc = configure(d, log, '-Db_sanitize=thread', '-Db_lundef=false') or sh(['ninja', '-C', d, 'tests/tsan'], log)
    report('TSan build', rc == 0, time.time() - start, log)
    if rc == 0:
        meson_tests('shim under TSan', d, log, '--suite', 'tsan',
                    env={'TSAN_OPTIONS': 'halt_on_error=1:abort_on_error=0'})


def step_options(b, log):
    d = b / 'bare'
    start = time.time()
    rc = configure(d, log, '-Dtests=false', '-Ddocs=disabled', '-Dbuildtype=release') or sh(['ninja', '-C', d], log)
    report('build with every option off', rc == 0, time.time() - start, log)
    stage = b / 'stage'
    simple('install', ['sh', '-c', f'rm -rf {stage} && DESTDIR={stage} meson install -C {d} --no-rebuild && '
                       f'tools/check_install.sh {stage}'], log)


STEPS = [step_tree, step_tests, step_demo, step_sanitizers, step_threads, step_options]


def main():
    b = (ROOT / sys.argv[1]).resolve()
    wanted = sys.argv[2:]
    logs = b / 'check-logs'
    logs.mkdir(parents=True, exist_ok=True)
    start = time.time()
    for step in STEPS:
        name = step.__name__.removeprefix('step_')
        if wanted and name not in wanted:
            continue
        log = logs / f'{name}.log'
        log.unlink(missing_ok=True)
        step(b, log)
    print(f'took {time.time() - start:.0f} s')
    print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''))
    sys.exit(1 if failed or not passed else 0)


main()
