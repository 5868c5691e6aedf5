# SPDX-License-Identifier: Apache-2.0
"""The jobs' own cgroups as a test sees them: where version 2 is, whose a folder is, its processes."""
import os
import pathlib
import re
import time


def mount():
    """where version 2 is mounted; None"""
    with open('/proc/self/mountinfo', encoding='utf-8') as f:
        for line in f:
            words, kind = line.split(' - ')
            if kind.split()[0] == 'cgroup2' and words.split()[3] == '/':
                return pathlib.Path(words.split()[4].replace('\\040', ' '))
    return None


def of(pid):
    """the cgroup of a process: the path in its own words"""
    with open(f'/proc/{pid}/cgroup', encoding='utf-8') as f:
        for line in f:
            if line.startswith('0::'):
                return line[3:].rstrip('\n')
    return None


def here():
    """the folder of our own cgroup; None"""
    top, path = mount(), of('self')
    return top / path.strip('/') if top and path else None


def is_writable():
    """may a folder be made below our own?"""
    place = here()
    if not place:
        return False
    try:
        (place / f'allot-test-{os.getpid()}').mkdir()
        (place / f'allot-test-{os.getpid()}').rmdir()
        return not pathlib.Path('/run/systemd/system').exists()
    except OSError:
        return False


def tag(state):
    """of the allotd with this state folder, as src/daemon/scope.c makes it"""
    value = 2166136261
    for c in str(state).encode():
        value = (value ^ c) * 16777619 % 2**32
    return f'{value:08x}'


def folders(state):
    """the folders of this allotd's jobs, below our own cgroup"""
    place = here()
    while place:
        try:
            return sorted(place.glob(f'**/allot-job-*-{tag(state)}.scope'))
        except FileNotFoundError:  # folders of others come and go meanwhile
            pass
    return []


def members(folder):
    """all processes in it and below"""
    return sorted(int(p) for f in folder.rglob('cgroup.procs') for p in f.read_text().split())


def clean(state):
    """what is left when allotd was ended before its jobs"""
    end = time.monotonic() + 3
    for folder in reversed(folders(state)):
        for pid in members(folder):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        while folder.exists() and time.monotonic() < end:
            try:
                folder.rmdir()
            except OSError:
                time.sleep(0.01)


def job_of(path):
    """the job's number in a folder's name"""
    m = re.search(r'allot-job-(\d+)-[0-9a-f]{8}\.scope', str(path))
    return int(m.group(1)) if m else None
