"""Models and data other than GPT-2 and running text, in real swarms: a BERT and a DeBERTa that
classify, and a Llama that learns conversations from packed rows, with stages between that see
borders only."""

import csv
import json
import os
import shutil
from pathlib import Path

import harness
from harness import run, run_json
from swarm import describe, train

TOKENIZERS = Path(os.environ["SHOAL_TEST_DATA"]) / "tokenizers"
COLA = Path(os.environ["SHOAL_SHARED_DATA"]) / "cola"
TOLERANCE = 1e-4  # relative; sums of fp32 run in another order with other stages
TEMPLATE = """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n'
 + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

BERT = {"model_type": "bert", "architectures": ["BertForSequenceClassification"],
        "vocab_size": 900, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2,
        "intermediate_size": 64, "max_position_embeddings": 64, "type_vocab_size": 2,
        "id2label": {"0": "bad", "1": "good"}}
DEBERTA = {"model_type": "deberta-v2", "architectures": ["DebertaV2ForSequenceClassification"],
           "vocab_size": 601, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2,
           "intermediate_size": 64, "max_position_embeddings": 64, "type_vocab_size": 0,
           "relative_attention": True, "position_buckets": 8, "max_relative_positions": -1,
           "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": "p2c|c2p",
           "position_biased_input": False, "id2label": {"0": "bad", "1": "good"}}
TABLE = "deberta.encoder.rel_embeddings.weight"
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 704,
         "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64}


def make_model(folder, config, tokenizer, template=None):
    """A directory with fresh weights, the tokenizer and, if given, a chat template."""
    source = folder / "source"
    source.mkdir(parents=True)
    (source / "config.json").write_text(json.dumps(config))
    for file in (TOKENIZERS / tokenizer).iterdir():
        if file.name != "vectors.jsonl":
            shutil.copy(file, source)
    if template:
        (source / "chat_template.jinja").write_text(template)
    run("shoal", "init-model", "--config", source / "config.json", "--out", folder / "model",
        "--seed", 3)
    return folder / "model"


def tensors_of(path):
    """The bytes of each tensor of a file by its name, each of which may be there once."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    names = []

    def once(pairs):
        names.extend(name for name, _ in pairs)
        return dict(pairs)

    header = json.loads(data[8:8 + size], object_pairs_hook=once)
    header.pop("__metadata__", None)
    assert all(names.count(name) == 1 for name in header)
    return {name: data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]]
            for name, entry in header.items()}


