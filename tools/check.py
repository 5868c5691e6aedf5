#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything `make check` runs, one step after the other; the last line is "N passed, N failed".

Usage: check.py BUILD [STEP...]     (no step named: all of them, in the order of STEPS)

A step that runs test programs counts every case in them; any other counts as one. A program that
crashes, stops early or takes too long is one failure more. A step that cannot run has failed. What
is skipped must be listed in tests/skips.txt with its reason, else it has failed too.
"""
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FUZZ_SECONDS = int(os.environ.get('ALLOT_FUZZ_SECONDS', '110'))  # for all of them, two at a time
FORMATTER = '14'  # another release of clang-format has another taste
CASE = re.compile(r'(not )?ok\b\s*\d*\s*(?:- )?([^#]*)(?:#\s*(\w+)\s*(.*))?')
SKIP = 77
SHOWN = 30
AGAIN = 3  # so many failed programs are asked again; more are no accident

passed = failed = skipped = 0


def find_unrandomized():
    """sanitizers of older compilers cannot live with the address randomization of newer kernels"""
    way = ['setarch', '-R']
    works = shutil.which('setarch') and subprocess.run([*way, 'true'], check=False,
                                                       stderr=subprocess.DEVNULL).returncode == 0
    return way if works else []


UNRANDOMIZED = find_unrandomized()


def load_skips():
    """[(pattern of "program: case", reason)]"""
    rows = []
    for line in (ROOT / 'tests/skips.txt').read_text().splitlines():
        if line and not line.startswith('#'):
            pattern, _, reason = line.partition('\t')
            rows.append((pattern.strip(), reason.strip()))
    return rows


def sh(args, log, env=None, timeout=1500):
    """run ARGS from the root of the tree; what it says goes to LOG; its exit status"""
    with open(log, 'a', encoding='utf-8') as f:
        f.write('$ ' + ' '.join(map(str, args)) + '\n')
        f.flush()
        try:
            return subprocess.run(list(map(str, args)), cwd=ROOT, stdout=f, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})},
                                  timeout=timeout, check=False).returncode
        except subprocess.TimeoutExpired:
            f.write(f'\ntook longer than {timeout} s\n')
            return 124
        except OSError as error:
            f.write(f'{args[0]}: {error}\n')
            return 127


def report(name, good, bad, start, log, tail=True):
    global passed, failed
    passed += good
    failed += bad
    tests = f'{good + bad} tests, {bad} failed, ' if bad else f'{good} tests, ' if good > 1 else ''
    print(f'{"FAIL" if bad else "ok":5} {name} ({tests}{time.time() - start:.1f} s)', flush=True)
    if bad and tail:
        last_command = pathlib.Path(log).read_text(errors='replace').split('\n$ ')[-1]
        for line in last_command.splitlines()[-40:]:
            print('    ' + line, flush=True)


def skip(name, why):
    """a skip that is listed counts as one; any other is a failure: False"""
    global skipped
    for pattern, reason in load_skips():
        if fnmatch.fnmatchcase(name, pattern) and reason:
            skipped += 1
            print(f'skip  {name}: {why or reason}', flush=True)
            return True
    print(f'      skipped, and tests/skips.txt does not list it: {name} ({why})', flush=True)
    return False


def single(name, args, log, env=None):
    start = time.time()
    rc = sh(args, log, env)
    if rc == SKIP:
        last = pathlib.Path(log).read_text(errors='replace').splitlines()[-1]
        if skip(name, last):
            return
    report(name, int(rc == 0), int(rc != 0), start, log)


def cases_of(record, is_tap):
    """of one program that meson ran: (good, [bad, with what it said], [(skipped, why)])"""
    program = record['name'].split(' / ')[-1]
    good, bad, skips = 0, [], []
    said = (record.get('stdout') or '').splitlines()
    for line in said if is_tap else ():
        m = CASE.fullmatch(line)
        if not m:
            if bad and line.startswith('#') and bad[-1].count('\n') < SHOWN:
                bad[-1] += '\n          ' + line
            continue
        name = f'{program}: {m.group(2).strip() or m.group(4) or "?"}'
        if (m.group(3) or '').upper() == 'SKIP':
            skips.append((name, (m.group(4) or '').strip()))
        elif m.group(1):
            bad.append(name)
        else:
            good += 1
    result = record['result']
    if result == 'SKIP' and not skips:
        skips.append((program, 'exit status 77'))
    elif result == 'OK' and not is_tap:
        good += 1
    elif result == 'OK' and not good and not skips:
        bad.append(f'{program}: has run no test')
    elif result == 'FAIL' and skips and record.get('returncode') == 0 and not bad:
        pass  # cmocka writes "not ok N # SKIP"
    elif result not in ('OK', 'SKIP') and not bad:
        said += (record.get('stderr') or '').splitlines()
        bad.append('\n          '.join([f'{program}: {result}, exit status {record.get("returncode")}', *said[-SHOWN:]]))
    return good, bad, skips


def run_meson(build, log, base, options, env, prefix):
    """meson's tests: (exit status, one record a program)"""
    results = build / 'meson-logs' / (base + '.json')
    results.unlink(missing_ok=True)
    rc = sh([*prefix, 'meson', 'test', '-C', build, '--no-rebuild', '--print-errorlogs', '--logbase', base,
             *options], log, env)
    if not results.exists():
        return rc, []
    return rc, [json.loads(line) for line in results.read_text(errors='replace').splitlines()]


