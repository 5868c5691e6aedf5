# SPDX-License-Identifier: Apache-2.0
"""A world of its own for each test: an allotd with simulated GPUs, and actors.

An actor is a process that the test commands over a socket: it connects to allotd, keeps a job,
plays a shim, or really allocates from the simulated driver.  Actors fork further actors, so that
parents and children are what the kernel says they are.
"""
import ctypes
import fcntl
import mmap
import multiprocessing.connection as mpc
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

import cgroups
import wire
from wire import GIB, MIB  # noqa: F401  (for the tests)

ALLOTD = os.environ["ALLOTD"]
SLOT = struct.Struct("<QIIQ")
OK, OVER_LIMIT, FULL, CIRCLE, NO_LEASE = range(5)
PR_SET_CHILD_SUBREAPER = 36


# whoever started us in the background or under nohup ignored these; tests mean the usual
for _sig in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_sig) is signal.SIG_IGN:
        signal.signal(_sig, signal.SIG_DFL)


class Body:
    """what an actor can do; every method is called from the test by Actor.__getattr__"""

    def __init__(self, path, control):
        self.path, self.control = path, control
        self.conns = {}
        self.page = self.page_fd = self.bell = None
        self.pages = {}
        self.cuda_library = None

    # -- connections
    def connect(self, name="main"):
        self.conns[name] = wire.Conn(self.path)

    def conn(self, name="main"):
        if name not in self.conns:
            self.connect(name)
        return self.conns[name]

    def recv_first(self):
        """what allotd says before it was asked anything"""
        self.connect()
        return self.recv()[:2]

    def crowd(self, count):
        """connections that say nothing; what the first one hears that is not served"""
        crowd = [wire.Conn(self.path) for _ in range(count)]
        for conn in reversed(crowd):
            try:
                return conn.recv(timeout=0.5).body["text"]
            except TimeoutError:
                continue
        return ""

    def close(self, name="main"):
        self.conns.pop(name).close()

    def send(self, message, conn="main", /, **values):
        return self.conn(conn).send(message, **values)

    def send_raw(self, data, conn="main"):
        self.conn(conn).send_raw(data)

    def recv(self, conn="main", timeout=5.0):
        m = self.conn(conn).recv(timeout)
        if m.type == "KEEP":
            self.pages[m.body["process"]] = m.fds[0]
        elif m.type == "DROP":
            fd = self.pages.pop(m.body["process"], None)
            if fd is not None:
                os.close(fd)
        return m.type, m.body, len(m.fds)

    def call(self, message, conn="main", /, timeout=5.0, **values):
        self.send(message, conn, **values)
        return self.recv(conn, timeout)[:2]

    def list(self, message, item, **values):
        conn = wire.Conn(self.path)
        try:
            return conn.list(message, item, **values)
        finally:
            conn.close()

    # -- a keeper
    def run(self, request=0, limit=0, wait=wire.UNKNOWN, when_full=wire.UNKNOWN, conn="main",
            **more):
        values = dict(request=request, limit=limit, job_class=1, n_gpus=1, admit_wait_ns=wait,
                      when_full_wait=1, when_full_ns=when_full, name="job", command="job now")
        values.update(more)
        return self.call("RUN", conn, **values)

    def be_subreaper(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def resume(self, job, timeout=5.0):
        """as a keeper does it after a restart of allotd, until it is answered"""
        end = time.monotonic() + timeout
        while True:
            try:
                self.connect()
                conn = self.conn()
                conn.send("RESUME", job_id=job, n_pages=len(self.pages))
                for process, fd in self.pages.items():
                    conn.send("KEPT", [fd], process=process)
                conn.send("END", count=len(self.pages))
                while True:
                    answer = self.recv()
                    if answer[0] in ("OK", "ERROR"):
                        return answer[:2]
            except (OSError, wire.Closed):
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def held_pages(self):
        return sorted(self.pages)

    # -- a shim
    def attach(self, conn="main", role=1, stream=0, with_page=False):
        fds = [self.page_fd] if with_page else []
        c = self.conn(conn)
        c.send("ATTACH", fds, role=role, stream=stream, flags=int(with_page))
        m = c.recv()
        for fd in m.fds:
            if os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:"):
                self.page_fd = fd
                self.page = mmap.mmap(fd, 4096)
            else:
                self.bell = fd
        return m.type, m.body, len(m.fds)

    def credit(self, slot=0):
        """credit, wanted, granted of the page"""
        credit, wanted, _, granted = SLOT.unpack_from(self.page, 64 + 64 * slot)
        return credit, wanted, granted

    def give(self, count, slot=0):
        """free: into the credit word; rings when somebody wants it"""
        at = 64 + 64 * slot
        word = ctypes.c_uint64.from_buffer(self.page, at)
        word.value += count
        if ctypes.c_uint32.from_buffer(self.page, at + 8).value:
            os.write(self.bell, struct.pack("<Q", 1))
            return True
        return False

    def take(self, count, slot=0):
        word = ctypes.c_uint64.from_buffer(self.page, 64 + 64 * slot)
        if word.value < count:
            return False
        word.value -= count
        return True

    def scribble(self, value, slot=0):
        """what a bad tenant writes into its page"""
        ctypes.c_uint64.from_buffer(self.page, 64 + 64 * slot).value = value

    def need(self, count, conn="main", timeout=5.0, slot=0, kind=1, flags=0):
        return self.call("NEED", conn, timeout=timeout, slot=slot, kind=kind, bytes=count, flags=flags)

    def attach_false(self, kind):
        """with something that is no page of allotd's"""
        fd = os.open("/dev/null", os.O_RDWR) if kind == "null" else os.memfd_create(
            "false", os.MFD_ALLOW_SEALING)
        if kind != "null":
            os.ftruncate(fd, 100 if kind == "small" else 4096)
        if kind in ("small", "marks"):
            fcntl.fcntl(fd, 1033, 0x2 | 0x4)  # F_ADD_SEALS, shrink and grow
        self.page_fd = fd
        return self.attach(with_page=True)

    # -- one of many who wait
    def use_pipe(self, fd, number):
        self.pipe, self.number, self.waits = fd, number, {}

    def wait_for(self, count, at):
        """NEED on a connection of its own, like a further thread; the answer comes to hear_all"""
        conn = wire.Conn(self.path)
        assert conn.call("ATTACH", role=1, stream=at + 1).type == "ATTACHED"
        conn.send("NEED", slot=0, kind=1, bytes=count)
        self.waits[conn.sock] = conn, at, count

    def hear_all(self, seconds):
        """each answer into the pipe; what was granted goes back at once, for the next one"""
        end = time.monotonic() + seconds
        while self.waits and time.monotonic() < end:
            for sock in select.select(list(self.waits), [], [], 0.5)[0]:
                conn, at, count = self.waits.pop(sock)
                m = conn.recv()
                more = len(select.select([sock], [], [], 0)[0])
                os.write(self.pipe, struct.pack("<IIQ", self.number << 8 | at, m.body["result"], 1 + more))
                if m.body["result"] == OK:
                    self.give(count)

    # -- somebody who means harm
    def ring(self, seconds):
        end, n = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            os.write(self.bell, struct.pack("<Q", 1))
            n += 1
        return n

    def ring_and_silence(self, seconds):
        """the bell's file is allotd's, too: blocking, and read before allotd can"""
        os.set_blocking(self.bell, True)
        test, readers = os.getpid(), []
        for _ in range(2):
            readers.append(os.fork())
            if readers[-1] == 0:
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
                while os.getppid() == test:
                    os.read(self.bell, 8)
                os._exit(0)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            os.write(self.bell, struct.pack("<Q", 1))
        for reader in readers:
            os.kill(reader, signal.SIGKILL)
            os.waitpid(reader, 0)

    def scribble_all(self, seconds):
        end = time.monotonic() + seconds
        values = [2**64 - 1, 0, 1 << 63, 1, 1 << 40]
        words = [ctypes.c_uint64.from_buffer(self.page, at) for at in range(0, 4096, 8)]
        while time.monotonic() < end:
            for i, word in enumerate(words):
                word.value = values[i % len(values)]
            values.append(values.pop(0))

    def punch(self):
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.fallocate(self.page_fd, 3, ctypes.c_long(0), ctypes.c_long(4096)) == 0  # PUNCH_HOLE | KEEP_SIZE

    def forge_page(self, claim):
        """the marks of a real one, and a claim of one's own"""
        head = bytes(self.page[:64])
        fd = os.memfd_create("forged", os.MFD_ALLOW_SEALING)
        os.write(fd, head + SLOT.pack(0, 0, 0, claim) + bytes(4096 - 64 - SLOT.size))
        fcntl.fcntl(fd, 1033, 0x2 | 0x4)  # F_ADD_SEALS, shrink and grow
        self.page_fd = fd

    def attach_odd(self, kind):
        """ATTACH with a descriptor of a kind that allotd does not expect"""
        seals = 0x2 | 0x4
        if kind in ("sealed", "large", "read-only"):
            fd = os.memfd_create("odd", os.MFD_ALLOW_SEALING)
            os.ftruncate(fd, 8192 if kind == "large" else 4096)
            fcntl.fcntl(fd, 1033, seals | (0x8 if kind == "sealed" else 0))
            if kind == "read-only":
                fd = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
        elif kind == "huge":
            try:
                fd = os.memfd_create("odd", os.MFD_ALLOW_SEALING | os.MFD_HUGETLB)
            except OSError:
                fd = os.memfd_create("odd")
        elif kind == "folder":
            fd = os.open("/", os.O_RDONLY)
        elif kind == "socket":
            fd = self.conn("other").sock.fileno()
        elif kind == "pipe":
            fd = os.pipe()[0]
        else:
            fd = os.open("/dev/zero", os.O_RDWR)
        c = self.conn()
        c.send("ATTACH", [fd], role=1, flags=1)
        return c.recv().type

    def share_same_bucket(self, seconds):
        """SHARE_OUT of keys that a table of any power of two cannot tell apart"""
        conn, end, n = self.conn(), time.monotonic() + seconds, 0
        while time.monotonic() < end:
            conn.sock.settimeout(0.2)
            conn.sock.send(wire.pack("SHARE_OUT", 1, key=n << 40 | os.getpid() << 16, slot=0, bytes=1))
            conn.recv(2.0)
            n += 1
        return n

    def flood(self, message, seconds, **values):
        """requests as fast as they are taken, whatever is answered; anew when it is thrown out"""
        packet = wire.pack(message, 1, **values)
        conn = self.conns.pop("main", None) or wire.Conn(self.path)
        end, n = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            try:
                conn.sock.settimeout(0.02)
                conn.sock.send(packet)
                n += 1
            except TimeoutError:
                pass
            except OSError:
                conn = wire.Conn(self.path)
        return n

    def knock(self, seconds):
        """connections that come, say half a word and go"""
        end, n = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                s.connect(self.path)
                if n % 2:
                    s.send(b"ALOT")
            except OSError:
                pass
            s.close()
            n += 1
        return n

    # -- a program of the simulated driver
    def cuda(self, folder):
        lib = self.cuda_library = ctypes.CDLL(os.path.join(folder, "libcuda.so.1"))
        context = ctypes.c_void_p()
        assert lib.cuInit(0) == 0
        assert lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert lib.cuCtxSetCurrent(context) == 0

    def cuda_alloc(self, count):
        pointer = ctypes.c_uint64()
        code = self.cuda_library.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(count))
        return code, pointer.value

    def cuda_free(self, pointer):
        return self.cuda_library.cuMemFree_v2(ctypes.c_uint64(pointer))

    # -- life
    def pid(self):
        return os.getpid()

    def fork(self):
        """a child that is an actor, too; the test accepts it"""
        pid = os.fork()
        if pid == 0:
            for conn in self.conns.values():
                conn.close()
            serve(self.path, self.control)
        return pid

    def fork_orphan(self):
        """a child whose parent has ended (a double fork)"""
        pid = os.fork()
        if pid == 0:
            if os.fork():
                os._exit(0)
            serve(self.path, self.control)
        os.waitpid(pid, 0)

    def become_again(self):
        """exec: the same process with everything of before gone"""
        os.execv(sys.executable, [sys.executable, os.path.join(os.path.dirname(__file__),
                                                               "world.py"),
                                  self.path, self.control])

    def reap(self):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    def ignore(self, sig):
        signal.signal(sig, signal.SIG_IGN)

    def setsid(self):
        os.setsid()

    def become_user(self, uid):
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)


