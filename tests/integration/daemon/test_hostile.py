# SPDX-License-Identifier: Apache-2.0
"""tenants and other peers that mean harm: what they can reach, and that others do not feel it"""
import contextlib
import ctypes
import os
import signal
import struct
import subprocess
import threading
import time

import wire
from world import GIB, MIB, OK, World

SOON_S = 1.0  # as long as anybody else may be held up, on a machine that is busy


class Hostile(World):
    def neighbour(self):
        """somebody who asks all the time; asserts at the end that it was never held up"""
        _, child = self.program(GIB, 2 * GIB)
        return child

    def served(self, child, what=""):
        start = time.monotonic()
        self.assertEqual(child.need(MIB, flags=1)[1]["result"], OK, what)
        child.give(MIB)
        child.call("VIEW", slot=0)
        self.assertLess(time.monotonic() - start, SOON_S, what)

    def fds_of_daemon(self):
        return len(os.listdir(f"/proc/{self.daemon.pid}/fd"))


class Bells(Hostile):
    def test_a_bell_that_is_rung_and_silenced(self):
        """its open file is shared: without O_NONBLOCK, and emptied before allotd reads it"""
        self.start()
        neighbour = self.neighbour()
        _, child = self.program(MIB, GIB)
        child.begin("ring_and_silence", 1.0)
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            self.served(neighbour)
        child.finish()

    def test_a_bell_that_never_stops(self):
        self.start()
        neighbour = self.neighbour()
        _, child = self.program(MIB, GIB)
        child.begin("ring", 1.0)
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            self.served(neighbour)
        self.assertGreater(child.finish(), 1000)


class Pages(Hostile):
    def test_scribbling_all_the_time(self):
        """every word of the page, while allotd works on it: never more than the limit"""
        self.start()
        neighbour = self.neighbour()
        _, child = self.program(MIB, 512 * MIB)
        child.begin("scribble_all", 1.5)
        end = time.monotonic() + 1.5
        held = 0
        while time.monotonic() < end:
            self.served(neighbour)
            held = max(held, *[i["vram_used_bytes"] for i in self.ps() if i["vram_limit_bytes"] == 512 * MIB])
        child.finish()
        self.assertLessEqual(held, 512 * MIB)
        self.assertEqual(neighbour.need(GIB)[1]["result"], OK)

    def test_pages_of_another(self):
        """a page with the right marks, made by itself or got from a neighbour, is no claim of his"""
        self.start()
        keeper, child = self.program(0, GIB)
        other_keeper, other = self.program(0, 2 * GIB)
        other.need(100 * MIB)
        self.kill_daemon()
        self.start()
        keeper.resume(keeper.job_id)
        other_keeper.resume(other_keeper.job_id)
        child.connect()
        child.forge_page(1 << 40)
        self.assertEqual(child.attach(with_page=True)[0], "ATTACHED")
        other.connect()
        self.assertEqual(other.attach(with_page=True)[0], "ATTACHED")
        by_pid = {i["pid"]: i["vram_used_bytes"] for i in self.ps()}
        self.assertLessEqual(by_pid[child.os_pid], GIB)
        # and the context that whoever holds memory has, until NVML tells
        self.assertIn(by_pid[other.os_pid], range(100 * MIB, 700 * MIB))
        self.assertEqual(other.need(MIB)[1]["result"], OK)

    def test_a_page_with_a_hole(self):
        """its memory is given back under allotd's hands"""
        self.start()
        neighbour = self.neighbour()
        _, child = self.program(MIB, GIB)
        for _ in range(20):
            child.punch()
            self.assertIn(child.need(MIB, flags=1)[1]["result"], (OK, 1, 2))
            self.served(neighbour)

    def test_what_is_no_page(self):
        """write-sealed, of huge pages, secret, a folder, a socket, a pipe, a device"""
        self.start()
        keeper, child = self.program(GIB)
        self.kill_daemon()
        self.start()
        keeper.resume(keeper.job_id)
        before = self.fds_of_daemon()
        for kind in ("sealed", "huge", "large", "folder", "socket", "pipe", "zero", "read-only"):
            other = self.child_of(keeper)
            answer = other.attach_odd(kind)
            self.assertIn(answer, ("ATTACHED", "ERROR"), kind)
            self.assertEqual(self.ask("DAEMON").type, "DAEMON_INFO", kind)
            other.kill()
            keeper.reap()
        child.connect()
        self.assertEqual(child.attach(with_page=True)[0], "ATTACHED")
        self.until(lambda: self.fds_of_daemon() <= before + 4, what="descriptors closed again")