def may_be_the_machine(record):
    """a failure that a busy machine can cause: no crash, and nothing that a sanitizer saw"""
    said = (record.get('stdout') or '') + (record.get('stderr') or '')
    if record['result'] == 'TIMEOUT':
        return True
    return record['result'] in ('FAIL', 'ERROR') and record.get('returncode', -1) > 0 and 'Sanitizer' not in said


def ask_again(records, build, log, base, env, prefix):
    """Few programs that failed an expectation run once more, alone; that is said, whatever comes out."""
    names = [r['name'].split(' / ', 1)[-1] for r in records if may_be_the_machine(r)]
    if not 0 < len(names) <= AGAIN:
        return records
    _, again = run_meson(build, log, base + '-again', ['--num-processes', '1', *names], env, prefix)
    better = {r['name']: r for r in again if r['result'] == 'OK'}
    for r in records:
        if r['name'] in better:
            print(f'      at the second try, alone: {r["name"].split(" / ", 1)[-1]}', flush=True)
    return [better.get(r['name'], r) for r in records]


def meson_tests(name, build, log, suite, *options, env=None, prefix=()):
    start = time.time()
    base = 'check-' + suite
    rc, records = run_meson(build, log, base, ['--suite', suite, *options], env, prefix)
    if rc and records:
        records = ask_again(records, build, log, base, env, prefix)
    good, bad = 0, []
    tests = json.loads((build / 'meson-info/intro-tests.json').read_text()) if records else []
    tests = [t for t in tests if f'allot:{suite}' in t['suite']]
    tap = {t['name'] for t in tests if t['protocol'] == 'tap'}
    if len(records) < len(tests):
        bad.append(f'only {len(records)} of {len(tests)} programs ran')
    for record in records:
        more, wrong, skips = cases_of(record, record['name'].split(' / ', 1)[-1] in tap)
        good += more
        bad += wrong + [s for s, why in skips if not skip(s, why)]
    explained = bool(bad)
    if rc and not bad and not good:
        bad.append(f'meson test ended with {rc}')
    elif not good and not bad:
        bad.append('no test has run')
    for what in bad[:SHOWN]:
        print(f'      failed: {what}', flush=True)
    if len(bad) > SHOWN:
        print(f'      and {len(bad) - SHOWN} more: {log}', flush=True)
    report(name, good, len(bad), start, log, tail=not explained)


def build_tree(name, d, log, options, targets=(), env=None):
    start = time.time()
    rc = 0 if (d / 'build.ninja').exists() else sh(['meson', 'setup', d, *options], log, env)
    rc = rc or sh(['ninja', '--quiet', '-k', '0', '-C', d, *targets], log)
    report(name, int(rc == 0), int(rc != 0), start, log)
    return rc == 0


def fuzz(d, log):
    """the targets of the build D share FUZZ_SECONDS, each from its seeds"""
    targets = sorted(t for t in (d / 'tests/fuzz').glob('fuzz_*') if t.is_file() and not t.suffix)
    if not targets:
        report('fuzzers', 0, 1, time.time(), log)
        return
    seconds = max(2, 2 * FUZZ_SECONDS // len(targets))

    def one(target):
        name = target.name.removeprefix('fuzz_')
        own_log = log.with_name(target.name + '.log')
        own_log.write_text('')
        found = d / 'tests/fuzz' / ('new_' + name)
        found.mkdir(exist_ok=True)
        seeds = [s for s in (d / 'tests/fuzz' / ('seeds_' + name), ROOT / 'tests/fuzz/corpus' / name) if s.is_dir()]
        single(f'fuzz {name}', [*UNRANDOMIZED, target, f'-max_total_time={seconds}', '-verbosity=0', '-len_control=0',
                                f'-artifact_prefix={d}/tests/fuzz/', '-rss_limit_mb=512', '-timeout=5',
                                found, *seeds], own_log,
               env={'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1'})

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(one, targets))


