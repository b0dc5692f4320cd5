"""What people do with a result: `shoal chat` at a terminal and without one, `shoal try`, and
`shoal eval --answers`. Models have fresh weights; what they say greedily is always the same, and
sometimes text."""

import functools
import json
import os
import pty
import re
import select
import shutil
import signal
import time

import harness
from families_test import LLAMA, TEMPLATE, make_model
from harness import BAD_CONFIG, FAILURE, run, run_json

GREEDY = ("--temperature", 0, "--threads", 1)
TOKENS = 4  # of more, some are no whole characters
MESSAGES = ("the king", "my lord", "a man", "good", "sir")
NO_SYSTEM = """{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system here') }}
{%- endif %}""" + TEMPLATE


def rendered(*turns):
    """What the template makes of messages of user and assistant by turns, up to the answer."""
    text = ""
    for i, turn in enumerate(turns):
        text += f"<|im_start|>{('user', 'assistant')[i % 2]}\n{turn}<|im_end|>\n"
    return text + "<|im_start|>assistant\n"


def is_text(answer):
    return answer.strip() and answer.isprintable() and "\N{REPLACEMENT CHARACTER}" not in answer


class Terminal:
    """A program that believes to talk with a person."""

    def __init__(self, *command):
        self.shown = ""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            harness.die_with_parent()
            os.execv(command[0], command)

    def type(self, text):
        os.write(self.descriptor, text.encode())

    def read_until(self, check, what, timeout=30):
        """What was shown since the last call; check(that) holds."""
        start, deadline = len(self.shown), time.monotonic() + timeout
        while not check(self.shown[start:]):
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what} in {self.shown[start:]!r}")
            if not select.select([self.descriptor], [], [], 0.1)[0]:
                continue
            try:
                self.shown += os.read(self.descriptor, 4096).decode(errors="replace")
            except OSError as error:
                raise AssertionError(f"it ended without {what}: {self.shown[start:]!r}") from error
        return self.shown[start:]

    def prompt(self):
        return self.read_until(lambda text: text.endswith("> "), "prompt")

    def wait(self, timeout=30):
        """The exit code."""
        ended = harness.wait_for(lambda: self._poll(), timeout, "the program's end")
        return os.waitstatus_to_exitcode(ended[1])

    def _poll(self):
        ended = os.waitpid(self.pid, os.WNOHANG)
        if ended[0] == 0:
            return None
        self.pid = None
        return ended

    def close(self):
        os.close(self.descriptor)
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@functools.cache
def says(model, prompt, tokens=TOKENS):
    """What the model continues a prompt with, greedily."""
    return run_json("shoal", "try", "--model", model, prompt, "--json", *GREEDY, "--tokens", tokens)


class ModelTest(harness.SwarmTest):
    """Tests of one model of 128 positions, each with a copy of its own."""

    @classmethod
    def setUpClass(cls):
        folder = harness.Folder()
        cls.shared = folder.__enter__()
        cls.addClassCleanup(folder.__exit__)
        make_model(cls.shared, {**LLAMA, "max_position_embeddings": 128}, "qwen", TEMPLATE)

    def model(self):
        return shutil.copytree(self.shared / "model", self.folder / "model")

    def says(self, prompt, tokens=TOKENS):
        return says(self.shared / "model", prompt, tokens)