class Fuse(threading.Thread):
    """one file of a file system that answers everything but the close"""

    def __init__(self, path):
        super().__init__(daemon=True)
        with open(path, "w"):
            pass
        self.path, self.flushes = path, 0
        self.dev = os.open("/dev/fuse", os.O_RDWR)
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={self.dev},rootmode=100644,user_id=0,group_id=0,allow_other".encode()
        if libc.mount(b"allot-test", path.encode(), b"fuse", 0, options):
            raise OSError(ctypes.get_errno(), "mount")
        self.start()

    def run(self):
        attr = struct.pack("<6Q10I", 1, 4096, 8, 0, 0, 0, 0, 0, 0, 0o100644, 1, 0, 0, 0, 4096, 0)
        while True:
            try:
                request = os.read(self.dev, 1 << 20)
            except OSError:
                return
            opcode, unique = struct.unpack_from("<IQ", request, 4)
            if opcode == 25:  # FLUSH
                self.flushes += 1
                continue
            body = {26: struct.pack("<4I2H2I2HI", 7, 31, 0, 0, 0, 0, 4096, 1, 1, 0, 0) + bytes(28),  # INIT
                    3: struct.pack("<QII", 60, 0, 0) + attr, 14: struct.pack("<QII", 1, 0, 0)}.get(opcode)
            os.write(self.dev, struct.pack("<IiQ", 16 + len(body or b""), 0 if body else -38, unique) + (body or b""))

    def let_go(self):
        """everything that waits for an answer hears that there is none"""
        ctypes.CDLL(None).umount2(self.path.encode(), 1)  # MNT_FORCE

    def end(self):
        self.let_go()
        ctypes.CDLL(None).umount2(self.path.encode(), 2)  # MNT_DETACH
        os.close(self.dev)


class Files(Hostile):
    def fuse(self):
        try:
            fuse = Fuse(os.path.join(self.dir, "fuse"))
        except OSError as e:
            self.skipTest(f"no file system of one's own here: {e}")
        self.own_file = fuse
        return fuse

    def tearDown(self):
        if hasattr(self, "own_file"):
            self.own_file.end()
        super().tearDown()

    def test_a_file_that_cannot_be_closed(self):
        """sent unasked, and as a page: allotd never waits for it"""
        self.start()
        fuse, neighbour = self.fuse(), self.neighbour()
        fd = os.open(fuse.path, os.O_RDONLY)
        before = self.fds_of_daemon()
        person = wire.Conn(self.socket)
        for _ in range(20):
            person.send("PS", [fd] * 4)
            self.served(neighbour)
        self.assertEqual(fuse.flushes, 0)
        self.assertLess(self.fds_of_daemon() - before, 10)
        for _ in range(200):
            guest = wire.Conn(self.socket)
            guest.call("ATTACH", fds=[fd], role=1, flags=1)
            guest.close()
            self.served(neighbour)
        # a few threads hang with it, and a few more descriptors wait for them: that is all
        self.until(lambda: fuse.flushes > 0)
        self.assertLess(self.fds_of_daemon() - before, 100)
        fuse.let_go()
        self.until(lambda: self.fds_of_daemon() <= before + 2, 5, "descriptors closed at last")
        self.assertEqual(self.program(MIB, GIB)[1].need(MIB)[1]["result"], OK)
        with contextlib.suppress(OSError):  # its file system is gone
            os.close(fd)