def step_build(b, log):
    """as `make` does it, and with the tests, also where the folder was made before cmocka came"""
    tests = b / 'meson-info/intro-tests.json'
    if tests.exists() and not any('allot:unit' in t['suite'] for t in json.loads(tests.read_text())):
        sh(['meson', 'setup', '--reconfigure', b, '-Dtests=true'], log)
    build_tree('build', b, log, [])
    single('layout', ['tools/layout.sh', b], log)


def step_tree(_b, log):
    single('includes follow the map', ['tools/check_layers.py'], log)
    single('house rules', ['tools/check_tree.py'], log)
    single('table against the toolkit', ['tools/check_abi.py'], log)
    single('table of the protocol', ['tools/protocol.py'], log)
    single('field reports have their tests', ['tools/check_reports.py'], log)
    single('formatter', ['tools/check_format.sh', FORMATTER], log)


def step_tests(b, log):
    single('exports equal the tables', ['tools/check_symbols.py', b], log)
    meson_tests('unit', b, log, 'unit')
    meson_tests('corpora', b, log, 'fuzz')
    meson_tests('integration', b, log, 'integration', '--num-processes', '2')
    meson_tests('conformance', b, log, 'conformance', '--num-processes', '1')
    meson_tests('ratio gates', b, log, 'bench', '--num-processes', '1')


def step_demo(b, log):
    single('demo', ['tools/demo.sh', b, '--check'], log)


def step_sanitizers(b, log):
    """clang, warnings as errors, ASan + UBSan: everything compiles, the unit tests run, fuzzers too"""
    d = b / 'clang-asan'
    options = ['-Db_sanitize=address,undefined', '-Db_lundef=false', '-Dfuzz=true', '-Ddocs=disabled']
    if not build_tree('clang build', d, log, options, env={'CC': 'clang'}):
        return
    meson_tests('unit under ASan and UBSan', d, log, 'unit', '-t', '4', prefix=UNRANDOMIZED,
                env={'ASAN_OPTIONS': 'detect_leaks=1:abort_on_error=1',
                     'UBSAN_OPTIONS': 'halt_on_error=1:abort_on_error=1:print_stacktrace=1'})
    fuzz(d, log)


def step_threads(b, log):
    d = b / 'tsan'
    options = ['-Db_sanitize=thread', '-Db_lundef=false', '-Ddocs=disabled']
    if build_tree('TSan build', d, log, options, ['tsan', 'tsan_parts']):
        single('layout under TSan', ['tools/layout.sh', d], log)
        meson_tests('shim under TSan', d, log, 'tsan', '-t', '4', prefix=UNRANDOMIZED,
                    env={'TSAN_OPTIONS': 'halt_on_error=1'})


def step_options(b, log):
    d, stage = b / 'bare', b / 'stage'
    build_tree('build with every option off', d, log, ['-Dtests=false', '-Ddocs=disabled', '-Dbuildtype=release'])
    shutil.rmtree(stage, ignore_errors=True)
    single('install', ['meson', 'install', '-C', b, '--no-rebuild'], log, env={'DESTDIR': str(stage)})
    single('the installed tree runs jobs', ['tools/check_install.sh', stage, b / 'demo/standin'], log)
    if (ROOT / '.git').exists():
        single('source archive', ['meson', 'dist', '-C', b, '--no-tests', '--allow-dirty', '--formats', 'gztar'], log)
    elif not skip('source archive', 'this tree came out of one'):
        report('source archive', 0, 1, time.time(), log)


STEPS = [step_build, step_tree, step_tests, step_demo, step_sanitizers, step_threads, step_options]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    b = (ROOT / sys.argv[1]).resolve()
    steps = {s.__name__.removeprefix('step_'): s for s in STEPS}
    for name in sys.argv[2:]:
        if name not in steps:
            sys.exit(f"check.py: no step '{name}': {' '.join(steps)}")
    logs = b / 'check-logs'
    start = time.time()
    for name, step in steps.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        began = time.time()
        logs.mkdir(parents=True, exist_ok=True)
        log = logs / f'{name}.log'
        log.write_text('')
        step(b, log)
        print(f'----- {name}: {time.time() - began:.0f} s', flush=True)
    print(f'took {time.time() - start:.0f} s')
    print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''))
    sys.exit(1 if failed or not passed else 0)


if __name__ == '__main__':
    main()
