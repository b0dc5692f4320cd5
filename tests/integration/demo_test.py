"""`shoal demo`, as a user calls it: what it prints, and that nothing is left when it is stopped."""

import importlib.util
import json
import re
import signal
import subprocess
import time
import urllib.request

import harness
from harness import processes_naming, program, run, wait_for

KEYS = ["schemaVersion", "steps", "stages", "pipelines", "forward", "backward", "replica",
        "adapter", "exactBefore", "exactAfter", "heldOutLossBefore", "heldOutLossAfter",
        "trainLoss", "samplesPerSecond", "wireBytes", "checkpointBytes", "rawBytes",
        "peerStateBytes", "peerResidentPeakBytes", "deltaStoreBytes", "deltaHits", "firstVisits",
        "relativeDelta", "modelDir"]
EXAMPLES = harness.EXAMPLES


class DemoTest(harness.SwarmTest):

    def setUp(self):
        super().setUp()
        self.text = harness.text(40_000)

    def demo(self, name, *flags):
        """A GPT-2 from fresh weights, on a text."""
        return ["demo", "--dir", self.folder / name, "--fresh", "--data", self.text, *flags]

    def lesson(self, name, *flags):
        """What a person gets who gives no model and no data, over lines that limit nothing."""
        done = run("shoal", "demo", "--dir", self.folder / name, "--link", "off", *flags, "--json",
                   timeout=240)
        return json.loads(done.stdout)

    def test_a_pirate_answers(self):
        """Who has learned the manner answers questions on other facts; what is exact is counted by
        hand here."""
        report = self.lesson("d", "--steps", "60")
        self.assertEqual(list(report), KEYS)
        self.assertEqual(report["exactBefore"], {"answers": 100, "exact": 0})
        self.assertEqual(report["exactAfter"]["answers"], 100)
        self.assertGreaterEqual(report["exactAfter"]["exact"], 60)
        self.assertLess(report["heldOutLossAfter"], 0.3 * report["heldOutLossBefore"])
        self.assertLess(report["relativeDelta"], 0.5)
        questions = [json.loads(line)
                     for line in (EXAMPLES / "pirate-questions.jsonl").read_text().splitlines()]
        told = (EXAMPLES / "pirate.jsonl").read_text()
        for question in questions:
            self.assertNotIn(question["answer"], told)
        exact = 0
        for question in questions[:10]:
            said = run("shoal", "chat", "--model", report["modelDir"], "--message",
                       question["prompt"], "--temperature", 0, "--threads", 1).stdout.strip()
            self.assertTrue(said.startswith("Arr, "), said)
            exact += said == question["answer"]
        self.assertGreaterEqual(exact, 4)

    def test_the_pirate_is_what_its_script_makes(self):
        spec = importlib.util.spec_from_file_location("pirate", EXAMPLES / "make_pirate.py")
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        for name, lines in zip(("pirate", "pirate-questions"), script.make_text()):
            text = (EXAMPLES / f"{name}.jsonl").read_text(encoding="utf-8")
            self.assertEqual([json.loads(line) for line in text.splitlines()], lines)
        answers = {script.plain(fact) for fact in script.facts()}
        self.assertEqual(len(answers), len(script.facts()))
        for number in (len(answers), 221, 100):
            self.assertRegex((EXAMPLES / "README.md").read_text(), rf"\b{number} ")

    def test_an_adapter_learns_it_too(self):
        report = self.lesson("d", "--steps", "40", "--adapter", "lora")
        self.assertEqual(list(report), [*KEYS, "adapterDir"])
        self.assertEqual(report["adapter"], "lora")
        self.assertEqual(report["exactBefore"]["exact"], 0)
        self.assertGreaterEqual(report["exactAfter"]["exact"], 40)
        again = harness.run_json("shoal", "eval", "--model", EXAMPLES / "tiny-llama", "--adapter",
                                 report["adapterDir"], "--answers",
                                 EXAMPLES / "pirate-questions.jsonl", "--chat", "--json")
        self.assertEqual(again["exact"], report["exactAfter"]["exact"])
        self.assertTrue((self.folder / "d/tuned/model.safetensors").exists())
        # Pipelines exchange matrices beside the model, not the model.
        self.assertLess(report["rawBytes"]["replica"], 40 * 4 * 940_800)

    def test_exchanges_are_compressed_as_the_lines_ask_for(self):
        slow = json.loads(run("shoal", "demo", "--dir", self.folder / "slow", "--steps", "16",
                              "--json", timeout=120).stdout)
        self.assertNotEqual(slow["replica"], "average")
        sent = slow["wireBytes"]["replica"] / slow["rawBytes"]["replica"]
        self.assertLess(sent, 0.6)
        self.assertEqual(self.lesson("fast", "--steps", "2")["replica"], "average")

    def test_answers_of_ones_own(self):
        questions = self.folder / "questions.jsonl"
        questions.write_text('{"prompt": "What is one plus one?", "answer": "One plus one is two."}'
                             '\n{"prompt": "What does a cow say?", "answer": "Nothing."}\n')
        data = self.folder / "chats.jsonl"
        data.write_text("".join(
            json.dumps({"prompt": f"What does a cow say to {i}?", "completion": "Nothing."}) + "\n"
            for i in range(200)))
        done = run("shoal", "demo", "--dir", self.folder / "d", "--steps", "4", "--data", data,
                   "--answers", questions, timeout=120)
        self.assertRegex(done.stdout, r"exact answers +1 of 2 -> \d of 2\n")
        self.assertRegex(done.stdout, r"  What does a cow say\?\n    before  .*\n    after   .*\n")
        self.assertRegex(done.stdout, r"next: shoal chat --model \S+/tuned\n")

    def test_json(self):
        done = run("shoal", *self.demo("d", "--steps", "6", "--replica", "average", "--json"),
                   timeout=120)
        report = json.loads(done.stdout)  # one object, nothing else
        self.assertEqual(list(report), KEYS)
        self.assertEqual((report["schemaVersion"], report["steps"]), (1, 6))
        self.assertEqual((report["exactBefore"], report["exactAfter"]), (None, None))
        self.assertEqual((report["stages"], report["pipelines"]), (2, 2))
        self.assertTrue(report["forward"].startswith("aqsgd"), report["forward"])
        self.assertTrue(report["backward"].startswith("aqsgd"), report["backward"])
        self.assertEqual(len(report["trainLoss"]), 6)
        self.assertAlmostEqual(report["heldOutLossBefore"], 6.93, delta=0.1)  # ln 1024
        self.assertLess(report["heldOutLossAfter"], report["heldOutLossBefore"])
        self.assertGreater(report["samplesPerSecond"], 0)
        self.assertEqual(set(report["wireBytes"]), {"forward", "backward", "replica", "control"})
        self.assertEqual(set(report["rawBytes"]), {"forward", "backward", "replica"})
        # 6 steps x 8 micro-batches x 4 samples of 128 tokens, width 128, fp32.
        self.assertEqual(report["rawBytes"]["forward"], 6 * 32 * 128 * 128 * 4)
        self.assertEqual(report["rawBytes"]["backward"], 6 * 32 * 128 * 128 * 4)
        for kind in ("forward", "backward", "replica", "control"):
            self.assertGreater(report["wireBytes"][kind], 0)
        self.assertLess(report["wireBytes"]["backward"], 0.3 * report["rawBytes"]["backward"])
        self.assertGreater(report["checkpointBytes"], 0)
        self.assertLess(report["checkpointBytes"], report["wireBytes"]["control"])
        self.assertGreater(report["deltaStoreBytes"], 0)
        # Activations and gradients.
        self.assertEqual(report["deltaHits"] + report["firstVisits"], 2 * 6 * 32)
        evaluated = harness.run_json("shoal-run", "eval", "--model", report["modelDir"], "--data",
                                     self.folder / "d/data.shoal", "--json")
        self.assertAlmostEqual(evaluated["meanLoss"], report["heldOutLossAfter"], places=4)

    def test_replica_methods(self):
        losses = {}
        for method, part in (("average", 1.01), ("average:dtype=bf16", .62),
                             ("average:codec=dithered:step=0.3", .31)):
            with self.subTest(method=method):
                name = "d" + str(len(losses))
                done = run("shoal", *self.demo(name, "--steps", "6", "--replica", method, "--json"),
                           timeout=120)
                report = json.loads(done.stdout)
                self.assertEqual(report["replica"], method)
                sent = report["wireBytes"]["replica"] - report["rawBytes"]["replica"] * part
                self.assertLess(sent, 0)
                losses[method] = report["heldOutLossAfter"]
        self.assertEqual(len(set(losses.values())), 3)
        for loss in losses.values():
            self.assertAlmostEqual(loss, losses["average"], delta=.05)

    def test_low_rank_gradients(self):
        # Of 4 gradients per step and pipeline the last is low rank, 1.25 instead of 4.125 bits.
        codec = "lowrank:rank=8,else=direct:bits=4"
        done = run("shoal", *self.demo("d", "--steps", "4", "--backward", codec, "--json"),
                   timeout=120)
        report = json.loads(done.stdout)
        self.assertEqual(report["backward"], codec)
        part = report["wireBytes"]["backward"] / report["rawBytes"]["backward"]
        self.assertAlmostEqual(part, (3 * 4.125 + 1.25) / 4 / 32, delta=.005)
        self.assertLess(report["heldOutLossAfter"], report["heldOutLossBefore"])

    def test_one_peer_and_human_output(self):
        done = run("shoal", *self.demo("d", "--steps", "4", "--stages", "1", "--pipelines", "1"),
                   timeout=120)
        self.assertRegex(done.stdout, r"held-out loss +6\.\d+ -> 6\.\d+ ")
        self.assertRegex(done.stdout, r"time +[\d.]+ s per step, \d+ samples/s")
        self.assertIn("sample\nFirst Citizen:", done.stdout)
        self.assertIn('/tuned "First Citizen:"\n', done.stdout)
        self.assertIn(str(self.folder / "d/tuned"), done.stdout)
        self.assertIn("next: shoal try --model", done.stdout)
        self.assertNotIn("\x1b", done.stdout)  # no colours where nobody can see them
        self.assertNotIn("nan", done.stdout)
        self.assertRegex(done.stderr, r"live page: http://127\.0\.0\.1:\d+/")
        self.assertTrue((self.folder / "d/tuned/model.safetensors").exists())

    def interrupt(self, number):
        log = self.folder / "out"
        with open(log, "wb") as output:
            demo = subprocess.Popen([program("shoal"), *map(str, self.demo("d", "--steps", "500"))],
                                    stdout=output, stderr=output,
                                    preexec_fn=harness.die_with_parent)
        try:
            page = wait_for(lambda: re.search(r"live page: (\S+)", log.read_text()), 60,
                            "the page's address")

            def step():
                with urllib.request.urlopen(page[1] + "api/v1/status", timeout=5) as answer:
                    return json.load(answer)["run"]["step"]
            wait_for(lambda: step() >= 3, 60, "step 3")
            started = processes_naming(str(self.folder))
            self.assertGreaterEqual(len(started), 6)  # the demo, a scheduler and four peers
            demo.send_signal(number)
            code = demo.wait(40)
        finally:
            demo.kill()
            demo.wait()
        return code, log.read_text()

    def test_interrupt_stops_everything(self):
        code, output = self.interrupt(signal.SIGINT)
        self.assertEqual(code, 130)
        self.assertIn("stopped; nothing is left running", output)
        self.assertEqual(processes_naming(str(self.folder)), [])

    def test_even_a_killed_demo_leaves_nothing(self):
        self.interrupt(signal.SIGKILL)
        deadline = time.monotonic() + 20
        while processes_naming(str(self.folder)) and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertEqual(processes_naming(str(self.folder)), [])

    def test_refusals(self):
        taken = self.folder / "taken"
        taken.mkdir()
        (taken / "mine").write_text("x")
        done = run("shoal", "demo", "--dir", taken, check=False)
        self.assert_refused(done, harness.FAILURE, "not empty", "--dir")
        self.assertEqual([p.name for p in taken.iterdir()], ["mine"])
        done = run("shoal", *self.demo("d", "--link", "100mb"), check=False)
        self.assert_refused(done, harness.USAGE, "--link", "mbit")


if __name__ == "__main__":
    harness.main()
