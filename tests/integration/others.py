# SPDX-License-Identifier: Apache-2.0
"""Being other users and having mounts of one's own: whether that can be had here, and why not."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def why_not():
    """why a test cannot run this tree's programs as other users; None: it can"""
    if os.geteuid() != 0:
        return 'needs root, to be several users'
    for folder in (ROOT, *ROOT.parents):
        if not folder.stat().st_mode & 0o001:
            return f'other users may not enter {folder}: build the tree elsewhere for this'
    return None


def why_no_mounts():
    """the same of a mount namespace (root of a chroot, or without the capability, has none)"""
    if os.geteuid() != 0:
        return 'a mount namespace needs root'
    said = subprocess.run(['unshare', '--mount', 'true'], capture_output=True, text=True, check=False)
    return None if said.returncode == 0 else 'no mount namespace here: ' + said.stderr.strip()


WHY_NOT = why_not()
WHY_NO_MOUNTS = why_no_mounts()
