# SPDX-License-Identifier: Apache-2.0
"""SHARE_*: who has whose memory open, told by shims that die, lie and come back in the middle of it"""
import time

import tap
from world import GIB, MIB, World

UNSHOWN, ALL, LAST, BY_DESCRIPTOR = 1, 2, 4, 8


class Share(World):
    def pair(self):
        self.start()
        _, owner = self.program(0, 4 * GIB)
        _, importer = self.program(0, 4 * GIB)
        self.assertEqual(owner.need(GIB)[1]["result"], 0)
        return owner, importer

    def out(self, actor, key, count, flags=0):
        return actor.call("SHARE_OUT", key=key, key2=1, bytes=count, slot=0, flags=flags)[1]["value"]

    def into(self, actor, key, count=0):
        return actor.call("SHARE_IN", key=key, key2=1, bytes=count)[1]["known"]

    def freed(self, actor, key, count, flags=LAST):
        return actor.call("SHARE_FREED", key=key, key2=1, bytes=count, flags=flags)[1]["value"]

    def shut(self, actor, key, flags=0):
        return actor.call("SHARE_CLOSE", key=key, key2=1, flags=flags)[0]

    def used(self, actor):
        return actor.call("VIEW", slot=0)[1]["used_bytes"]

    def test_moves_in_one_step(self):
        owner, importer = self.pair()
        self.assertEqual(self.out(owner, 7, GIB), 1)
        self.assertEqual(self.into(importer, 7), 1)
        self.assertEqual((self.used(owner), self.used(importer)), (GIB, 0))
        self.assertEqual(self.freed(owner, 7, GIB), GIB)
        self.assertEqual((self.used(owner), self.used(importer)), (0, GIB))
        self.assertEqual(self.shut(importer, 7), "OK")
        self.assertEqual(self.used(importer), 0)

    def test_the_importer_dies_between_the_telling_and_the_opening(self):
        owner, importer = self.pair()
        self.out(owner, 7, GIB)
        self.into(importer, 7)
        pid = importer.pid()
        importer.kill()
        self.until(lambda: pid not in [i["pid"] for i in self.ps()], what="its end")
        self.assertEqual(self.freed(owner, 7, GIB), 0)
        self.assertEqual(self.used(owner), GIB)

    def test_the_owner_dies_before_it_can_tell(self):
        owner, importer = self.pair()
        self.out(owner, 7, GIB)
        self.into(importer, 7)
        owner.kill()
        self.until(lambda: self.used(importer) == GIB, what="the inheritance")
        self.assertEqual(self.shut(importer, 7, ALL), "OK")
        self.assertEqual(self.used(importer), 0)

    def test_lies(self):
        owner, importer = self.pair()
        self.assertEqual(self.out(owner, 7, 1 << 63), 0)
        self.assertEqual(self.into(importer, 7), 0)
        self.assertEqual(self.freed(importer, 7, GIB), 0)
        self.out(owner, 7, 2 * GIB)
        self.assertEqual(self.out(importer, 7, MIB), 0)
        self.into(importer, 7)
        # more than it holds, or than it has shared, does not move; nobody can be given more than that
        self.assertLessEqual(self.freed(owner, 7, 1 << 62), GIB)
        self.assertLessEqual(self.used(owner) + self.used(importer), GIB)
        self.assertEqual(self.freed(owner, 7, GIB), 0)
        for _ in range(3):
            self.assertEqual(self.shut(importer, 7), "OK")
        self.assertEqual(self.used(importer), 0)
        self.assertEqual(owner.call("SHARE_OUT", key=8, key2=1, bytes=MIB, slot=77, flags=0)[1]["value"], 0)

    def test_before_attach(self):
        self.start()
        stranger = self.actor()
        for message, more in (("SHARE_OUT", {"bytes": 1, "slot": 0, "flags": 0}), ("SHARE_IN", {"bytes": 1}),
                              ("SHARE_CLOSE", {"flags": 0}), ("SHARE_FREED", {"bytes": 1, "flags": 0})):
            answer, body, *_ = stranger.call(message, key=1, key2=1, **more)
            self.assertEqual((answer, body["code"]), ("ERROR", 2))
            self.assertIn("before ATTACH", body["text"])

    def test_bounded(self):
        owner, _ = self.pair()
        kept = [self.out(owner, i, MIB) for i in range(8200)]
        self.assertEqual(sum(kept), 8192)
        began = time.monotonic()
        owner.kill()
        self.assertTrue(self.status())
        self.assertLess(time.monotonic() - began, 1)

    def test_from_a_descriptor(self):
        owner, importer = self.pair()
        self.out(owner, 7, GIB, BY_DESCRIPTOR)
        self.assertEqual(self.freed(owner, 7, GIB), 0)
        owner.give(GIB)
        known = importer.call("SHARE_IN", key=7, key2=1, bytes=0)[1]
        self.assertEqual(known, {"known": 2, "slot": 0, "bytes": GIB})
        self.assertEqual(importer.need(GIB)[1]["result"], 0)
        self.assertEqual(self.out(importer, 7, GIB, BY_DESCRIPTOR), 1)
        self.assertEqual(self.into(owner, 7), 1)
        self.assertEqual(self.used(importer), GIB)


if __name__ == "__main__":
    tap.main()
