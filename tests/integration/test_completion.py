#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What completion offers, and that bash, zsh and fish really complete by it; the manual page against the tables."""
import os
import pty
import re
import select
import shutil
import subprocess
import time
import unittest

import tap
import world
from world import ALLOT, BUILD, ROOT, until


class Offers(world.World):
    PROFILE = 'h200x2'

    def offers(self, *words, **env):
        r = self.cli('__complete', *words, **env)
        self.assertEqual((r.returncode, r.stderr), (0, ''))
        return [line.split('\t')[0] for line in r.stdout.splitlines()]

    def test_verbs(self):
        self.assertIn('run', self.offers(''))
        self.assertEqual(self.offers('st'), ['status'])
        self.assertEqual(self.offers('help', 'st'), ['status'])
        self.assertEqual(self.offers('no-such', ''), [])

    def test_options(self):
        self.assertEqual(self.offers('run', '--wait'), ['--wait-timeout'])
        self.assertIn('-m', self.offers('run', '-'))
        self.assertEqual(self.offers('ps', '--n'), ['--no-header'])
        self.assertNotIn('--vram', self.offers('ps', '--'))

    def test_values(self):
        self.assertEqual(self.offers('run', '--class', ''), ['latency', 'normal', 'batch'])
        self.assertEqual(self.offers('run', '--class=b'), ['--class=batch'])
        self.assertEqual(self.offers('ps', '-o', 'j'), ['json'])
        self.assertEqual(self.offers('run', '-J', ''), [])
        self.assertEqual(self.offers('cancel', '-s', 'KI'), ['KILL'])
        self.assertEqual(self.offers('config', 'ch'), ['check'] + [o for o in self.offers('config', 'ch') if o == ':files'])
        self.assertEqual(self.offers('ps', '--socket', ''), [':files'])

    def test_the_command_is_the_shells(self):
        self.assertEqual(self.offers('run', '-m', '3G', 'py'), [':command 3'])
        self.assertEqual(self.offers('run', '-m', '3G', '--', ''), [':command 4'])
        self.assertEqual(self.offers('run', '-d', 'python', '--vr'), [':command 2'])

    def test_jobs_and_gpus(self):
        self.start_job('-J', 'a', '--', 'sleep', '60')
        job = str(until(lambda: self.ps('a'))[0]['job'])
        for verb in ('cancel', 'set', 'why', 'wait', 'logs', 'show'):
            self.assertIn(job, self.offers(verb, ''), verb)
        self.assertEqual(self.offers('run', '-g', ''), ['0', '1'])
        self.assertEqual(self.offers('run', '-g', '0,'), ['0,0', '0,1'])
        self.assertEqual(self.offers('run', '--gpu=0,1'), ['--gpu=0,1'])
        uuid = self.status()[1]['gpu']
        self.assertIn(uuid, self.offers('run', '-g', 'GPU-'))
        self.assertEqual(self.offers('wait', '--socket', self.socket, '', ALLOT_SOCKET='/none'), [job])

    def test_without_a_daemon_nothing_is_said(self):
        self.stop_daemon()
        self.assertEqual(self.offers('cancel', ''), [])
        self.assertEqual(self.offers('run', '-g', ''), [])
        self.assertEqual(self.offers('show', 'n'), ['node'])


