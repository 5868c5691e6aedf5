# SPDX-License-Identifier: Apache-2.0
"""random jobs, programs, allocations, deaths and restarts: the ledger ends at what NVML shows"""
import os
import random

import wire
from world import ActorError, GIB, MIB, OK, World


class Program:
    """an actor that holds real memory, and says so in its page as the shim does"""

    def __init__(self, test, keeper, actor):
        self.test, self.keeper, self.actor = test, keeper, actor
        self.blocks = []
        actor.attach()
        if test.random.random() < 0.8:  # else its keeper never takes the page: only NVML knows
            while keeper.recv()[0] != "KEEP":
                pass
        if actor.need(0, kind=2, flags=1)[1]["result"] != OK:
            self.has_context = False
            return
        actor.cuda(test.sim)
        self.has_context = actor.call("CONTEXT_DONE", slot=0, ok=1)[1]["keep"] == 1

    def ask(self, count):
        """NEED, from a fresh connection where the old one is gone"""
        for _ in range(3):
            try:
                return self.actor.need(count, flags=1)
            except (wire.Closed, ActorError):
                self.actor.connect()
                self.actor.attach(with_page=True)
        self.test.fail("allotd does not take the program back")

    def alloc(self, count):
        if not self.has_context:
            return
        if self.actor.take(count):  # inside the credit: nobody is asked
            self.test.inside += 1
        elif self.ask(count)[1]["result"] != OK:
            return
        code, pointer = self.actor.cuda_alloc(count)
        self.test.assertEqual(code, 0, "granted, and the card did not have it")
        self.blocks.append((pointer, count))

    def free(self):
        if self.blocks:
            pointer, count = self.blocks.pop()
            self.test.assertEqual(self.actor.cuda_free(pointer), 0)
            self.actor.give(count)


class Storm(World):
    def storm(self, seed, steps):
        self.random = random.Random(seed)
        self.inside = 0
        self.keepers, self.programs = [], []
        self.start()
        self.measure_a_context()
        for step in range(steps):
            with self.subTest(seed=seed, step=step):
                self.one_step()
        self.settle()
        for actor in self.actors:
            try:
                actor.kill()
            except ProcessLookupError:
                pass
        self.reap()
        self.assert_nothing_held(8)

    def measure_a_context(self):
        """afterwards allotd knows what one costs, and a grant is never more than the card has"""
        keeper, child = self.program(0, 2 * GIB)
        child.need(0, kind=2)
        child.cuda(self.sim)
        child.call("CONTEXT_DONE", slot=0, ok=1)
        self.until(lambda: [i["drift_bytes"] for i in self.ps()] == [0])
        for actor in (child, keeper):
            actor.kill()
        os.waitpid(keeper.os_pid, 0)
        self.assert_nothing_held()

    def one_step(self):
        dice = self.random.random()
        if dice < 0.10 and len(self.keepers) < 5:
            self.new_job()
        elif dice < 0.22 and self.keepers and len(self.programs) < 8:
            keeper = self.random.choice(self.keepers)
            self.programs.append(Program(self, keeper, self.child_of(keeper)))
        elif dice < 0.27 and self.programs:
            self.kill_program(self.random.choice(self.programs))
        elif dice < 0.29 and self.keepers:
            self.kill_keeper(self.random.choice(self.keepers))
        elif dice < 0.32:
            self.restart()
        elif self.programs:
            program = self.random.choice(self.programs)
            if self.random.random() < 0.6:
                program.alloc(self.random.randrange(1, 200) * 2 * MIB)
            else:
                program.free()

    def new_job(self):
        keeper = self.actor()
        keeper.be_subreaper()
        request = self.random.choice((0, 256 * MIB, 512 * MIB))
        limit = self.random.choice((0, request + GIB, 2 * GIB))
        answer, body = keeper.run(request, limit, wait=0)
        if answer == "ADMITTED":
            keeper.job_id = body["job_id"]
            self.keepers.append(keeper)
        else:
            self.assertEqual(body["code"], 75, body)
            keeper.kill()
            os.waitpid(keeper.os_pid, 0)

    def kill_program(self, program):
        program.actor.kill()
        self.programs.remove(program)
        if program.keeper in self.keepers:
            program.keeper.reap()

    def kill_keeper(self, keeper):
        """its programs go with it: a keeper ends its tree"""
        for program in [p for p in self.programs if p.keeper is keeper]:
            self.kill_program(program)
        self.keepers.remove(keeper)
        keeper.kill()
        os.waitpid(keeper.os_pid, 0)

    def restart(self):
        self.kill_daemon()
        self.start()
        for keeper in self.keepers:
            self.assertEqual(keeper.resume(keeper.job_id)[0], "OK")

    def settle(self):
        """what NVML shows is what the ledger has, for each process and for the card"""
        for program in self.programs:
            self.ask_view(program)

        def agree():
            rows = [i for i in self.ps() if i["vram_used_bytes"]]
            s = self.status()
            return (all(i["drift_bytes"] == 0 and not i["flags"] & 2 for i in rows) and
                    s["vram_held_bytes"] == s["vram_used_bytes"] and s["vram_unmanaged_bytes"] == 0)
        self.until(agree, 8, "agreement of ledger and NVML")
        by_pid = {i["pid"]: i["vram_used_bytes"] for i in self.ps()}
        for program in self.programs:
            held = sum(count for _, count in program.blocks)
            self.assertGreaterEqual(by_pid[program.actor.os_pid], held)

    def ask_view(self, program):
        try:
            program.actor.call("VIEW", slot=0)
        except (wire.Closed, ActorError):
            program.actor.connect()
            program.actor.attach(with_page=True)

    def test_storm_1(self):
        self.storm(1, 250)

    def test_storm_2(self):
        self.storm(2, 250)

    def test_storm_3(self):
        self.storm(3, 250)


if __name__ == "__main__":
    import tap
    tap.main()