def serve(path, control):
    link = mpc.Client(control, "AF_UNIX")
    body = Body(path, control)
    link.send(os.getpid())
    try:
        while True:
            name, args, values = link.recv()
            try:
                result = (True, getattr(body, name)(*args, **values))
            except Exception as e:  # goes to the test, which asked for it
                result = (False, (type(e).__name__, str(e), traceback.format_exc()))
            link.send(result)
    except (EOFError, OSError):
        os._exit(0)


class ActorError(Exception):
    pass


class Actor:
    """the test's end of an actor: actor.method(...) runs Body.method over there"""

    def __init__(self, link):
        self.link = link
        self.os_pid = link.recv()

    def begin(self, name, /, *args, **values):
        self.link.send((name, args, values))

    def finish(self, timeout=10.0):
        if not self.link.poll(timeout):
            raise TimeoutError("the actor does not answer")
        good, result = self.link.recv()
        if good:
            return result
        kind, text, trace = result
        raise {"TimeoutError": TimeoutError, "Closed": wire.Closed}.get(kind, ActorError)(
            text or trace)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*args, **values):
            self.begin(name, *args, **values)
            return self.finish()
        return call

    def kill(self, sig=signal.SIGKILL):
        os.kill(self.os_pid, sig)


class World(unittest.TestCase):
    profile = "small4g"
    mode = ["--user"]

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="allot-")
        self.socket = os.path.join(self.dir, "s")
        self.state = os.path.join(self.dir, "state")
        self.config = os.path.join(self.dir, "allot.yaml")
        self.control = os.path.join(self.dir, "control")
        self.listener = mpc.Listener(self.control, "AF_UNIX", backlog=1024)
        self.log = open(os.path.join(self.dir, "log"), "a+")
        self.daemon = None
        self.actors = []

    def tearDown(self):
        for actor in self.actors:
            try:
                os.kill(actor.os_pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            actor.link.close()
        code = self.stop() if self.daemon else 0
        self.reap()
        self.log.flush()
        self.log.seek(0)
        text = self.log.read()
        self.log.close()
        self.listener.close()
        cgroups.clean(self.state)
        shutil.rmtree(self.dir)
        self.assertEqual(code, 0, text)
        for bad in ("AddressSanitizer", "runtime error", "LeakSanitizer"):
            self.assertNotIn(bad, text)

    def reap(self):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    # -- the daemon
    def start(self, *more, before=None):
        ready, theirs = os.pipe()
        self.daemon = subprocess.Popen(
            [ALLOTD, "--foreground", *self.mode, f"--config=-{self.config}", "--socket", self.socket, "--state", self.state,
             f"--sim={self.profile}", "--ready-fd", str(theirs), *more],
            pass_fds=[theirs], stderr=self.log, stdout=self.log, preexec_fn=before)
        os.close(theirs)
        got = os.read(ready, 1)
        os.close(ready)
        if not got:
            self.daemon.wait(10)
            self.fail(self.log_text())

    def log_text(self):
        self.log.flush()
        with open(self.log.name) as f:
            return f.read()

    def stop(self):
        """gently; the exit code"""
        self.daemon.terminate()
        code = self.daemon.wait(10)
        self.daemon = None
        return code

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait(10)
        self.daemon = None

    @property
    def sim(self):
        return os.path.join(self.dir, "sim")

    # -- actors
    def accept(self):
        actor = Actor(self.listener.accept())
        self.actors.append(actor)
        return actor

    def actor(self):
        """a child of the test: in no job"""
        if os.fork() == 0:
            self.listener.close()
            serve(self.socket, self.control)
        return self.accept()

    def child_of(self, actor):
        actor.fork()
        return self.accept()

    def job(self, request=0, limit=0, **more):
        """a keeper whose job is admitted, and its first child"""
        keeper = self.actor()
        keeper.be_subreaper()
        answer, body = keeper.run(request, limit, **more)
        self.assertEqual(answer, "ADMITTED", body)
        keeper.job_id = body["job_id"]
        return keeper, self.child_of(keeper)

    def program(self, request=0, limit=0, **more):
        """as job, and the child has attached"""
        keeper, child = self.job(request, limit, **more)
        answer, body, n_fds = child.attach()
        self.assertEqual((answer, n_fds), ("ATTACHED", 2), body)
        keeper.recv()  # KEEP
        return keeper, child

    # -- looking
    def ask(self, name, /, **values):
        conn = wire.Conn(self.socket)
        try:
            return conn.call(name, **values)
        finally:
            conn.close()

    def ps(self):
        conn = wire.Conn(self.socket)
        try:
            return conn.list("PS", "PS_ITEM")
        finally:
            conn.close()

    def status(self, gpu=0):
        conn = wire.Conn(self.socket)
        try:
            return conn.list("STATUS", "STATUS_ITEM")[gpu]
        finally:
            conn.close()

    def until(self, condition, timeout=3.0, what="it"):
        end = time.monotonic() + timeout
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > end:
                self.fail(f"{what} did not come true in {timeout} s: {self.log_text()}")
            time.sleep(0.01)

    def assert_nothing_held(self, timeout=3.0):
        """no job, no process, all of the card to be promised again"""
        self.until(lambda: not self.ps(), timeout, "an empty ps")
        s = self.status()
        self.assertEqual(s["vram_held_bytes"], 0)
        self.assertEqual(s["vram_requested_bytes"], 0)
        self.assertEqual(s["n_jobs"], 0)
        self.assertEqual(s["vram_grantable_bytes"], s["vram_allocatable_bytes"])


def raw_socket(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(path)
    return s


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2])