class Floods(Hostile):
    def flood(self, neighbour, child, name, **values):
        """one peer that asks without end and does not read"""
        child.begin("flood", name, 1.0, **values)
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            self.served(neighbour, name)
        child.finish()
        self.assertEqual(self.ask("DAEMON").type, "DAEMON_INFO")

    def memory(self):
        with open(f"/proc/{self.daemon.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))

    def test_each_request_without_end(self):
        self.start()
        neighbour = self.neighbour()
        for name, values in (("PS", {}), ("STATUS", {}), ("DAEMON", {}), ("RUN", {"n_gpus": 1}),
                             ("ATTACH", {"role": 1}), ("ATTACH", {"role": 2}), ("SET", {"job_id": 1})):
            before = self.memory()
            self.flood(neighbour, self.actor(), name, **values)
            self.assertLess(self.memory() - before, 48 * 1024, name)

    def test_connections_without_end(self):
        self.start()
        neighbour = self.neighbour()
        crowd = self.actor()
        crowd.begin("knock", 1.5)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            self.served(neighbour)
        crowd.finish()
        self.until(lambda: self.ask("DAEMON").type == "DAEMON_INFO")

    def test_a_stopped_flood(self):
        """thousands of requests, then SIGSTOP: its answers wait for nobody"""
        self.start()
        neighbour = self.neighbour()
        keepers = [self.program(MIB)[0] for _ in range(10)]
        person = self.actor()
        person.begin("flood", "PS", 30.0)
        time.sleep(0.05)
        person.kill(signal.SIGSTOP)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            self.served(neighbour)
        person.kill(signal.SIGKILL)
        self.assertEqual(len([i for i in self.ps() if i["job_id"]]), 11)
        del keepers

    def test_who_never_reads_its_grants(self):
        """what was granted to somebody who never hears of it comes back when he is gone"""
        self.start()
        _, child = self.program(0, 3 * GIB)
        total = self.status()["vram_allocatable_bytes"]
        child.begin("flood", "NEED", 0.7, slot=0, kind=1, bytes=MIB, flags=1)
        child.finish()
        child.kill()
        self.until(lambda: not [i for i in self.ps() if i["pid"] == child.os_pid], 5)
        self.until(lambda: self.status()["vram_held_bytes"] == 0, 5)
        _, other = self.program(0, 0)
        self.assertEqual(other.need(total - GIB)[1]["result"], OK)


class Shares(Hostile):
    def test_keys_that_collide(self):
        """shares whose keys fall into one place of the table: looking them up holds nobody up for long"""
        self.start()
        neighbour = self.neighbour()
        children = [self.program(MIB, GIB // 2)[1] for _ in range(2)]
        for child in children:
            child.begin("share_same_bucket", 2.0)
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            self.served(neighbour)
        for child in children:
            self.assertGreater(child.finish(), 1000)


class Order(Hostile):
    def test_messages_out_of_order(self):
        """what was said once decides what may be said: nothing of it ends allotd or a neighbour"""
        self.start()
        neighbour = self.neighbour()
        keeper, child = self.program(MIB, GIB)

        def refused(actor, message, conn="main", **values):
            answer, body = actor.call(message, conn, **values)
            self.assertEqual(answer, "ERROR", (message, body))
            self.assertTrue(body["text"])
            self.served(neighbour, message)
        refused(child, "RUN", n_gpus=1)  # a program becomes no keeper
        refused(child, "ATTACH", role=1)  # twice
        refused(child, "ATTACH", role=2)  # and no observer either
        refused(child, "CONTEXT_DONE", slot=0, ok=1)  # that nobody asked for
        refused(child, "CONTEXT_DONE", slot=99, ok=1)
        refused(child, "VIEW", slot=16)
        refused(child, "PROCS", slot=1 << 31)
        refused(child, "RESUME", job_id=keeper.job_id)
        refused(child, "KEPT", process=1)
        refused(child, "STARTED", pid=1)
        refused(child, "ENDED", status=0)
        refused(keeper, "RUN", n_gpus=1)
        refused(keeper, "ATTACH", role=1)
        refused(keeper, "KEPT", process=1)  # without RESUME
        refused(keeper, "NEED", slot=0, kind=1, bytes=MIB)
        refused(keeper, "RESUME", job_id=keeper.job_id)
        stranger = self.actor()
        for message in ("NEED", "VIEW", "PROCS", "SETTLE", "CONTEXT_DONE", "KEPT", "STARTED", "ENDED", "END"):
            refused(stranger, message, message)
        self.assertEqual(child.need(MIB)[1]["result"], OK)

    def test_need_of_every_kind_of_nonsense(self):
        self.start()
        neighbour = self.neighbour()
        _, child = self.program(MIB, GIB)
        for values in ({"slot": 1}, {"slot": 16}, {"slot": 2**32 - 1}, {"bytes": 0}, {"bytes": 2**64 - 1},
                       {"bytes": 2**63}, {"kind": 0}, {"kind": 2**32 - 1}, {"flags": 2**32 - 1, "bytes": 2**64 - 1}):
            answer, body = child.call("NEED", **{"slot": 0, "kind": 1, "bytes": MIB, "flags": 1, **values})
            if values == {"bytes": 0}:
                self.assertEqual((answer, body["result"]), ("GRANT", OK))
            else:
                self.assertTrue(answer == "ERROR" or body["result"] != OK, (values, body))
            self.served(neighbour)
        held = [i["vram_used_bytes"] for i in self.ps() if i["pid"] == child.os_pid]
        self.assertEqual(held, [0])

    def test_a_keeper_that_lies_about_its_command(self):
        """STARTED and ENDED with numbers that are nobody's, or somebody else's"""
        self.start()
        neighbour = self.neighbour()
        keeper, child = self.program(MIB, GIB)
        for pid in (0, -1, 1, 2**31 - 1, -2**31, self.daemon.pid, neighbour.os_pid, os.getpid()):
            keeper.send("STARTED", pid=pid)
        self.served(neighbour)
        neighbour_job = [i["job_id"] for i in self.ps() if i["pid"] == neighbour.os_pid]
        keeper.send("ENDED", status=2**32 - 1)
        self.served(neighbour)
        self.assertEqual([i["job_id"] for i in self.ps() if i["pid"] == neighbour.os_pid], neighbour_job)


class Adoption(Hostile):
    def adopt(self, fds, **values):
        conn = wire.Conn(self.socket)
        try:
            answer = conn.call("ADOPT", fds=fds, name="x", **values)
            return answer.type, answer.body["code"], answer.body["text"]
        finally:
            conn.close()

    def test_what_comes_with_it(self):
        """only a pidfd of a living process that uses a GPU; nothing is kept of the rest"""
        self.start()
        neighbour = self.neighbour()
        before = self.fds_of_daemon()
        dead = subprocess.Popen(["sleep", "60"])
        idle = subprocess.Popen(["sleep", "60"])
        gone, there = os.pidfd_open(dead.pid), os.pidfd_open(idle.pid)
        null, (a, b) = os.open("/dev/null", os.O_RDONLY), os.pipe()
        dead.kill()
        self.assertIn(self.adopt([gone])[:2], (("ERROR", 1), ("ERROR", 2), ("ERROR", 6)))  # dying, or a zombie
        dead.wait()
        self.assertEqual(self.adopt([gone])[:2], ("ERROR", 6))
        for fds, code, words in (([], 2, "one pidfd"), ([there, there], 2, "one pidfd"), ([null], 2, "no pidfd"),
                                 ([a], 2, "no pidfd"), ([there], 1, "neither it nor a child")):
            kind, got, text = self.adopt(fds, pid=idle.pid)
            self.assertEqual((kind, got), ("ERROR", code), text)
            self.assertIn(words, text)
            self.served(neighbour)
        for values in ({"request": 1, "request_permille": 5}, {"limit_permille": 1001}, {"job_class": 7}):
            self.assertEqual(self.adopt([there], **values)[:2], ("ERROR", 2), values)
        idle.kill()
        idle.wait()
        for fd in (gone, there, null, a, b):
            os.close(fd)
        self.until(lambda: self.fds_of_daemon() <= before, what="the descriptors are closed")


if __name__ == "__main__":
    import tap
    tap.main()