class Shells(world.World):
    PROFILE = 'h200x2'

    def setUp(self):
        super().setUp()
        self.start_job('-J', 'a', '--', 'sleep', '60')
        self.job = str(until(lambda: self.ps('a'))[0]['job'])
        bin = self.dir / 'bin'
        bin.mkdir()
        (bin / 'allot').symlink_to(ALLOT)
        self.shell_env = {**self.env, 'PATH': f'{bin}:{self.env["PATH"]}', 'TERM': 'dumb', 'LANG': 'C.UTF-8'}

    def cases(self):
        """a line, and what must be offered for its last word, and what must not"""
        yield 'allot st', ['status'], ['run']
        yield 'allot run --cl', ['--class'], ['--vram']
        yield 'allot run --class ', ['latency', 'normal', 'batch'], []
        yield 'allot cancel ', [self.job], []
        yield 'allot ps -o ', ['table', 'json', 'csv'], []

    def bash(self, line):
        words = line.split(' ')
        script = f'''eval "$(allot completion bash)"
COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}
compopt() {{ :; }}
_allot allot {words[-1]!r} {words[-2]!r}
printf '%s\\n' "${{COMPREPLY[@]}}"'''
        r = subprocess.run(['bash', '--norc', '-c', script], env=self.shell_env, capture_output=True, text=True, timeout=20)
        self.assertEqual(r.stderr, '')
        return r.stdout.split()

    def test_bash(self):
        for line, offered, not_offered in self.cases():
            got = self.bash(line)
            self.assertEqual([w for w in offered if w not in got], [], (line, got))
            self.assertEqual([w for w in not_offered if w in got], [], (line, got))
        # bash's own words end at '=' and ':'
        self.assertEqual(self.bash('allot run --class=l'), ['latency'])
        self.assertIn('bash', self.bash('allot run -m 3G ba'))

    def on_terminal(self, shell, prepare, typed, expected):
        """type into a real shell, with a tab, until what is expected stands there"""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe(shell[0], shell, self.shell_env)
        said = ''

        def read(until_text, seconds=15):
            nonlocal said
            end = time.monotonic() + seconds
            while until_text not in said and time.monotonic() < end:
                if select.select([terminal], [], [], 0.2)[0]:
                    try:
                        said += os.read(terminal, 4096).decode(errors='replace')
                    except OSError:
                        break
            return until_text in said
        try:
            os.write(terminal, (prepare + "; echo rea''dy\n").encode())
            self.assertTrue(read('ready\r\n') or read('ready', 1), said)
            time.sleep(0.3)
            said = ''
            os.write(terminal, typed.encode())
            self.assertTrue(read(expected), said)
        finally:
            os.kill(pid, 9)
            os.close(terminal)
            os.waitpid(pid, 0)

    def test_bash_on_a_terminal(self):
        self.on_terminal(['bash', '--norc', '--noprofile'], 'eval "$(allot completion bash)"', 'allot stat\t', 'allot status ')
        self.on_terminal(['bash', '--norc', '--noprofile'], 'eval "$(allot completion bash)"', 'allot run --class=lat\t',
                         'allot run --class=latency')

    @unittest.skipUnless(shutil.which('zsh'), 'needs zsh')
    def test_zsh(self):
        subprocess.run(['zsh', '-n', str(ROOT / 'data/completion/allot.zsh')], check=True)
        prepare = 'PS1=""; autoload -U compinit; compinit -u -D; eval "$(allot completion zsh)"'
        for typed, expected in (('allot stat\t', 'status '), ('allot run --imm\t', '--immediate '),
                                ('allot run --class lat\t', 'latency ')):
            self.on_terminal(['zsh', '-f', '-i'], prepare, typed, expected)

    @unittest.skipUnless(shutil.which('fish'), 'needs fish')
    def test_fish(self):
        for line, offered, not_offered in self.cases():
            r = subprocess.run(['fish', '--no-config', '-c', f'allot completion fish | source; complete -C {line!r}'],
                               env=self.shell_env, capture_output=True, text=True, timeout=30)
            got = [w.split('\t')[0] for w in r.stdout.splitlines()]
            self.assertEqual([w for w in offered if w not in got], [], (line, got, r.stderr))
            self.assertEqual([w for w in not_offered if w in got], [], (line, got))
        r = subprocess.run(['fish', '--no-config', '-c', 'allot completion fish | source; complete -C "allot run -m 3G -- fis"'],
                           env=self.shell_env, capture_output=True, text=True, timeout=30)
        self.assertIn('fish', [w.split('\t')[0] for w in r.stdout.splitlines()], r.stderr)

    def test_other_words(self):
        self.assertEqual(self.cli('completion').returncode, 2)
        self.assertEqual(self.cli('completion', 'tcsh').returncode, 2)


class Page(world.World):
    """allot(1) and the tables behind --help have the same verbs and options, both ways"""
    START = False

    def setUp(self):
        super().setUp()
        page = (ROOT / 'docs/man/allot.1.scd').read_text(encoding='utf-8')
        verbs = page.split('# VERBS\n')[1].split('\n# ')[0]
        self.sections = {}
        for section in re.split(r'^## ', verbs, flags=re.M)[1:]:
            self.sections[section.split()[0]] = section
        self.common = set(re.findall(r'\*(?:-\w, )?--([\w-]+)\*', verbs.split('## OPTIONS OF ALL VERBS')[1])) \
            if '## OPTIONS OF ALL VERBS' in verbs else set()

    def table(self, verb):
        """name: (letter, takes a value)"""
        out = self.cli(verb, '--help').stdout
        found = {}
        for line in out.split('\nOptions:\n')[1].splitlines():
            m = re.match(r'  (?:-(\w),|   ) --([\w-]+)( \S+)?', line)
            self.assertTrue(m, line)
            found[m[2]] = (m[1], m[3] is not None)
        return found

    def page(self, section):
        found = {}
        for m in re.finditer(r'^\*(?:-(\w), )?--([\w-]+)\*( .*)?$', section, flags=re.M):
            found[m[2]] = (m[1], bool(m[3]))
        return found

    def verbs(self):
        said = self.cli('--help').stdout.split('Verbs:\n')[1].split('\n\n')[0]
        return [line.split()[0] for line in said.splitlines()]

    def test_the_same_verbs(self):
        self.assertEqual(set(self.verbs()), set(self.sections) - {'OPTIONS'})

    def test_the_same_options(self):
        common = self.page(self.sections['OPTIONS'])
        self.assertIn('socket', common)
        for verb in self.verbs():
            table, page = self.table(verb), self.page(self.sections[verb])
            self.assertEqual({n: o for n, o in table.items() if n not in common or n in page}, page, verb)
            for name in set(table) & set(common) - set(page):
                self.assertEqual(table[name], common[name], (verb, name))


if __name__ == '__main__':
    tap.main()