class FamiliesTest(harness.SwarmTest):

    def prepare(self, model, *arguments):
        out = self.folder / "data.shoal"
        report = run_json("shoal", "prepare", "--tokenizer", model, "--out", out, "--json",
                          *arguments)
        return out, report

    def assert_follows(self, losses, reference):
        self.assertEqual(len(losses), len(reference))
        for step, (loss, wanted) in enumerate(zip(losses, reference)):
            self.assertLessEqual(abs(loss - wanted), TOLERANCE * abs(wanted), f"step {step}")

    def reviews(self):
        """Rows of a few words; the class hangs on one word."""
        table = self.folder / "reviews.csv"
        with open(table, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            for i in range(240):
                good = i * 7 % 3 == 0
                words = ["the king", "my lord", "a man"][i % 3] + [" was", " is"][i % 2]
                writer.writerow([f"{words} {'good, sir' if good else 'not'}!",
                                 "good" if good else "bad"])
        return table

    def test_a_classifier_learns_over_three_stages(self):
        """Rows with much padding."""
        model = make_model(self.folder, BERT, "bert")
        table = self.reviews()
        data, report = self.prepare(model, "--text", table, "--row", 24)
        self.assertEqual((report["kind"], report["classes"]), ("classes", 2))
        same = {"model": model, "data": data, "steps": 60, "micro_batches": 4, "rows": 4,
                "checkpoint_every": 60, "optimizer": {"learning_rate": 3e-3}}
        single, _ = train(self.folder / "single", stages=1, **same)
        losses, _ = train(self.folder / "deep", stages=3, export=self.folder / "out", **same)
        self.assert_follows(losses, single)
        self.assertLess(sum(losses[-5:]), 0.2 * sum(losses[:5]), describe(losses))
        before = run_json("shoal", "eval", "--model", model, "--data", data, "--json")
        after = run_json("shoal", "eval", "--model", self.folder / "out", "--data", data, "--json")
        self.assertLess(before["accuracy"], 0.8)
        self.assertGreater(after["accuracy"], 0.95)
        self.assertGreater(after["matthewsCorrelation"], 0.9)

    def test_a_classifier_of_two_texts_learns_over_three_stages(self):
        """Does the second text name the first one's king? BERT tells the two by token types."""
        model = make_model(self.folder, BERT, "bert")
        pairs = self.folder / "pairs.jsonl"
        names = ["king", "lord", "man", "queen"]
        with open(pairs, "w", encoding="utf-8") as file:
            for i in range(240):
                first, second = names[i % 4], names[i * 7 % 3]
                file.write(json.dumps({"text": f"the {first}", "text_pair": f"my {second}",
                                       "label": "good" if second == "king" else "bad"}) + "\n")
        data, report = self.prepare(model, "--text", pairs, "--row", 24)
        self.assertEqual((report["kind"], report["tokenTypes"]), ("classes", True))
        same = {"model": model, "data": data, "steps": 60, "micro_batches": 4, "rows": 4,
                "checkpoint_every": 60, "optimizer": {"learning_rate": 3e-3}}
        single, _ = train(self.folder / "single", stages=1, **same)
        losses, status = train(self.folder / "deep", stages=3, export=self.folder / "out",
                               evaluate_every=60, evaluate_rows=1000, **same)
        self.assert_follows(losses, single)
        self.assertLess(sum(losses[-5:]), 0.2 * sum(losses[:5]), describe(losses))
        after = run_json("shoal", "eval", "--model", self.folder / "out", "--data", data, "--json")
        self.assertGreater(after["accuracy"], 0.95)
        self.assertGreater(after["matthewsCorrelation"], 0.9)
        before = run_json("shoal", "eval", "--model", model, "--data", data, "--json")
        self.assertAlmostEqual(before["meanLoss"], status["run"]["heldOut"][0][1], places=4)

        untyped = make_model(self.folder / "untyped", {**BERT, "type_vocab_size": 1}, "bert")
        words = "token type 1, which .* does not have"
        done = run("shoal", "swarm", "init", "--dir", self.folder / "run", "--model", untyped,
                   "--data", data, check=False)
        self.assert_refused(done, harness.BAD_CONFIG, words)
        self.assertFalse((self.folder / "run").exists())
        done = run("shoal", "eval", "--model", untyped, "--data", data, check=False)
        self.assert_refused(done, harness.BAD_CONFIG, words)

    def test_a_table_that_all_stages_share_learns_over_three_stages(self):
        """DeBERTa's table of distances: one for all layers, and so for all peers."""
        model = make_model(self.folder, DEBERTA, "deberta_spm")
        data, _ = self.prepare(model, "--text", self.reviews(), "--row", 24)
        same = {"model": model, "data": data, "steps": 40, "micro_batches": 4, "rows": 4,
                "checkpoint_every": 20, "optimizer": {"learning_rate": 3e-3}}
        single, _ = train(self.folder / "single", stages=1, **same)
        losses, _ = train(self.folder / "deep", stages=3, pipelines=2,
                          export=self.folder / "out", **same)
        self.assert_follows(losses, single)
        self.assertLess(sum(losses[-5:]), 0.3 * sum(losses[:5]), describe(losses))
        before, after = (tensors_of(folder / "model.safetensors")
                         for folder in (model, self.folder / "out"))
        self.assertEqual(set(after), set(before))
        self.assertNotEqual(after[TABLE], before[TABLE])
        self.assertIn("spm.model", [path.name for path in (self.folder / "out").iterdir()])
        judged = run_json("shoal", "eval", "--model", self.folder / "out", "--data", data, "--json")
        self.assertGreater(judged["accuracy"], 0.95)
        # Frozen beside adapters, the table is what it was, and nobody exchanges it.
        losses, _ = train(self.folder / "adapted", stages=3, pipelines=2,
                          adapter={"kind": "lora", "rank": 4, "alpha": 8},
                          export=self.folder / "merged", **same)
        self.assertLess(losses[-1], losses[0], describe(losses))
        merged = tensors_of(self.folder / "merged/model.safetensors")
        self.assertEqual(merged[TABLE], before[TABLE])

    def test_conversations_in_packed_rows_learn_over_three_stages(self):
        model = make_model(self.folder, LLAMA, "qwen", TEMPLATE)
        chats = self.folder / "chats.jsonl"
        with open(chats, "w", encoding="utf-8") as file:
            for i in range(200):
                who = ["king", "lord", "man", "queen"][i % 4]
                turns = [{"role": "user", "content": f"who? {who}"},
                         {"role": "assistant", "content": f"the {who}"}] * (1 + i % 2)
                file.write(json.dumps({"messages": turns}) + "\n")
        data, report = self.prepare(model, "--text", chats, "--row", 64, "--pack")
        self.assertEqual((report["kind"], report["segmented"]), ("samples", True))
        self.assertLess(report["trainRows"], 150)
        same = {"model": model, "data": data, "steps": 60, "micro_batches": 2, "rows": 4,
                "checkpoint_every": 60, "optimizer": {"learning_rate": 6e-3}}
        single, _ = train(self.folder / "single", stages=1, **same)
        losses, status = train(self.folder / "deep", stages=3, evaluate_every=30,
                               evaluate_rows=1000, **same)
        self.assert_follows(losses, single)
        self.assertLess(losses[-1], 0.5 * losses[0], describe(losses))
        held_out = [loss for _, loss in status["run"]["heldOut"]]
        self.assertLess(held_out[-1], 0.6 * held_out[0])
        # Coded changes of rows with padding and borders agree at both ends, too.
        _, status = train(self.folder / "coded", stages=3, forward="aqsgd:bits=4",
                          backward="direct:bits=8", **same)
        self.assertGreater(status["consistency"]["mChecks"], 0)
        self.assertEqual(status["consistency"]["mMismatches"], 0)

    def test_labels_and_heads_must_fit(self):
        """A classifier takes no running text, a language model no classes."""
        model = make_model(self.folder / "bert", BERT, "bert")
        table = self.folder / "two.tsv"
        table.write_text("text\tlabel\n" + "the king\t0\nthe lord\t2\n" * 20)
        data, _ = self.prepare(model, "--text", table, "--row", 16)
        for name, config, tokenizer, words in (("bert", BERT, "bert", "3 classes.*num_labels"),
                                               ("llama", LLAMA, "qwen", "class for each row")):
            folder = self.folder / f"{name}-run"
            other = model if name == "bert" else make_model(self.folder / name, config, tokenizer)
            done = run("shoal", "swarm", "init", "--dir", folder, "--model", other, "--data", data,
                       check=False)
            self.assert_refused(done, harness.BAD_CONFIG, words)

    def test_cola(self):
        """The sentences that people measure with: prepared, and judged before any training."""
        if not COLA.exists():
            self.skipTest("no shared data")
        model = make_model(self.folder, BERT, "bert")
        data, report = self.prepare(model, "--text", COLA / "in_domain_train.tsv", "--validation",
                                    COLA / "in_domain_dev.tsv", "--text-column", 4,
                                    "--label-column", 2, "--row", 48)
        self.assertEqual((report["trainRows"], report["validationRows"]), (8551, 527))
        judged = run_json("shoal", "eval", "--model", model, "--data", data, "--json")
        self.assertEqual(judged["rows"], 527)
        self.assertLess(abs(judged["matthewsCorrelation"]), 0.2)  # nobody has taught it anything


if __name__ == "__main__":
    harness.main()
