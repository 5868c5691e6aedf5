#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An outsider who reads NVML all the time: the most that the children of one parent held together.

    watch.py FOLDER       FOLDER/libnvidia-ml.so.1 is the library; until stdin ends

One line a parent and GPU: PARENT GPU MOST_BYTES; then "samples N"."""
import ctypes
import os
import sys
import threading
import time

PAUSE_S = 0.001


class Info(ctypes.Structure):
    _fields_ = [('pid', ctypes.c_uint), ('used', ctypes.c_ulonglong), ('gi', ctypes.c_uint), ('ci', ctypes.c_uint)]


def parent_of(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='latin-1') as f:
            return int(f.read().rsplit(')', 1)[1].split()[1])
    except OSError:
        return 0


class Watch:
    def __init__(self, folder):
        os.environ['ALLOT_SIM_DIR'] = folder
        self.lib = ctypes.CDLL(os.path.join(folder, 'libnvidia-ml.so.1'))
        count = ctypes.c_uint()
        assert self.lib.nvmlInit_v2() == 0
        assert self.lib.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
        self.devices = []
        for i in range(count.value):
            handle = ctypes.c_void_p()
            assert self.lib.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(handle)) == 0
            self.devices.append(handle)
        self.parents = {}
        self.most = {}
        self.samples = 0

    def look(self):
        room = (Info * 1024)()
        for gpu, device in enumerate(self.devices):
            n = ctypes.c_uint(len(room))
            r = self.lib.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(n), room)
            assert r == 0, r
            now = {}
            for info in room[:n.value]:
                parent = self.parents.get(info.pid) or parent_of(info.pid)
                self.parents[info.pid] = parent
                now[parent] = now.get(parent, 0) + info.used
            for parent, used in now.items():
                key = parent, gpu
                self.most[key] = max(self.most.get(key, 0), used)
        self.samples += 1


def main():
    ended = threading.Event()
    watch = Watch(sys.argv[1])
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    print('watching', flush=True)
    while not ended.is_set():
        watch.look()
        time.sleep(PAUSE_S)
    for (parent, gpu), used in watch.most.items():
        print(parent, gpu, used)
    print('samples', watch.samples)


if __name__ == '__main__':
    main()