class ChatTest(ModelTest):

    def say(self, model, *lines, check=True, **options):
        return run("shoal", "chat", "--model", model, *GREEDY, "--tokens", TOKENS,
                   input="".join(line + "\n" for line in lines), check=check,
                   errors="surrogateescape", **options)

    def one(self, model, message, *arguments, tokens=TOKENS):
        return run_json("shoal", "chat", "--model", model, "--message", message, "--json", *GREEDY,
                        "--tokens", tokens, *arguments)

    def test_an_answer_is_what_follows_the_rendered_message(self):
        model = self.model()
        got = self.one(model, "the king")
        self.assertEqual(got["schemaVersion"], 1)
        self.assertEqual(set(got), documented("chat --message"))
        self.assertEqual(set(self.says(rendered("the king"))), documented("try"))
        self.assertEqual(got["message"], "the king")
        self.assertIn(got["end"], ("tokens", "stop"))
        wanted = self.says(rendered("the king"))["ids"]
        self.assertEqual(got["ids"], wanted[:len(got["ids"])])
        self.assertGreater(len(got["ids"]), 2)
        message = next(message for message in MESSAGES
                       if is_text(self.says(rendered(message))["text"]))
        plain = run("shoal", "chat", "--model", model, "--message", message, *GREEDY,
                    "--tokens", TOKENS)
        self.assertEqual(plain.stdout, self.one(model, message)["text"].lstrip(" \n") + "\n")

    def test_a_conversation_from_a_pipe(self):
        """Lines are messages; the second answer hangs on the first; /reset forgets."""
        model = self.model()
        answers = {message: self.says(rendered(message))["text"] for message in MESSAGES}
        answers = {message: text for message, text in answers.items() if is_text(text)}
        one, other, second = next(
            (one, other, second) for one in answers for other in answers
            for second in [self.says(rendered(one, answers[one], other))["text"]]
            if is_text(second) and second != answers[other])
        first, alone = answers[one], answers[other]
        done = self.say(model, one, "", other, "/reset", other, "/quit", "never read")
        written = [text.lstrip(" \n") + "\n" for text in (first, second, alone)]
        self.assertEqual(done.stdout, "".join(written))
        self.assertNotIn("> ", done.stderr)
        done = self.say(model, one, "/fly", other)
        self.assertRegex(done.stderr, "unknown command /fly; .*/reset and /quit.*\\n")
        self.assertEqual(done.stdout, "".join(written[:2]))

    def test_stops_at_the_ids_that_files_name(self):
        model = self.model()
        ids = self.one(model, "the king", tokens=12)["ids"]
        stop = next(i for i in range(2, len(ids)) if ids[i] not in ids[:i])
        config = model / "generation_config.json"
        config.write_text(json.dumps({"eos_token_id": [1, ids[stop]]}))
        got = self.one(model, "the king", tokens=12)
        self.assertEqual((got["ids"], got["end"]), (ids[:stop], "stop"))
        config.write_text('{"eos_token_id": "x"}')
        done = self.say(model, "the king", check=False)
        self.assert_refused(done, BAD_CONFIG, "generation_config.json: eos_token_id")

    def test_a_system_message_stands_before_all(self):
        model = self.model()
        plain = self.one(model, "the king")
        told = self.one(model, "the king", "--system", "my lord")
        self.assertGreater(told["promptTokens"], plain["promptTokens"] + 3)
        (model / "chat_template.jinja").write_text(NO_SYSTEM)
        self.assertEqual(self.one(model, "the king")["ids"], plain["ids"])
        done = run("shoal", "chat", "--model", model, "--system", "x", check=False, input="")
        self.assert_refused(done, BAD_CONFIG, "--system.*no system here")

    def test_the_oldest_turns_make_room(self):
        model = self.model()
        done = self.say(model, *["my lord, the king"] * 8)
        self.assertRegex(done.stderr, "forgot the oldest.*128 tokens")
        done = self.say(model, "good", "the king " * 100, check=False)
        self.assertEqual(done.returncode, FAILURE)
        self.assertRegex(done.stderr, r"message has \d+ tokens.*at most 128: shorten it\n")
        self.assertTrue(done.stdout.strip())

    def test_a_text_ends_where_the_models_files_say(self):
        model = self.model()
        ids = self.says("the king")["ids"]
        end = ids.index(ids[len(ids) // 2])
        (model / "generation_config.json").write_text(json.dumps({"eos_token_id": ids[end]}))
        self.assertEqual(says(model, "the king")["ids"], ids[:end])

    def test_what_cannot_chat_is_said(self):
        done = run("shoal", "chat", "--model", harness.model(), check=False)
        self.assert_refused(done, BAD_CONFIG, "no chat template.*chat_template.jinja.*shoal try")
        model = self.model()
        done = run("shoal", "chat", "--model", model, check=False, input="\udcff\n",
                   errors="surrogateescape")
        self.assert_refused(done, FAILURE, "not UTF-8")
        done = run("shoal", "chat", "--model", model, check=False, input="x" * (2 << 20))
        self.assert_refused(done, FAILURE, "longer than 1048576 bytes")

    def test_at_a_terminal(self):
        model = make_model(self.folder / "chat", {**LLAMA, "max_position_embeddings": 16384},
                           "qwen", TEMPLATE)
        program = harness.program("shoal")
        terminal = Terminal(program, "chat", "--model", str(model), "--temperature", "0",
                            "--threads", "1", "--tokens", "100000")
        try:
            self.assertRegex(terminal.prompt(), "chat/model on cpu.*/reset.*Ctrl-D")
            terminal.type("love\n")  # to which this model's answer never ends by itself
            terminal.read_until(lambda text: len(text) > 40, "answer")
            terminal.type("\x03")
            self.assertRegex(terminal.prompt(), r"\(stopped\)")
            terminal.type("half a line\x03")
            self.assertRegex(terminal.prompt(), "Ctrl-D ends")
            terminal.type("/reset\n")
            self.assertRegex(terminal.prompt(), "new conversation")
            terminal.type("/fly\n")
            self.assertRegex(terminal.prompt(), "unknown command /fly; known commands")
            terminal.type("\x04")
            self.assertEqual(terminal.wait(), 0)
        finally:
            terminal.close()


def documented(command):
    """The fields of a command's JSON, from the table of docs/OPERATIONS.md."""
    page = (harness.SOURCE / "docs/OPERATIONS.md").read_text()
    row = re.search(rf"^`{re.escape(command)}[^|]*\|[^|]*\|([^|\n]*)$", page, re.M)
    return {"schemaVersion"} | {name for names in re.findall("`([^`]*)`", row[1])
                                for name in names.split(", ") if not name.startswith("--")}


class AnswersTest(ModelTest):

    def setUp(self):
        super().setUp()
        self.copy = self.model()
        self.file = self.folder / "answers.jsonl"

    def text(self, prompt):
        return self.says(prompt)["text"]

    def write(self, *records):
        self.file.write_text("".join(json.dumps(record) + "\n" for record in records))

    def eval(self, *arguments, check=True):
        return run("shoal", "eval", "--model", self.copy, "--answers", self.file, "--threads", 1,
                   *arguments, check=check)

    def test_counts_exact_answers(self):
        plain = [message for message in MESSAGES if is_text(self.text(message))]
        chat = next(message for message in plain if is_text(self.text(rendered(message)))
                    and self.text(rendered(message)).strip() != self.text(message).strip())
        one, other = plain[:2]
        said = self.text(other).strip()
        self.write({"prompt": one, "answer": self.text(one).strip() + " \n"},
                   {"prompt": other, "answer": said + "!"},
                   {"prompt": chat, "answer": self.text(rendered(chat))})
        got = json.loads(self.eval("--json", "--show", "--tokens", TOKENS).stdout)
        self.assertEqual(set(got), documented("eval --answers"))
        self.assertEqual([got[key] for key in ("schemaVersion", "answers", "exact", "chat")],
                         [1, 3, 1, False])
        self.assertAlmostEqual(got["share"], 1 / 3)
        self.assertEqual([wrong["line"] for wrong in got["wrong"]], [2, 3])
        self.assertEqual(got["wrong"][0], {"line": 2, "prompt": other, "wanted": said + "!",
                                           "got": said})
        got = json.loads(self.eval("--json", "--chat", "--tokens", TOKENS).stdout)
        self.assertEqual((got["exact"], got["chat"]), (1, True))
        self.assertNotIn("wrong", got)
        done = self.eval("--show", "--tokens", TOKENS)
        self.assertEqual(done.stdout.splitlines()[2:],
                         ["answers     3", "exact       1", "share       0.3333"])
        self.assertTrue(done.stdout.startswith(f"line 2: {other} | wanted {said}! | got {said}\n"))
        self.assertRegex(done.stderr, "has a chat template; with --chat")

    def test_an_answer_ends_at_a_stop_token(self):
        """And not for want of tokens: there are more than the wanted answer has."""
        for message in filter(lambda message: is_text(self.text(message)), MESSAGES):
            ids = self.says(message, TOKENS + 1)["ids"]
            if ids[-1] not in ids[:-1]:
                break
        self.write({"prompt": message, "answer": self.text(message)})
        self.assertEqual(json.loads(self.eval("--json").stdout)["exact"], 0)
        (self.copy / "generation_config.json").write_text(json.dumps({"eos_token_id": ids[-1]}))
        self.assertEqual(json.loads(self.eval("--json").stdout)["exact"], 1)

    def test_losses_have_the_documented_fields(self):
        got = run_json("shoal", "eval", "--model", harness.model(), "--data", harness.data(),
                       "--json")
        self.assertEqual(set(got), documented("eval --data"))

    def test_names_what_is_wrong_with_a_line(self):
        good = {"prompt": "the king", "answer": "good"}
        for record, *words in (({"prompt": "a"}, 'no field "answer"'),
                               ({"prompt": "the king " * 100, "answer": "a"},
                                "tokens, the model has 128 positions")):
            self.write(good, record)
            self.assert_refused(self.eval(check=False), BAD_CONFIG, "answers.jsonl, line 2: ",
                                *words)
        self.write(good)
        (self.copy / "chat_template.jinja").unlink()
        self.assert_refused(self.eval("--chat", check=False), BAD_CONFIG, "no chat template")


if __name__ == "__main__":
    harness.main()
