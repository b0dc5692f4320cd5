"""The five minutes of README.md on two machines, the commands as they stand there: an organiser's
and a volunteer's namespace, each with a line of 100 Mbit/s down and 20 up.

What README.md leaves to its reader is filled in: the invite in place of shoal1_..., a small GPT-2
with fresh weights as ./gpt2, Shakespeare as corpus.txt. HOME is a folder of the test, PATH begins
with the programs that were built. A terminal each is for what stays in it. Not run are the commands
whose arguments README.md leaves out (s3://...), and `shoal service install`, which would change the
machine's systemd; mirror_test.py and service_test.py run these.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

import harness
import namespaces
from harness import EXAMPLES, SOURCE, wait_for

INVITE = "shoal1_..."
INVITE_LINE = re.compile(r"\bshoal1_\S+(?=\n)")
STAYS = re.compile(r"shoal-scheduler |shoal join ")
LEFT_OUT = re.compile(r"\S+://\.\.\.|shoal service install")
UP, DOWN = "20mbit", "100mbit"


def blocks():
    """The commands of each code block of the section, in order."""
    page = (SOURCE / "README.md").read_text()
    section = re.search(r"^## Five minutes with two machines$(.*?)^## ", page, re.M | re.S).group(1)
    return [[line for line in block.splitlines() if line.strip()]
            for block in re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)]


class Machine:
    """A person's machine: namespace, home, folder, and terminals that stay open."""

    def __init__(self, namespace, folder):
        self.namespace, self.folder = namespace, folder
        self.desk = folder / "desk"
        self.desk.mkdir(parents=True)
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith(("XDG_", "SHOAL_"))}
        self.env.update(HOME=str(folder), PATH=f"{harness.BIN}:{os.environ['PATH']}")
        self.terminals = []

    def popen(self, line, output):
        return subprocess.Popen([*self.namespace.prefix, "bash", "-c", f"exec {line}"],
                                cwd=self.desk, env=self.env, stdin=subprocess.DEVNULL,
                                stdout=output, stderr=subprocess.STDOUT,
                                preexec_fn=harness.die_with_parent)

    def type(self, line):
        """What a command prints, which must end well."""
        done = subprocess.run([*self.namespace.prefix, "bash", "-c", line], cwd=self.desk,
                              env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=60, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{line}\nended with {done.returncode}:\n{done.stdout}"
                                 f"{done.stderr}")
        return done.stdout + done.stderr

    def terminal(self, line):
        """Starts what stays; the file with what it prints."""
        path = self.folder / f"terminal-{len(self.terminals)}"
        with open(path, "wb") as output:
            self.terminals.append(self.popen(line, output))
        return path

    def check_terminals(self):
        for number, process in enumerate(self.terminals):
            if process.poll() is not None:
                shown = (self.folder / f"terminal-{number}").read_text()
                raise AssertionError(f"it should stay: {process.args[-1]}\n{shown}")

    def close(self):
        for process in self.terminals:
            process.terminate()
        for process in self.terminals:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class ReadmeTest(harness.SwarmTest):

    def setUp(self):
        super().setUp()
        self.stack = self.enterContext(contextlib.ExitStack())
        internet = self.stack.enter_context(namespaces.Internet())
        self.organiser, self.volunteer = (self.machine(internet, name) for name in ("o", "v"))
        self.seen = []

    def machine(self, internet, name):
        namespace = internet.machine(name)
        namespaces.slow_down(namespace, UP)
        internet.hub.run("tc", "qdisc", "replace", "dev", internet.ports[-1], "root", "tbf", "rate",
                         DOWN, "burst", "64kb", "latency", "100ms")
        machine = Machine(namespace, self.folder / name)
        self.stack.callback(machine.close)
        return machine

    def bring_model_and_text(self):
        desk = self.organiser.desk
        config = json.loads((EXAMPLES / "tiny-gpt2/config.json").read_text())
        # Positions as gpt2 has them; narrow, so that steps take a second.
        config.update(n_positions=1024, n_ctx=1024, n_embd=64, n_head=2, n_layer=2)
        shutil.copytree(EXAMPLES / "tiny-gpt2", self.folder / "config")
        (self.folder / "config/config.json").write_text(json.dumps(config))
        harness.run("shoal-run", "init-model", "--config", self.folder / "config/config.json",
                    "--out", desk / "gpt2", "--seed", 7)
        text = (EXAMPLES / "tinyshakespeare.txt").read_text()
        (desk / "corpus.txt").write_text(text[:200_000])

    def run_status(self):
        for machine in (self.organiser, self.volunteer):
            machine.check_terminals()
        return json.loads(self.organiser.type("shoal swarm status --dir ./run --json"))["run"]

    def wait_step(self, step):
        return wait_for(lambda: (run := self.run_status())["step"] >= step and run, 120,
                        lambda: f"step {step}: {self.run_status()}")

    def test_the_commands_do_what_the_page_says(self):
        organiser, volunteer, either = blocks()
        self.bring_model_and_text()
        invite = ""
        for line in organiser:
            if not STAYS.match(line):
                self.organiser.type(line)
                continue
            self.assertTrue(invite or INVITE not in line.split("#")[0], "the invite comes first")
            screen = self.organiser.terminal(line.replace(INVITE, invite))
            if not invite:
                invite = wait_for(lambda shown=screen: INVITE_LINE.search(shown.read_text()), 30,
                                  "the scheduler prints the invite").group()
        # "Better one of his own".
        own = INVITE_LINE.search(self.organiser.type("shoal swarm invite --dir ./run")).group()
        self.assertNotEqual(own, invite)
        for line in volunteer:
            self.volunteer.terminal(line.replace(INVITE, own))
        joined = time.monotonic()
        self.wait_step(1)
        print(f"first counted step {time.monotonic() - joined:.1f} s after the last join")
        self.wait_step(3)
        self.look_at_pages()
        for line in either:
            if not LEFT_OUT.search(line):
                self.follow(line)
        self.assertEqual(self.seen, [
            "shoal status", "shoal set", "shoal pause", "shoal swarm status", "shoal swarm audit",
            "shoal swarm export", "shoal swarm export", "shoal eval", "shoal try"])

    def look_at_pages(self):
        """Those that the section names at its end."""
        page = (SOURCE / "README.md").read_text()
        for address, kind in re.findall(r"(http://127\.0\.0\.1:\d+/) \((\w+)\)", page):
            with self.subTest(page=address, of=kind):
                for path in ("", "metrics"):
                    text = self.organiser.type(
                        f"{sys.executable} -c 'import sys, urllib.request as r; "
                        f"print(r.urlopen(sys.argv[1]).read().decode())' {address}{path}")
                    self.assertIn("shoal", text)

    def follow(self, line):
        """Runs a command of "Then, on either side", and looks whether it does what is said."""
        name = re.match(r"shoal (swarm )?\w+", line).group()
        self.seen.append(name)
        check = getattr(self, name.replace(" ", "_"), None)
        self.assertIsNotNone(check, f"README.md has a command that this test does not know: {line}")
        check(line)

    def shoal_status(self, line):
        stages = set()
        for machine, caps in ((self.organiser, "upload cap 20 Mbit/s, download no cap"),
                              (self.volunteer, "upload cap 20 Mbit/s, download cap 80 Mbit/s")):
            text = machine.type(line)
            self.assertRegex(text, r"^\S+  training ")
            self.assertRegex(text, r"\bloss \d")
            self.assertIn(caps, text)
            self.assertRegex(text, r"boundary/0/0 .*direct .*bit/s .* \d+\.\dx ")
            stages.add(re.search(r"role +stage (\d) \(of 2\)", text).group(1))
            self.assertEqual(json.loads(machine.type("shoal status --json"))["state"], "training")
        self.assertEqual(stages, {"0", "1"})

    def shoal_set(self, line):
        self.volunteer.type(line)
        text = self.volunteer.type("shoal status")
        self.assertIn("upload cap 5 Mbit/s", text)
        # What the line names beside it, but for a schedule, which may tell the peer to rest.
        self.volunteer.type(f"shoal set {re.search(r'budget=[^ ,]+', line).group()}")

    def shoal_pause(self, line):
        self.volunteer.type(line)
        wait_for(lambda: re.match(r"\S+  paused ", self.volunteer.type("shoal status")), 60,
                 "the stage is given back")
        run = self.run_status()
        self.assertGreater(run["checkpointStep"], 0, "it saves first")
        self.assertIn("shoal resume", line)
        self.volunteer.type("shoal resume")
        self.wait_step(run["step"] + 1)

    def shoal_swarm_status(self, line):
        text = self.organiser.type(line)
        self.assertRegex(text, r"^run  (training|finished)\n")

    def shoal_swarm_audit(self, line):
        text = self.organiser.type(line)
        self.assertIn("each counted once", text)
        self.assertIn("shoal swarm events", line)
        self.assertIn("joined", self.organiser.type("shoal swarm events --dir ./run"))

    def shoal_swarm_export(self, line):
        self.organiser.type(line)
        out = self.organiser.desk / re.search(r"--out (\S+)", line).group(1)
        name = "model.gguf" if "gguf" in line else "model.safetensors"
        self.assertTrue((out / name).exists())

    def shoal_eval(self, line):
        text = self.organiser.type(line)
        self.assertRegex(text, r"perplexity")

    def shoal_try(self, line):
        text = self.organiser.type(line)
        self.assertIn("Once upon a time", text)


if __name__ == "__main__":
    if not harness.is_root() or not namespaces.possible():
        harness.skip_file("needs root, for network namespaces")
    harness.main()
