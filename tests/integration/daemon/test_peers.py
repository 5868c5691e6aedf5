# SPDX-License-Identifier: Apache-2.0
"""malformed, slow, many and impatient peers; a second allotd; what people may do"""
import os
import resource
import socket
import struct
import subprocess
import time
import unittest

import wire
from world import ALLOTD, GIB, MIB, OK, World, raw_socket


class Malformed(World):
    def check(self, data, code, word):
        """answered in words, then closed; nobody else notices"""
        self.start()
        _, child = self.program(GIB)
        s = raw_socket(self.socket)
        s.settimeout(2)
        s.send(data)
        name, _, body = wire.unpack(s.recv(8192))
        self.assertEqual((name, body["code"]), ("ERROR", code))
        self.assertIn(word, body["text"])
        self.assertEqual(s.recv(8192), b"")
        s.close()
        self.assertEqual(child.need(MIB)[1]["result"], OK)

    def header(self, magic=wire.MAGIC, version=wire.VERSION, kind=50, length=8, request=7):
        return wire.HEADER.pack(magic, version, kind, length, request)

    def test_short(self):
        self.check(b"x", 2, "shorter")

    def test_magic(self):
        self.check(self.header(magic=1) + bytes(8), 2, "mark")

    def test_version(self):
        self.check(self.header(version=9) + bytes(8), 3, "protocol 9")

    def test_unknown_type(self):
        self.check(self.header(kind=999) + bytes(8), 2, "999")

    def test_wrong_length(self):
        self.check(self.header(length=4) + bytes(4), 2, "PS")

    def test_too_long(self):
        self.check(self.header() + bytes(20000), 2, "longer")

    def test_text_without_an_end(self):
        _, number, layout, _ = wire.BY_NAME["SET"]
        self.check(self.header(kind=number, length=layout.size) +
                   struct.pack("<Q", 1) + b"x" * (layout.size - 8), 2, "SET")

    def test_an_answer_as_a_request(self):
        self.check(wire.pack("GRANT", 1), 2, "GRANT")

    def test_every_message_out_of_place(self):
        """each type from somebody who is nothing: refused or answered, never the end of allotd"""
        self.start()
        for name, _, _, _ in wire.LAYOUTS:
            c = wire.Conn(self.socket)
            c.send(name)
            try:
                c.recv(0.3)
            except (TimeoutError, wire.Closed):
                pass
            c.close()
        self.assertEqual(self.ask("DAEMON").type, "DAEMON_INFO")

    def test_random_bytes(self):
        import random
        self.start()
        r = random.Random(7)
        for i in range(300):
            s = raw_socket(self.socket)
            name, number, layout, _ = r.choice(wire.LAYOUTS)
            payload = bytes(r.choice((0, 1, 0x41, 0x7F, 0xFF)) if r.random() < 0.5 else
                            r.randrange(256) for _ in range(layout.size))
            try:
                s.send(wire.HEADER.pack(wire.MAGIC, wire.VERSION, number, layout.size, i) + payload)
                if r.random() < 0.5:
                    s.send(r.randbytes(r.randrange(1, 300)))
            except (BrokenPipeError, ConnectionResetError):
                pass
            s.close()
        self.until(lambda: not self.ps())

    def test_unwanted_descriptors(self):
        """descriptors that come with anything are closed, not collected"""
        self.start()
        fds = f"/proc/{self.daemon.pid}/fd"
        before = len(os.listdir(fds))
        c = wire.Conn(self.socket)
        for _ in range(50):
            with open("/dev/null") as f:
                c.send("PS", [f.fileno()] * 4)
            c.recv()
        with open("/dev/null") as f:
            c.send("ATTACH", [f.fileno()], role=1, flags=1)
        c.recv()
        c.close()
        self.until(lambda: len(os.listdir(fds)) <= before)

    def test_false_pages(self):
        """a page that is no page of ours: /dev/null, unsealed, too small, other marks"""
        self.start()
        keeper, child = self.program(GIB)
        child.need(MIB)
        self.kill_daemon()
        self.start()
        keeper.resume(keeper.job_id)
        for i, make in enumerate(("null", "unsealed", "small", "marks")):
            other = self.child_of(keeper)
            self.assertEqual(other.attach_false(make)[0], "ATTACHED", make)
            self.assertEqual(other.need(MIB)[1]["result"], OK)
            self.assertEqual(len(self.ps()), i + 2)


