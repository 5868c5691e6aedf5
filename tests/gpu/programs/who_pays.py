#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whom does NVML charge for shared memory, and what remains when its owner dies?  (bare, no allot)

For CUDA IPC, for VMM handles by file descriptor and for pools: an owner makes 1 GiB and exports it, an
importer maps it, then the owner frees it, or dies with kill -9, then the importer closes it.  After
each step: NVML's figure of the owner, of the importer, and of the card.
"""
import ctypes
import os
import socket
import sys
import time

MIB, GIB = 1 << 20, 1 << 30
SIZE = GIB
cu = nv = None
HANDLE = ctypes.c_void_p()


class Proc(ctypes.Structure):
    _fields_ = [('pid', ctypes.c_uint), ('used', ctypes.c_ulonglong), ('gi', ctypes.c_uint), ('ci', ctypes.c_uint)]


class Memory(ctypes.Structure):
    _fields_ = [('total', ctypes.c_ulonglong), ('free', ctypes.c_ulonglong), ('used', ctypes.c_ulonglong)]


class IpcHandle(ctypes.Structure):
    _fields_ = [('reserved', ctypes.c_char * 64)]


class Location(ctypes.Structure):
    _fields_ = [('type', ctypes.c_int), ('id', ctypes.c_int)]


class Prop(ctypes.Structure):
    _fields_ = [('type', ctypes.c_int), ('handles', ctypes.c_int), ('location', Location), ('win32', ctypes.c_void_p),
                ('flags', ctypes.c_ubyte * 8)]


class PoolProps(ctypes.Structure):
    _fields_ = [('type', ctypes.c_int), ('handles', ctypes.c_int), ('location', Location), ('win32', ctypes.c_void_p),
                ('max_size', ctypes.c_size_t), ('usage', ctypes.c_ushort), ('reserved', ctypes.c_ubyte * 54)]


class Access(ctypes.Structure):
    _fields_ = [('location', Location), ('flags', ctypes.c_int)]


class PoolPtr(ctypes.Structure):
    _fields_ = [('reserved', ctypes.c_ubyte * 64)]


def ok(rc, what):
    if rc:
        print(f'    {what}: error {rc}', flush=True)
    return rc == 0


def start():
    global cu
    cu = ctypes.CDLL('libcuda.so.1')
    ctx = ctypes.c_void_p()
    assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) == 0 and cu.cuCtxSetCurrent(ctx) == 0


def send_fd(s, fd):
    socket.send_fds(s, [b'x'], [fd])


def recv_fd(s):
    return socket.recv_fds(s, 1, 1)[1][0]


# each way: the owner's steps and the importer's, as generators that stop after each step

def ipc_owner(s):
    p, h = ctypes.c_uint64(), IpcHandle()
    ok(cu.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(SIZE)), 'cuMemAlloc')
    ok(cu.cuIpcGetMemHandle(ctypes.byref(h), p), 'cuIpcGetMemHandle')
    s.send(bytes(h))
    yield 'made and exported'
    ok(cu.cuMemFree_v2(p), 'cuMemFree')
    yield 'freed'


def ipc_importer(s):
    h, p = IpcHandle.from_buffer_copy(s.recv(64)), ctypes.c_uint64()
    ok(cu.cuIpcOpenMemHandle_v2(ctypes.byref(p), h, 1), 'cuIpcOpenMemHandle')
    yield 'opened'
    ok(cu.cuIpcCloseMemHandle(p), 'cuIpcCloseMemHandle')
    yield 'closed'


def vmm_map(handle):
    p = ctypes.c_uint64()
    a = Access(Location(1, 0), 3)
    ok(cu.cuMemAddressReserve(ctypes.byref(p), ctypes.c_size_t(SIZE), ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0)), 'reserve')
    ok(cu.cuMemMap(p, ctypes.c_size_t(SIZE), ctypes.c_size_t(0), handle, ctypes.c_uint64(0)), 'cuMemMap')
    ok(cu.cuMemSetAccess(p, ctypes.c_size_t(SIZE), ctypes.byref(a), ctypes.c_size_t(1)), 'cuMemSetAccess')
    return p


def vmm_owner(s):
    h, fd, prop = ctypes.c_uint64(), ctypes.c_int(), Prop(1, 1, Location(1, 0))
    ok(cu.cuMemCreate(ctypes.byref(h), ctypes.c_size_t(SIZE), ctypes.byref(prop), ctypes.c_uint64(0)), 'cuMemCreate')
    ok(cu.cuMemExportToShareableHandle(ctypes.byref(fd), h, 1, ctypes.c_uint64(0)), 'cuMemExportToShareableHandle')
    st = os.fstat(fd.value)
    print(f'    the descriptor: dev {st.st_dev:#x} ino {st.st_ino} {os.readlink(f"/proc/self/fd/{fd.value}")}', flush=True)
    send_fd(s, fd.value)
    os.close(fd.value)
    yield 'made and exported'
    ok(cu.cuMemRelease(h), 'cuMemRelease')
    yield 'released'


def vmm_importer(s):
    h, fd = ctypes.c_uint64(), recv_fd(s)
    yield 'holds the descriptor'
    ok(cu.cuMemImportFromShareableHandle(ctypes.byref(h), ctypes.c_void_p(fd), 1), 'cuMemImportFromShareableHandle')
    os.close(fd)
    p = vmm_map(h)
    yield 'imported and mapped'
    ok(cu.cuMemUnmap(p, ctypes.c_size_t(SIZE)), 'cuMemUnmap')
    ok(cu.cuMemRelease(h), 'cuMemRelease')
    yield 'unmapped and released'


def pool_owner(s):
    pool, fd, p, x = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64(), PoolPtr()
    props = PoolProps(1, 1, Location(1, 0))
    ok(cu.cuMemPoolCreate(ctypes.byref(pool), ctypes.byref(props)), 'cuMemPoolCreate')
    ok(cu.cuMemPoolExportToShareableHandle(ctypes.byref(fd), pool, 1, ctypes.c_uint64(0)), 'cuMemPoolExportToShareableHandle')
    ok(cu.cuMemAllocFromPoolAsync(ctypes.byref(p), ctypes.c_size_t(SIZE), pool, None), 'cuMemAllocFromPoolAsync')
    ok(cu.cuStreamSynchronize(None), 'sync')
    ok(cu.cuMemPoolExportPointer(ctypes.byref(x), p), 'cuMemPoolExportPointer')
    send_fd(s, fd.value)
    s.send(bytes(x))
    yield 'made and exported'
    ok(cu.cuMemFreeAsync(p, None), 'cuMemFreeAsync')
    ok(cu.cuStreamSynchronize(None), 'sync')
    ok(cu.cuMemPoolTrimTo(pool, ctypes.c_size_t(0)), 'trim')
    yield 'freed and trimmed'


def pool_importer(s):
    fd, pool, p = recv_fd(s), ctypes.c_void_p(), ctypes.c_uint64()
    x = PoolPtr.from_buffer_copy(s.recv(64))
    ok(cu.cuMemPoolImportFromShareableHandle(ctypes.byref(pool), ctypes.c_void_p(fd), 1, ctypes.c_uint64(0)), 'cuMemPoolImportFromShareableHandle')
    ok(cu.cuMemPoolImportPointer(ctypes.byref(p), pool, ctypes.byref(x)), 'cuMemPoolImportPointer')
    yield 'imported'
    ok(cu.cuMemFreeAsync(p, None), 'cuMemFreeAsync')
    ok(cu.cuStreamSynchronize(None), 'sync')
    yield 'freed'


WAYS = {'ipc': (ipc_owner, ipc_importer), 'vmm': (vmm_owner, vmm_importer), 'pool': (pool_owner, pool_importer)}


def child(steps, s, control):
    start()
    os.write(control, b'r')
    os.read(control, 1)
    for said in steps(s):
        os.write(control, said.encode().ljust(40))
        os.read(control, 1)
    time.sleep(30)


class Child:
    def __init__(self, steps, s):
        mine, its = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            mine.close()
            child(steps, s, its.detach())
            os._exit(0)
        self.control = mine
        assert self.control.recv(1) == b'r'

    def step(self):
        self.control.send(b'g')
        return self.control.recv(40).decode().strip()

    def kill(self):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


def figures(*children):
    time.sleep(0.3)
    n, array, m = ctypes.c_uint(256), (Proc * 256)(), Memory()
    nv.nvmlDeviceGetComputeRunningProcesses_v3(HANDLE, ctypes.byref(n), array)
    nv.nvmlDeviceGetMemoryInfo(HANDLE, ctypes.byref(m))
    by = {array[i].pid: array[i].used // MIB for i in range(n.value)}
    return [by.get(c.pid, 0) for c in children] + [m.used // MIB]


def play(way, killed):
    a, b = socket.socketpair()
    owner, importer = (Child(steps, s) for steps, s in zip(WAYS[way], (a, b)))
    base = figures(owner, importer)

    def show(text):
        now = figures(owner, importer)
        print(f'  {text:44}' + ''.join(f'{n - z:8}' for n, z in zip(now, base)), flush=True)

    print(f'{way}, the owner {"dies" if killed else "gives it back"}:{"owner":>31}{"importer":>9}{"card":>7}  (MiB more than with a context alone)')
    show('owner: ' + owner.step())
    show('importer: ' + importer.step())
    if way == 'vmm':
        show('importer: ' + importer.step())
    if killed:
        owner.kill()
        show('owner: killed')
    else:
        show('owner: ' + owner.step())
    show('importer: ' + importer.step())
    importer.kill()
    if not killed:
        owner.kill()


def main():
    global nv
    nv = ctypes.CDLL('libnvidia-ml.so.1')
    assert nv.nvmlInit_v2() == 0 and nv.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(HANDLE)) == 0
    for way in sys.argv[1:] or WAYS:
        for killed in (False, True):
            play(way, killed)


main()
