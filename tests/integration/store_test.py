"""`shoal store` on the delta store that a training left, with both real programs: shoal asks
shoald, which reads the files."""

import harness
from swarm import Swarm

DAMAGED_AT = 100  # of an image file: behind the head of the first record, in its image


class StoreTest(harness.SwarmTest):

    def store(self, command, folder, *flags, check=True):
        return harness.run("shoal", "store", command, "--dir", folder, *flags, check=check)

    def figures(self, command, folder, *flags):
        return harness.run_json("shoal", "store", command, "--dir", folder, "--json", *flags)

    def test_a_trained_store_is_shown_verified_compacted_and_dropped(self):
        with Swarm(self.folder / "swarm", forward="aqsgd:bits=4",
                   backward="topk:ratio=0.2,bits=8,feedback=on", data=harness.data(size=10_000),
                   stages=2, pipelines=1, steps=6, micro_batches=4, rows=2) as swarm:
            swarm.start()
            swarm.wait_step(1)
            upper = swarm.peer_at(stage=1)
            folder, other = (swarm.peer_folder(swarm.peer_at(stage=s)) for s in (1, 0))
            self.assertIn("is in use", self.store("stats", folder, check=False).stderr)
            swarm.wait_finished()
            shown = swarm.peer_status(upper)["deltaStore"]
            swarm.stop()

        stats = self.figures("stats", folder)
        sides = {place["side"]: place for place in stats["boundaries"]}
        self.assertEqual(set(sides), {"receiver", "residual"})
        ends = self.figures("stats", other)["boundaries"]
        self.assertEqual([end["side"] for end in ends], ["sender"])
        # 6 steps of 8 samples, less than an epoch.
        self.assertEqual(sides["receiver"]["records"], 48)
        self.assertEqual(sides["residual"]["records"], 48)
        self.assertEqual(sides["residual"]["newestStep"], 5)
        self.assertEqual((stats["records"], stats["bytes"]), (shown["records"], shown["bytes"]))
        # 32 tokens of 128 values in 16 bits, and a header; m and residual alike.
        self.assertEqual(stats["bytes"], stats["records"] * (16 + 2 * 32 * 128))
        self.assertEqual(shown["sampleBytes"], shown["residualSampleBytes"])
        text = self.store("stats", folder).stdout
        self.assertIn("residual", text)
        self.assertIn(f"{stats['records']} records", text)

        verified = self.figures("verify", folder)
        self.assertEqual((verified["good"], verified["damaged"]), (stats["records"], 0))

        # The first record of the newest image file.
        image_file = sorted((folder / "deltas" / "images").glob("*.images"))[-1]
        with open(image_file, "r+b") as file:
            file.seek(DAMAGED_AT)
            byte = file.read(1)[0]
            file.seek(DAMAGED_AT)
            file.write(bytes([byte ^ 1]))
        done = self.store("verify", folder, "--json", check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('"damaged":1', done.stdout.replace(" ", ""))
        # It is gone, so the rest is good.
        self.assertIn("every record is as it was written", self.store("verify", folder).stdout)
        self.assertEqual(self.figures("stats", folder)["records"], stats["records"] - 1)

        before = sum(p.stat().st_size for p in (folder / "deltas").rglob("*") if p.is_file())
        compacted = self.figures("compact", folder)
        after = sum(p.stat().st_size for p in (folder / "deltas").rglob("*") if p.is_file())
        self.assertLessEqual(after, before)
        self.assertEqual(compacted["records"], stats["records"] - 1)
        self.assertEqual(self.figures("verify", folder)["good"], stats["records"] - 1)

        run = stats["boundaries"][0]["run"]
        wrong = self.store("drop", folder, "--run", "0" * 16, check=False)
        self.assertNotEqual(wrong.returncode, 0)
        self.assertIn("there is no run", wrong.stderr)
        dropped = self.figures("drop", folder, "--run", run)
        self.assertEqual((dropped["dropped"], dropped["records"]), (stats["records"] - 1, 0))
        self.assertEqual(self.figures("stats", folder)["boundaries"], [])


if __name__ == "__main__":
    harness.main()
