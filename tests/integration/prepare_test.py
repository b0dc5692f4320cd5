"""`shoal prepare`: what it reads, what it says of it, and what it refuses in one line."""

import gzip
import io
import json
import re
import shutil
import zipfile
from pathlib import Path

import harness
from harness import BAD_CONFIG, run


def refused(name, *arguments, **options):
    return run(name, *arguments, check=False, timeout=40, **options)


class PrepareTest(harness.SwarmTest):

    def test_prepare_without_text_keeps_what_was_there(self):
        out = self.folder / "data.shoal"
        shutil.copy(harness.data(), out)
        before = out.read_bytes()
        done = refused("shoal", "prepare", "--tokenizer", harness.model(), "--text",
                       self.folder / "nothing.txt", "--row", 32, "--out", out)
        self.assert_refused(done, BAD_CONFIG, r"nothing\.txt", "No such file", "check")
        self.assertEqual(before, out.read_bytes())
        done = refused("shoal", "prepare", "--tokenizer", self.folder / "nothing", "--text",
                       harness.text(10_000), "--row", 32, "--out", out)
        self.assert_refused(done, BAD_CONFIG, "nothing")
        self.assertEqual(before, out.read_bytes())

    def prepare(self, path, tokenizer=None):
        return refused("shoal", "prepare", "--tokenizer", tokenizer or harness.model(), "--text",
                       path, "--row", 4, "--out", self.folder / "data.shoal", "--json")

    def test_prepare_refuses_what_is_no_text(self):
        lines = '{"text": "Now is the winter"}\n{"text": "of our discontent"}\n'
        document = json.dumps({"rows": [{"text": "Now is the winter"}] * 2}).encode()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("word/document.xml", "<w:document/>")
        cases = [
            ("a.json", document, "one JSON document", r"jq -c '\.NAME\[\]'"),
            ("a.jsonl", document, "one JSON document", "jq"),
            ("a.txt", gzip.compress(lines.encode()), "is gzip", r"zcat .*a\.txt"),
            ("a.txt", packed.getvalue(), "docx", "plain text"),
            ("a.txt", b"PAR1\x15\x04PAR1", "parquet", "jsonl"),
            ("a.csv", b"anything", "CSV", "jsonl"),
            ("a.txt", b"id,text\n1,Now\n2,is\n", "CSV", "jsonl"),
            ("a.jsonl", lines.encode("utf-16"), "UTF-16", "iconv"),
            ("a.txt", lines.encode("utf-16-be"), "UTF-16", "iconv -f UTF-16BE"),
            ("a.txt", Path(harness.program("shoal")).read_bytes()[:4096], "ELF", "text file"),
            ("a.txt", harness.data().read_bytes(), "prepared data", "text"),
        ]
        for name, content, *patterns in cases:
            with self.subTest(name, content=content[:20]):
                path = self.folder / name
                path.write_bytes(content)
                self.assert_refused(self.prepare(path), BAD_CONFIG, re.escape(name), *patterns)
                self.assertFalse((self.folder / "data.shoal").exists())

    def test_prepare_knows_lines_of_json_by_their_content(self):
        lines = '{"text": "Now is the winter"}\n{"text": "of our discontent"}\n'
        seen = set()
        for name, encoding in (("a.jsonl", "utf-8"), ("a.txt", "utf-8"), ("a.json", "utf-8-sig")):
            path = self.folder / name
            path.write_text(lines, encoding=encoding)
            report = json.loads(self.prepare(path).stdout)
            self.assertEqual((report["documents"], report["separated"]), (2, True))
            seen.add(report["tokens"])
        self.assertEqual(len(seen), 1)

    def test_prepare_reads_an_array_of_json(self):
        path = self.folder / "a.json"
        path.write_text(json.dumps([{"text": "Now is the winter"}, {"text": "of our discontent"}],
                                   indent=2))
        report = json.loads(self.prepare(path).stdout)
        self.assertEqual((report["documents"], report["kind"]), (2, "text"))

    def test_prepare_says_what_it_made(self):
        path = self.folder / "a.jsonl"
        path.write_text('{"prompt": "Now is", "completion": " the winter"}\n' * 3)
        out = self.folder / "data.shoal"
        done = refused("shoal", "prepare", "--tokenizer", harness.model(), "--text", path, "--row",
                       32, "--out", out, "--pack", "--json")
        report = json.loads(done.stdout)
        self.assertEqual((report["kind"], report["segmented"]), ("samples", True))
        self.assertEqual(report["lengths"][0]["samples"], 3)
        self.assertGreater(report["deltaBytesPerBoundaryEnd"], 0)
        self.assertEqual([piece["loss"] for piece in report["firstRow"]], [False, True] * 2)
        done = refused("shoal", "prepare", "--tokenizer", harness.model(), "--text", path, "--row",
                       32, "--out", out)
        self.assertIn("{+ the winter<|endoftext|>+}", done.stdout)
        for words in ("the loss counts on", "tokens per sample", "delta store"):
            self.assertIn(words, done.stdout)

    def test_prepare_keeps_what_was_there_without_a_chat_template(self):
        path = self.folder / "a.jsonl"
        path.write_text('{"messages": [{"role": "assistant", "content": "a"}]}\n')
        out = self.folder / "data.shoal"
        out.write_bytes(b"SHOALDAT")
        self.assert_refused(self.prepare(path), BAD_CONFIG, "no chat template", "copy")
        self.assertEqual(out.read_bytes(), b"SHOALDAT")

    def test_prepare_says_that_nothing_separates_documents(self):
        tokenizer = self.folder / "tokenizer"
        tokenizer.mkdir()
        shutil.copy(harness.model() / "merges.txt", tokenizer)
        vocabulary = (harness.model() / "vocab.json").read_text()
        self.assertIn("<|endoftext|>", vocabulary)
        (tokenizer / "vocab.json").write_text(vocabulary.replace("<|endoftext|>", "</s>"))
        path = self.folder / "a.jsonl"
        path.write_text('{"text": "Now is the winter"}\n' * 2)
        done = self.prepare(path, tokenizer)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "2 documents run into each other.*tokenizer_config.json")
        bare = json.loads(done.stdout)
        self.assertFalse(bare["separated"])
        (tokenizer / "special_tokens_map.json").write_text('{"eos_token": "</s>"}')
        done = self.prepare(path, tokenizer)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(json.loads(done.stdout)["tokens"], bare["tokens"] + 1)


if __name__ == "__main__":
    harness.main()
