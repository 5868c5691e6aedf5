# SPDX-License-Identifier: Apache-2.0
"""two hundred who wait at once: the order of class and age, seen from outside; none is forgotten

Who waits for a place are processes of their own (each a keeper), who waits for memory are
connections of programs of twelve jobs.  The order of the grants is what arrives in one pipe: there
is room for one at a time, so nobody overtakes on the way there."""
import ctypes
import os
import re
import select
import signal
import struct
import time

import wire
from world import MIB, OK, World

N = 200
CLASSES = 3
RECORD = struct.Struct("<IIQ")  # who, how, how many messages
ADMITTED, WAITED_OUT, CANCELLED, WAITS = range(4)
PR_SET_PDEATHSIG = 1


class Crowd(World):
    def setUp(self):
        super().setUp()
        self.pipe = os.pipe()
        self.crowd, self.gone = {}, {}

    def tearDown(self):
        for pid in self.crowd.values():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for pid in self.crowd.values():
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass
        for fd in self.pipe:
            os.close(fd)
        super().tearDown()

    def heard(self, seconds):
        """the next record, or None"""
        if not select.select([self.pipe[0]], [], [], seconds)[0]:
            return None
        return RECORD.unpack(os.read(self.pipe[0], RECORD.size))

    def cpu_s(self):
        with open(f"/proc/{self.daemon.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # -- for a place

    def come(self, number, **values):
        """a keeper that waits for its place, says when it has it, and leaves when it was heard"""
        pid = os.fork()
        if pid:
            self.crowd[number] = pid
            while (record := self.heard(20)) != (number, WAITS, 1):
                self.assertEqual(record[1], WAITED_OUT)  # it takes a while until all are there
                self.gone[record[0]] = WAITED_OUT
            return
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            conn = wire.Conn(self.socket)
            conn.send("RUN", **{"n_gpus": 1, "admit_wait_ns": wire.UNKNOWN, "name": f"w{number}", "command": "w",
                                **values})
            n = 0
            while True:
                m = conn.recv(120)
                n += 1
                if m.type == "WAITING" and n == 1:
                    os.write(self.pipe[1], RECORD.pack(number, WAITS, n))
                elif m.type != "WAITING":
                    how = ADMITTED if m.type == "ADMITTED" else WAITED_OUT if m.body["code"] == 75 else CANCELLED
                    os.write(self.pipe[1], RECORD.pack(number, how, n))
                    while how == ADMITTED:
                        signal.pause()
                    break
        finally:
            os._exit(0)

    def admission(self, slots, request):
        """everybody comes, some give up, are cancelled or killed, and then it begins"""
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        holders = [self.job(**request)[0] for _ in range(slots)]
        classes = {i: (i * 7 + i // 5) % CLASSES for i in range(N)}
        begun = time.monotonic()
        for i in range(N):
            patient = i % 10 != 3
            self.come(i, job_class=classes[i], **request, **({} if patient else {"admit_wait_ns": 10**9}))
        killed = [i for i in range(N) if i % 10 == 5]
        for i in killed:
            os.kill(self.crowd[i], signal.SIGKILL)
            os.waitpid(self.crowd.pop(i), 0)
        ids = {item["name"]: item["job_id"] for item in self.ps() if item["state"] == 5}
        cancelled = [i for i in range(N) if i % 10 == 7]
        for i in cancelled:
            self.assertEqual(self.ask("CANCEL", job_id=ids[f"w{i}"]).type, "OK")
        gone = self.gone
        while len(gone) < 2 * N // 10:
            number, how, _ = self.heard(10)
            gone[number] = how
        self.assertEqual({i for i in gone if gone[i] == CANCELLED}, set(cancelled))
        self.assertEqual({i for i in gone if gone[i] == WAITED_OUT}, {i for i in range(N) if i % 10 == 3})
        before = self.cpu_s()
        for keeper in holders:
            keeper.kill()
        order, messages = [], 0
        while len(order) < N - len(killed) - len(gone):
            record = self.heard(20)
            self.assertIsNotNone(record, f"{len(order)} came, then nobody: {self.log_text()}")
            self.assertEqual(record[1], ADMITTED)
            order.append(record[0])
            messages += record[2]
            os.kill(self.crowd[record[0]], signal.SIGKILL)
        seconds = time.monotonic() - begun
        expected = sorted(order, key=lambda i: (classes[i], i))
        self.assertEqual(len(set(order)), len(order))
        # no thundering: what one hears is bounded by the time that passes, not by who goes before
        self.assertLess(messages, len(order) * (seconds + 3))
        self.assertLess(self.cpu_s() - before, 5)
        self.assert_nothing_held(8)
        self.assertEqual(self.status()["vram_allocatable_bytes"], total)
        return order, expected


class OneCard(Crowd):
    profile = "small4g"

    def test_e7_two_hundred_wait_for_one_card(self):
        order, expected = self.admission(1, {"request_permille": 1000})
        self.assertEqual(order, expected)

    def test_k1_two_hundred_wait_for_memory(self):
        """twenty connections each of ten jobs: a job times out, a program dies, a class changes"""
        self.start()
        jobs = []
        for i in range(10):
            keeper, child = self.program(when_full=10**9 if i == 3 else wire.UNKNOWN, job_class=i % CLASSES)
            child.use_pipe(self.pipe[1], i)
            jobs.append((keeper, child))
        holder_keeper, holder = self.program()
        room = self.status()["vram_burst_bytes"]
        self.assertEqual(holder.need(room - 32 * MIB)[1]["result"], OK)
        self.until(lambda: self.status()["vram_burst_bytes"] < 64 * MIB)
        begun = time.monotonic()
        for k in range(20):
            for _, child in jobs:
                child.wait_for(48 * MIB, k)
        self.until(lambda: self.status()["waiting"] == 200, 10)
        for _, child in jobs:
            child.begin("hear_all", 60.0)
        # one that times out, one that dies, one that is put behind the others
        timed_out = [self.heard(10) for _ in range(20)]
        self.assertEqual({(r[0] >> 8, r[1]) for r in timed_out}, {(3, 2)})
        self.assertLess(time.monotonic() - begun, 8)
        jobs[5][1].kill()
        self.until(lambda: self.status()["waiting"] == 160, 5)
        self.assertEqual(self.ask("SET", job_id=jobs[0][0].job_id, key="class", value="batch").type, "OK")
        classes = {i: i % CLASSES for i in range(10)}
        classes[0] = 2
        expected = sorted(((i, k) for i in range(10) if i not in (3, 5) for k in range(20)),
                          key=lambda w: (classes[w[0]], w[1], w[0]))
        before, start = self.cpu_s(), time.monotonic()
        holder.give(32 * MIB)
        order = []
        while len(order) < len(expected):
            record = self.heard(10)
            self.assertIsNotNone(record, f"{len(order)} got it, then nobody: {self.log_text()}")
            self.assertEqual((record[1], record[2]), (OK, 1))
            order.append((record[0] >> 8, record[0] & 255))
        self.assertEqual(order, expected)
        print(f"# {len(order)} grants one after the other in {time.monotonic() - start:.2f} s, "
              f"{self.cpu_s() - before:.2f} s of allotd")
        self.assertLess(self.cpu_s() - before, 3)
        self.assertEqual(self.status()["waiting"], 0)


class FourCards(Crowd):
    profile = "four"

    def test_e7_two_hundred_wait_for_four_cards(self):
        """four go at a time, in the order of class and age"""
        _, expected = self.admission(4, {"request_permille": 1000})
        # four come at once, so the pipe cannot tell who was first: allotd's log does
        admitted = [int(w) for w in re.findall(r"\(w(\d+)\) of uid \d+ admitted", self.log_text())]
        self.assertEqual(admitted, expected)


if __name__ == "__main__":
    import tap
    tap.main()