class Slow(World):
    def test_reader_that_does_not_read(self):
        self.start()
        keepers = [self.program(MIB)[0] for _ in range(20)]
        s = raw_socket(self.socket)
        s.setblocking(False)
        ask = wire.pack("PS", 1)
        for _ in range(20000):
            try:
                s.send(ask)
            except BlockingIOError:
                time.sleep(0.0005)
            except (BrokenPipeError, ConnectionResetError):
                break
        else:
            self.fail("it was never disconnected")
        self.assertIn("too slowly", self.log_text())
        self.assertEqual(len(self.ps()), 20)
        s.close()
        del keepers

    def test_long_list_arrives_whole(self):
        self.start()
        for _ in range(30):
            keeper, _ = self.program(MIB)
            for _ in range(4):
                self.child_of(keeper).attach()
        self.assertEqual(len(self.ps()), 150)


class Descriptors(World):
    def test_out_of_descriptors(self):
        """new ones wait in the backlog, old ones are served, and the CPU is not burnt"""
        self.start()
        _, child = self.program(GIB)
        used = len(os.listdir(f"/proc/{self.daemon.pid}/fd"))
        resource.prlimit(self.daemon.pid, resource.RLIMIT_NOFILE, (used + 20, used + 20))
        crowd = [raw_socket(self.socket) for _ in range(40)]
        self.until(lambda: "cannot accept" in self.log_text())
        self.assertEqual(child.need(MIB)[1]["result"], OK)
        before = self.cpu_s()
        time.sleep(1)
        self.assertLess(self.cpu_s() - before, 0.1)
        for s in crowd:
            s.close()
        self.until(lambda: self.ask("DAEMON"))
        self.assertEqual(child.need(MIB)[1]["result"], OK)

    def cpu_s(self):
        with open(f"/proc/{self.daemon.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_many_connections(self):
        self.start()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        try:
            crowd = [wire.Conn(self.socket) for _ in range(4096)]
            for c in crowd[:4000:100]:
                self.assertEqual(c.call("DAEMON").type, "DAEMON_INFO")
            late = wire.Conn(self.socket)
            m = late.recv()
            self.assertEqual(m.type, "ERROR")
            self.assertIn("too many", m.body["text"])
            late.close()
            for c in crowd:
                c.close()
            self.until(lambda: self.can_ask(), 5)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def can_ask(self):
        try:
            return self.ask("DAEMON").type == "DAEMON_INFO"
        except (AssertionError, wire.Closed, OSError):
            return False


class Second(World):
    def try_start(self, *more, sock=None, state=None):
        r = subprocess.run([ALLOTD, "--user", "--foreground", "--sim", "--socket",
                            sock or self.socket, "--state", state or self.state, *more],
                           capture_output=True, text=True, timeout=10)
        return r.returncode, r.stderr

    def test_same_state(self):
        self.start()
        code, text = self.try_start(sock=self.socket + "2")
        self.assertEqual(code, 1)
        self.assertIn(f"pid {self.daemon.pid}", text)
        self.assertIn("state folder", text)
        self.assertFalse(os.path.exists(self.socket + "2"))

    def test_same_socket(self):
        self.start()
        code, text = self.try_start(state=self.state + "2")
        self.assertEqual(code, 1)
        self.assertIn("socket", text)
        self.assertEqual(self.ask("DAEMON").type, "DAEMON_INFO")

    def test_dead_socket_is_replaced(self):
        self.start()
        self.kill_daemon()
        self.assertTrue(os.path.exists(self.socket))
        self.start()
        self.assertEqual(self.ask("DAEMON").type, "DAEMON_INFO")

    def test_somebody_elses_socket_is_not(self):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.bind(self.socket)
        s.listen(1)
        code, text = self.try_start()
        self.assertEqual(code, 1)
        self.assertIn("already answers", text)
        self.assertTrue(os.path.exists(self.socket))
        s.close()

    def test_a_file_is_not_removed(self):
        with open(self.socket, "w") as f:
            f.write("precious")
        code, text = self.try_start()
        self.assertEqual(code, 1)
        self.assertIn("no socket", text)
        with open(self.socket) as f:
            self.assertEqual(f.read(), "precious")

    def test_bad_words(self):
        for words, text in ((["--frob"], "frob"), (["word"], "word"),
                            (["--sim=nothing"], "nothing"), (["--ready-fd", "x"], "x"),
                            (["--sim", "--driver", "/"], "exclude")):
            r = subprocess.run([ALLOTD, "--foreground", "--user", "--socket", self.socket,
                                "--state", self.state, *words], capture_output=True, text=True,
                               timeout=10)
            self.assertIn(r.returncode, (1, 2), words)
            self.assertIn(text, r.stderr)

    def test_background(self):
        """returns when people are served; writes its log into the state folder"""
        r = subprocess.run([ALLOTD, "--user", "--sim", "--socket", self.socket, "--state",
                            self.state], capture_output=True, text=True, timeout=10, cwd=self.dir)
        self.assertEqual(r.returncode, 0, r.stderr)
        info = self.until(lambda: self.ask("DAEMON")).body
        self.assertEqual(os.getsid(info["pid"]), info["pid"])
        self.assertEqual(os.readlink(f"/proc/{info['pid']}/cwd"), "/")
        os.kill(info["pid"], 15)
        self.until(lambda: not os.path.exists(self.socket))
        with open(os.path.join(self.state, "allotd.log")) as f:
            self.assertIn("serving", f.read())


class Person(World):
    def test_status_and_daemon(self):
        self.start()
        info = self.ask("DAEMON").body
        self.assertEqual((info["simulated"], info["n_gpus"], info["nvml_ok"]), (1, 1, 1))
        self.assertEqual(info["pid"], self.daemon.pid)
        self.assertNotEqual(info["driver_version"], "")
        s = self.status()
        self.assertEqual(s["vram_total_bytes"] // GIB, 4)
        self.assertLessEqual(s["vram_allocatable_bytes"], s["vram_total_bytes"])
        self.assertEqual(s["sample_age_ns"] < 5 * 10**9, True)

    def test_set_refusals(self):
        self.start()
        keeper, _ = self.job(GIB, 2 * GIB)
        for key, value, code in (("vram", "8", 2), ("vram", "2G:1G", 2), ("class", "vip", 2),
                                 ("when-full", "wait=x", 2), ("frob", "1", 2), ("name", "", 2),
                                 ("vram", "", 2)):
            m = self.ask("SET", job_id=keeper.job_id, key=key, value=value)
            self.assertEqual((m.type, m.body.get("code")), ("ERROR", code), (key, value))
        m = self.ask("SET", job_id=99, key="class", value="batch")
        self.assertEqual(m.body["code"], 6)
        row = self.ps()[0]
        self.assertEqual((row["vram_request_bytes"], row["vram_limit_bytes"]), (GIB, 2 * GIB))

    def test_from_inside_only_narrower(self):
        self.start()
        keeper, child = self.job(GIB, 2 * GIB)
        other, _ = self.job(MIB, MIB)

        def set_(key, value, job=keeper.job_id):
            answer, body = child.call("SET", "person", job_id=job, key=key, value=value)
            return body["code"] if answer == "ERROR" else 0
        self.assertEqual(set_("vram", "1G:3G"), 4)
        self.assertEqual(set_("vram", "2G"), 4)
        self.assertEqual(set_("vram", "1G:unlimited"), 4)
        self.assertEqual(set_("class", "latency"), 4)
        self.assertEqual(set_("vram", "2M", other.job_id), 4)
        self.assertEqual(set_("vram", "1G:1536M"), 0)
        self.assertEqual(set_("vram", "1G:2G"), 4)  # and not back again
        self.assertEqual(set_("class", "batch"), 0)
        child.setsid()
        self.assertEqual(set_("vram", "1G:3G"), 4)
        self.assertEqual(child.call("CANCEL", "person", job_id=other.job_id)[1]["code"], 4)
        # from outside its owner may
        self.assertEqual(self.ask("SET", job_id=keeper.job_id, key="vram", value="1G:3G").type,
                         "OK")

    def test_cancel(self):
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        keeper, _ = self.job(total)
        waiter = self.actor()
        self.assertEqual(waiter.run(GIB)[0], "WAITING")
        waiting = [i for i in self.ps() if i["state"] == 5][0]
        self.assertEqual(self.ask("CANCEL", job_id=waiting["job_id"]).type, "OK")
        answer, body, _ = waiter.recv()
        self.assertEqual(answer, "ERROR")
        self.assertIn("cancelled", body["text"])
        self.assertEqual(self.ask("CANCEL", job_id=keeper.job_id, signal=2).type, "OK")
        answer, body, _ = keeper.recv()
        self.assertEqual((answer, body["signal"]), ("SIGNAL", 2))
        self.assertGreater(body["grace_ns"], 0)
        self.assertEqual(self.ask("CANCEL", job_id=999).body["code"], 6)
        self.assertEqual(self.ask("CANCEL", job_id=keeper.job_id, signal=999).body["code"], 2)

    def test_cancel_while_the_keeper_is_away(self):
        self.start()
        keeper, _ = self.job(GIB)
        keeper.close()
        time.sleep(0.1)
        self.assertEqual(self.ask("CANCEL", job_id=keeper.job_id).type, "OK")
        self.assertEqual(keeper.resume(keeper.job_id)[0], "OK")
        self.assertEqual(keeper.recv()[0], "SIGNAL")


class Run(World):
    def test_refusals(self):
        self.start()
        total = self.status()["vram_total_bytes"]
        for values, code in (({"request": total + GIB, "limit": total + GIB}, 5),
                             ({"request": 2 * GIB, "limit": GIB}, 2),
                             ({"job_class": 9}, 2), ({"fail_policy": 9}, 2),
                             ({"n_gpus": 0}, 2), ({"n_gpus": 17}, 2), ({"n_gpus": 2}, 5),
                             ({"gpu": "7"}, 5), ({"gpu": "0,0"}, 2), ({"gpu": ",,"}, 2),
                             ({"request": GIB, "request_permille": 10}, 2),
                             ({"request_permille": 1001}, 2), ({"compute_min": 1001}, 2)):
            answer, body = self.actor().run(**values)
            self.assertEqual((answer, body.get("code")), ("ERROR", code), (values, body))
            self.assertTrue(body["text"])
        self.assert_nothing_held()

    def test_immediate_and_timeout(self):
        self.start()
        self.job(self.status()["vram_allocatable_bytes"])
        answer, body = self.actor().run(GIB, wait=0)
        self.assertEqual((answer, body["code"]), ("ERROR", 75))
        waiter = self.actor()
        self.assertEqual(waiter.run(GIB, wait=2 * 10**8)[0], "WAITING")
        answer, body, _ = waiter.recv(timeout=1)
        self.assertEqual((answer, body["code"]), ("ERROR", 75))
        self.assertEqual(len(self.ps()), 1)

    def test_a_job_has_one_keeper(self):
        self.start()
        keeper, _ = self.job(GIB)
        self.assertEqual(keeper.run(GIB)[0], "ERROR")
        self.assertEqual(keeper.run(GIB, conn="second")[0], "ERROR")

    def test_waits_in_order(self):
        self.start()
        total = self.status()["vram_allocatable_bytes"]
        first, _ = self.job(total)
        waiters = [self.actor() for _ in range(3)]
        for i, w in enumerate(waiters):
            answer, body = w.run(total)
            self.assertEqual((answer, body["position"]), ("WAITING", i + 1))
        last = first
        for w in waiters:
            last.kill()
            self.until(lambda w=w: w.recv()[0] == "ADMITTED")
            last = w

    def test_nested_lives_inside(self):
        self.start()
        keeper, child = self.program(GIB, 2 * GIB)
        inner = self.child_of(child)
        inner.be_subreaper()
        answer, body = inner.run(0, 3 * GIB)
        self.assertEqual((answer, body["nested"]), ("ADMITTED", 1))
        self.assertLessEqual(body["limit_bytes"], 2 * GIB)
        leaf = self.child_of(inner)
        self.assertEqual(leaf.attach()[1]["job_id"], body["job_id"])
        self.assertEqual(leaf.need(GIB + MIB)[1]["result"], OK)
        self.assertEqual(child.need(GIB)[1]["result"], 1)  # the parent's limit counts both
        self.assertEqual(child.need(GIB - MIB)[1]["result"], OK)
        inner.kill()
        leaf.kill()
        self.until(lambda: child.need(GIB)[1]["result"] == OK)
        keeper.kill()
        child.kill()
        self.assert_nothing_held()


@unittest.skipUnless(os.geteuid() == 0, "needs root: several users")
class Users(World):
    mode = []  # the machine's service

    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)

    def user(self, uid):
        actor = self.actor()
        actor.become_user(uid)
        return actor

    def test_service_serves_all(self):
        self.start()
        self.assertEqual(self.ask("DAEMON").body["system"], 1)
        ann, bob = self.user(12001), self.user(12002)
        answer, body = ann.run(GIB)
        self.assertEqual(answer, "ADMITTED", body)
        job = body["job_id"]
        self.assertEqual([(i["job_id"], i["uid"]) for i in bob.list("PS", "PS_ITEM")],
                         [(job, 12001)])
        self.assertEqual(bob.call("CANCEL", job_id=job)[1]["code"], 4)
        self.assertEqual(bob.call("SET", job_id=job, key="vram", value="1M")[1]["code"], 4)
        owner = self.user(12001)
        self.assertEqual(owner.call("SET", job_id=job, key="vram", value="512M:1G")[0], "OK")
        self.assertEqual(self.ask("SET", job_id=job, key="class", value="batch").type, "OK")
        self.assertEqual(bob.resume(job, 0.1)[0], "ERROR")
        self.assertEqual(self.ask("CANCEL", job_id=job).type, "OK")

    def test_one_user_cannot_take_all_connections(self):
        self.start()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        try:
            greedy = self.user(12001)
            self.assertIn("too many", greedy.crowd(2200))
            self.assertEqual(self.user(12002).call("DAEMON")[0], "DAEMON_INFO")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_another_users_own_daemon(self):
        self.mode = ["--user"]
        self.start()
        os.chmod(self.socket, 0o666)  # as if somebody had opened it
        self.assertEqual(self.user(12001).recv_first()[1]["code"], 4)


class FourGpus(World):
    profile = "four"

    def test_names(self):
        self.start()
        conn = wire.Conn(self.socket)
        gpus = conn.list("STATUS", "STATUS_ITEM")
        conn.close()
        self.assertEqual(len(gpus), 4)
        for i, g in enumerate(gpus):
            self.assertEqual(g["gpu_index"], i)
            uuid = g["gpu"].hex()
            dashed = "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))
            names = [str(i), "GPU-" + dashed, dashed.upper(), uuid, "GPU-" + dashed[:13],
                     g["pci_bus_id"], g["pci_bus_id"].split(":", 1)[1], "0000" + g["pci_bus_id"]]
            for name in names:
                keeper = self.actor()
                answer, body = keeper.run(MIB, gpu=name)
                self.assertEqual(answer, "ADMITTED", (name, body))
                self.assertEqual(body["gpus"][:16], g["gpu"], name)
                keeper.kill()

    def test_listed_in_order(self):
        self.start()
        keeper = self.actor()
        answer, body = keeper.run(MIB, gpu="2,0", n_gpus=2)
        self.assertEqual((answer, body["n_gpus"]), ("ADMITTED", 2))
        child = self.child_of(keeper)
        lease = child.attach()[1]
        self.assertEqual(lease["gpus"][:16] + lease["gpus"][64:80], body["gpus"][:32])
        self.assertEqual(child.need(MIB, slot=1)[1]["result"], OK)
        self.assertEqual(child.need(MIB, slot=2)[1]["result"], 4)


if __name__ == "__main__":
    import tap
    tap.main()
