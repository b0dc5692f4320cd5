"""What users and disks do wrong: one line that says what, why and what next, the documented exit
code, nothing written over, no hang."""

import json
import os
import re
import shutil
import socket
from pathlib import Path

import harness
from harness import (BAD_CONFIG, FAILURE, NOT_RUNNING, PERMISSION, TRY_LATER, USAGE, run,
                     wait_for)
from swarm import Swarm


def refused(name, *arguments, **options):
    return run(name, *arguments, check=False, timeout=40, **options)


def snapshot(folder):
    return {path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


class ModelAndDataTest(harness.SwarmTest):

    def test_truncated_model(self):
        broken = self.folder / "model"
        shutil.copytree(harness.model(), broken)
        os.truncate(broken / "model.safetensors", 1_000_000)
        done = refused("shoal-run", "eval", "--model", broken, "--data", harness.data())
        self.assert_refused(done, BAD_CONFIG, r"model\.safetensors", "damaged", "again")

    def test_missing_model(self):
        done = refused("shoal-run", "eval", "--model", self.folder / "none", "--data",
                       harness.data())
        self.assert_refused(done, BAD_CONFIG, "none", "folder of a Hugging Face model")

    def test_unknown_architecture(self):
        bert = harness.SHARED / "hf-tiny/bert_tiniest"
        if not bert.exists():
            self.skipTest("no shared data")
        done = refused("shoal-run", "eval", "--model", bert, "--data", harness.data())
        self.assert_refused(done, BAD_CONFIG, "BertLMHeadModel", "not supported", "GPT2LMHeadModel")

    def test_malformed_safetensors(self):
        vectors = harness.SHARED / "safetensors-vectors"
        if not vectors.exists():
            self.skipTest("no shared data")
        model = self.folder / "model"
        shutil.copytree(harness.model(), model)
        bad = sorted(vectors.glob("bad_*.safetensors"))
        self.assertEqual(len(bad), 22)
        for path in bad:
            shutil.copy(path, model / "model.safetensors")
            done = refused("shoal-run", "logits", "--model", model, "--text", "a")
            with self.subTest(path.name):
                self.assert_refused(done, BAD_CONFIG, r"model\.safetensors")

    def test_data_of_another_tokenizer(self):
        # The same model, with a tokenizer in which two tokens have changed places.
        other = self.folder / "other"
        shutil.copytree(harness.model(), other)
        (other / "tokenizer.json").unlink()
        vocabulary = (other / "vocab.json").read_text()
        self.assertIn('"A"', vocabulary)
        (other / "vocab.json").write_text(
            vocabulary.replace('"A"', '"?x"').replace('"B"', '"A"').replace('"?x"', '"B"'))
        done = refused("shoal-run", "eval", "--model", other, "--data", harness.data())
        self.assert_refused(done, BAD_CONFIG, "another tokenizer", "prepare")
        with Swarm(self.folder / "s", model=other) as swarm:
            done = refused("shoal-scheduler", "--config", swarm.write_config())
            self.assert_refused(done, BAD_CONFIG, "tokenizer", "prepare")

    def test_convert_leaves_nothing(self):
        model, out = self.folder / "model", self.folder / "out"
        shutil.copytree(harness.model(), model)
        convert = ["shoal", "convert", "--model", model, "--out", out]
        self.assert_refused(refused(*convert, "--as", "zip"), USAGE, "zip",
                            "directory, merged, adapter, gguf")
        self.assert_refused(refused(*convert, "--dtype", "int8"), USAGE, "fp32, bf16 or fp16")
        self.assert_refused(refused(*convert, "--as", "gguf", "--type", "q4"), USAGE, "q8_0")
        for name in ("tokenizer.json", "vocab.json", "merges.txt"):
            (model / name).unlink()
        self.assert_refused(refused(*convert, "--as", "gguf"), BAD_CONFIG, "no tokenizer", "copy")
        self.assertEqual(os.listdir(self.folder), ["model"])
        out.mkdir()
        (out / "mine").write_text("mine")
        self.assert_refused(refused(*convert), FAILURE, "out", "nothing was written")
        self.assertEqual(snapshot(out), {Path("mine"): b"mine"})

    def test_init_model_keeps_what_was_there(self):
        out = self.folder / "model"
        shutil.copytree(harness.model(), out)
        before = snapshot(out)
        done = refused("shoal", "init-model", "--config",
                       harness.EXAMPLES / "tiny-gpt2/config.json", "--out", out)
        self.assert_refused(done, FAILURE, "exists", "nothing was written")
        self.assertEqual(before, snapshot(out))

    def test_truncated_data(self):
        short = self.folder / "data.shoal"
        shutil.copy(harness.data(), short)
        os.truncate(short, 3000)
        done = refused("shoal-run", "eval", "--model", harness.model(), "--data", short)
        self.assert_refused(done, BAD_CONFIG, "3000 bytes", "shoal prepare")
        with Swarm(self.folder / "s", data=short) as swarm:
            done = refused("shoal-scheduler", "--config", swarm.write_config())
            self.assert_refused(done, BAD_CONFIG, "3000 bytes", "prepare")


class SettingsTest(harness.SwarmTest):

    def test_run_toml(self):
        cases = [
            ({"run": {"stepz": 5}}, "stepz", "not known", "allowed"),
            ({"extra": {"a": 1}}, "extra", "not known", "sections"),
            ({"run": {"steps": "many"}}, "steps", "whole number"),
            ({"run": {"stages": 0}}, "stages", "1 to"),
            ({"network": {"peer_timeout": "6 parsecs"}}, "peer_timeout", "duration"),
            ({"network": {"listen": "nowhere"}}, "listen", "host:port"),
            ({"codecs": {"forward": "no such codec"}}, "no such codec", "aqsgd:bits=4"),
            ({"codecs": {"forward": "magic:bits=4"}}, "magic", "known are"),
            ({"codecs": {"forward": "aqsgd:bits=17"}}, "bits=17", "bits=1 to bits=8"),
            ({"codecs": {"backward": "aqsgd:bits=4"}}, "backward", "aqsgd:bits=4"),
            ({"codecs": {"forward": "lowrank:rank=4"}}, "lowrank:rank=4", "is for gradients"),
            ({"replica": {"method": "median"}}, "median", "average:codec="),
            ({"replica": {"method": "qadam:bits=99"}}, "replica method 'qadam:bits=99'",
             "bits=1 to bits=32"),
            ({"replica": {"method": "powersgd:stages=7"}}, "powersgd:stages=7", "stages from 0"),
            ({"replica": {"method": "qsdp:lan=0-7"}}, "qsdp:lan=0-7", "or is auto or none"),
            ({"replica": {"method": "marsit,local_steps=4"}}, "marsit,local_steps=4",
             "write marsit:local_steps=4"),
        ]
        for extra, *patterns in cases:
            with self.subTest(str(extra)):
                swarm = Swarm(self.folder / "s")
                for section, keys in extra.items():
                    swarm.sections.setdefault(section, {}).update(keys)
                done = refused("shoal-scheduler", "--config", swarm.write_config())
                self.assert_refused(done, BAD_CONFIG, *patterns)
                self.assertFalse((swarm.run_folder / "invite").exists())

    def test_run_toml_is_not_there_or_not_toml(self):
        done = refused("shoal-scheduler", "--config", self.folder / "none.toml")
        self.assertIn(done.returncode, (FAILURE, BAD_CONFIG))
        self.assert_refused(done, done.returncode, r"none\.toml", "No such file")
        broken = self.folder / "run.toml"
        broken.write_text("[run\nsteps = 3\n")
        done = refused("shoal-scheduler", "--config", broken)
        self.assert_refused(done, BAD_CONFIG, r"run\.toml:\d")

    def test_shoald_toml(self):
        cases = [
            ('[network]\nuplaod = "20mbit"\n', "uplaod", "known", "upload"),
            ('[nonsense]\nx = 1\n', "nonsense", "known"),
            ('[network]\nupload = "20MB"\n', "upload", "20MB"),
            ('[network]\nupload = 20\n', "upload", "rate in quotes"),
            ('[limits]\ndelta_store = "much"\n', "delta_store", "much"),
            ('[limits]\ndevice_memory = "0"\n', "device_memory", "more than 0"),
            ('[compute]\ndevice = "tpu"\n', "device", "cpu, cuda"),
            ('[compute\n', "line 1"),
        ]
        path = self.folder / "shoald.toml"
        for text, *patterns in cases:
            with self.subTest(text):
                path.write_text(text)
                done = refused("shoald", "--config", path, "--dir", self.folder / "peer")
                self.assert_refused(done, BAD_CONFIG, r"shoald\.toml", *patterns)
                self.assertFalse((self.folder / "peer").exists())

    def test_flags(self):
        for size, words in (("much", "20GiB"), ("0", "more than 0"),
                            ("1000000GiB", "the machine has")):
            done = refused("shoald", "--dir", self.folder / "peer", "--device", "cpu",
                           "--device-memory", size)
            self.assert_refused(done, BAD_CONFIG, "device.memory", words)
            self.assertFalse((self.folder / "peer").exists())
        done = refused("shoald", "--dir", self.folder / "peer", "--upload", "20MB")
        self.assert_refused(done, BAD_CONFIG, "20MB", "mbit")
        done = refused("shoal", "set", "upload", "--dir", self.folder / "peer")
        self.assert_refused(done, USAGE, "key=value", "upload=20mbit")
        done = refused("shoal", "frobnicate")
        self.assertEqual(done.returncode, USAGE)
        self.assertEqual(done.stdout, "")

    def test_relay(self):
        folder = self.folder / "relay"
        for words, code, part in (
                (("--bogus",), USAGE, "there is no option '--bogus'; see `shoal-relay --help`"),
                (("--peers", "0"), USAGE, "--peers"),
                (("--rate", "20"), BAD_CONFIG, "--rate: '20' has no known unit of a rate"),
                (("--listen", "8783"), BAD_CONFIG, "'8783' has no host, and must be host:port"),
                (("--status-listen", "8784"), BAD_CONFIG, "--status-listen: ")):
            with self.subTest(words):
                self.assert_refused(refused("shoal-relay", "--dir", folder, *words), code,
                                    re.escape(part))
        (folder / "relay_secret").write_text("junk")
        done = refused("shoal-relay", "--dir", folder, "--listen", "127.0.0.1:0")
        self.assert_refused(done, BAD_CONFIG, "relay_secret is damaged; delete it")

    def test_nobody_there(self):
        done = refused("shoal", "status", "--dir", self.folder / "peer")
        self.assert_refused(done, NOT_RUNNING, "no shoald runs", "shoal join")
        done = refused("shoal", "swarm", "status", "--dir", self.folder / "run")
        self.assert_refused(done, NOT_RUNNING, "no shoal-scheduler runs", "shoal-scheduler")

    def test_swarm_init_keeps_run_toml(self):
        arguments = ["swarm", "init", "--model", harness.model(), "--data", harness.data(),
                     "--dir", self.folder / "run", "--stages", 2]
        run("shoal", *arguments)
        before = snapshot(self.folder / "run")
        done = refused("shoal", *arguments)
        self.assert_refused(done, FAILURE, "exists already", "another --dir")
        self.assertEqual(before, snapshot(self.folder / "run"))
        for flag, value, *patterns in (("--forward", "no codec", "no codec"),
                                       ("--forward", "magic", "known are"),
                                       ("--replica", "median", "is not known; there are"),
                                       ("--replica", "onebit:bits=2", "onebit knows bucket")):
            with self.subTest(value):
                done = refused("shoal", *arguments[:-3], self.folder / "other", "--stages", 2,
                               flag, value)
                self.assert_refused(done, BAD_CONFIG, *patterns)
                self.assertFalse((self.folder / "other").exists())

    def test_swarm_init_takes_relative_folders(self):
        for given in ("run", "sub/x", "other/", "./dot"):
            with self.subTest(given):
                run("shoal", "swarm", "init", "--model", harness.model(), "--data", harness.data(),
                    "--dir", given, "--stages", 2, cwd=self.folder)
                path = (self.folder / given).resolve()
                self.assertIn(f'directory = "{path}"', (path / "run.toml").read_text())

    def test_swarm_init_needs_a_model_and_data_that_can_be_read(self):
        (self.folder / "empty").mkdir()
        cases = (("none", harness.data(), "none is no folder", "Hugging Face"),
                 ("empty", harness.data(), "config.json"),
                 (harness.model(), "none.shoal", "none.shoal"))
        for model, data, *patterns in cases:
            with self.subTest(model=model, data=data):
                done = refused("shoal", "swarm", "init", "--stages", 2, "--dir",
                               self.folder / "new/run", "--model", self.folder / model, "--data",
                               self.folder / data)
                self.assert_refused(done, BAD_CONFIG, *patterns)
                self.assertEqual(done.stdout, "")
                self.assertFalse((self.folder / "new").exists())

    def test_swarm_init_keeps_a_folder_that_was_there(self):
        (self.folder / "run").mkdir()
        done = refused("shoal", "swarm", "init", "--stages", 2, "--dir", self.folder / "run/new",
                       "--model", self.folder / "none", "--data", harness.data())
        self.assert_refused(done, BAD_CONFIG, "none is no folder")
        self.assertEqual(snapshot(self.folder), {})
        self.assertTrue((self.folder / "run").is_dir())

    def test_swarm_init_refuses_data_that_do_not_fit_the_model(self):
        arguments = ("swarm", "init", "--stages", 2, "--dir", self.folder / "run", "--model",
                     harness.model())
        for data, extra, *patterns in (
                (harness.data(row=256), (), "rows of 256 tokens", "at most 128",
                 f"--tokenizer {harness.model()} --text FILE --out FILE --row 128"),
                (harness.data(), ("--micro-batches", 1000), "one step takes", "rows",
                 "run.toml, or --micro-batches or --rows of `shoal swarm init`")):
            with self.subTest(data=data):
                done = refused("shoal", *arguments, "--data", data, *extra)
                self.assert_refused(done, BAD_CONFIG, *patterns)
                self.assertEqual(done.stdout, "")
                self.assertFalse((self.folder / "run").exists())

    def test_a_demo_is_refused_before_it_begins_and_leaves_nothing(self):
        for flag, value, *patterns in (("--data", "/nowhere/a.txt", "No such file"),
                                       ("--answers", "/nowhere/a.jsonl", "No such file"),
                                       ("--replica", "qadam:bits=99", "bits=1 to bits=32"),
                                       ("--stages", "9", "the model has 4 layers"),
                                       ("--backward", "magic", "known are")):
            with self.subTest(value):
                done = refused("shoal", "demo", "--dir", self.folder / "demo", flag, value)
                self.assert_refused(done, BAD_CONFIG, *patterns)
                self.assertFalse((self.folder / "demo").exists())


class PortTest(harness.SwarmTest):

    def setUp(self):
        super().setUp()
        self.taken = socket.socket()
        self.addCleanup(self.taken.close)
        self.taken.bind(("127.0.0.1", 0))
        self.taken.listen()
        self.address = f"127.0.0.1:{self.taken.getsockname()[1]}"

    def test_scheduler(self):
        for key in ("listen", "status_listen"):
            with self.subTest(key):
                swarm = Swarm(self.folder / key, network={key: self.address})
                done = refused("shoal-scheduler", "--config", swarm.write_config())
                self.assert_refused(done, FAILURE, self.address, "in use")

    def test_peer(self):
        for flag in ("--listen", "--status-listen"):
            with self.subTest(flag):
                other = ({"--listen", "--status-listen"} - {flag}).pop()
                done = refused("shoald", "--dir", self.folder / "peer", other, "127.0.0.1:0",
                               flag, self.address)
                self.assert_refused(done, FAILURE, self.address, "in use")

    def test_a_second_peer_finds_a_port_for_its_page(self):
        folders = [self.folder / f"p{n}" for n in range(2)]
        peers = [harness.Daemon("shoald", ["--dir", folder, "--listen", "127.0.0.1:0"],
                                folder.with_suffix(".log")) for folder in folders]
        for peer in peers:
            self.addCleanup(peer.kill)

        def address(folder):
            done = run("shoal", "page", "--json", "--dir", folder, check=False)
            return done.returncode == 0 and json.loads(done.stdout)["url"].split("/")[2]

        pages = {wait_for(lambda: address(folder), 30, "a page") for folder in folders}
        self.assertEqual(len(pages), 2, pages)
        for peer in peers:
            self.assertEqual(peer.stop(), 0)

    def test_a_gpu_that_is_gone_is_not_the_cpu(self):
        start = ("shoald", "--dir", self.folder / "peer", "--listen", "127.0.0.1:0",
                 "--status-listen", self.address)
        done = refused(*start, "--device", "auto")
        self.assert_refused(done, FAILURE, "in use")
        kept = self.folder / "peer/device"
        self.assertEqual(kept.read_text(), "cpu\n")
        kept.write_text("gpu\n")
        done = refused(*start, "--device", "auto")
        self.assert_refused(done, TRY_LATER, "none answers", "nvidia-smi", "--device cpu")
        done = refused(*start, "--device", "cpu")
        self.assert_refused(done, FAILURE, "in use")
        self.assertEqual(kept.read_text(), "cpu\n")

    def test_folder_in_use(self):
        with Swarm(self.folder / "s") as swarm:
            swarm.start_scheduler()
            done = refused("shoal-scheduler", "--config", self.folder / "s/run.toml")
            self.assert_refused(done, FAILURE, str(swarm.run_folder), "another shoal", "stop it")
            self.assertEqual(swarm.run()["state"], "waiting")
            swarm.start_peer("p0")
            wait_for(lambda: swarm.peer_status("p0", check=False), 30, "p0 answers")
            done = refused("shoald", "--dir", swarm.peer_folder("p0"), "--listen", "127.0.0.1:0",
                           "--status-listen", "127.0.0.1:0")
            self.assert_refused(done, FAILURE, str(swarm.peer_folder("p0")), "another shoald",
                                "stop it")


class MembershipTest(harness.SwarmTest):

    def join(self, swarm, invite):
        return refused("shoald", "--dir", self.folder / "p", "--listen", "127.0.0.1:0",
                       "--status-listen", "127.0.0.1:0", "--join", invite)

    def test_wrong_invites(self):
        with Swarm(self.folder / "s") as swarm:
            swarm.start_scheduler()
            good = swarm.invite()
            done = self.join(swarm, "shoal1_nonsense")
            self.assert_refused(done, BAD_CONFIG, "invite")
            done = self.join(swarm, "file:" + str(self.folder / "none"))
            self.assertIn(done.returncode, (FAILURE, BAD_CONFIG))
            self.assert_refused(done, done.returncode, "none", "No such file")
            done = self.join(swarm, good[:-4])
            self.assert_refused(done, BAD_CONFIG, "invite")
            done = refused("shoal", "join", "shoal1_nonsense", "--dir", self.folder / "q")
            self.assert_refused(done, USAGE, "invite")
            self.assertEqual(swarm.status()["members"], [])
            swarm.stop()

    def test_wrong_secret(self):
        # The invite of another run with the address and the key of this one's scheduler: a second
        # scheduler on a copy of the first one's identity has another secret.
        port = harness.free_port()
        with Swarm(self.folder / "a", network={"listen": f"127.0.0.1:{port}"}) as swarm:
            swarm.start_scheduler()
            old = swarm.invite()
            swarm.stop()
            keep = [p for p in swarm.run_folder.iterdir() if "identity" in p.name or
                    p.suffix in (".key", ".pem", ".crt")]
            self.assertTrue(keep, list(swarm.run_folder.iterdir()))
            for path in swarm.run_folder.iterdir():
                if path not in keep:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            swarm.start_scheduler()
            self.assertNotEqual(swarm.invite(), old)
            done = self.join(swarm, old)
            self.assert_refused(done, PERMISSION, "invite|secret", "ask|new")
            self.assertEqual([m for m in swarm.status()["members"] if m["stage"] >= 0], [])
            swarm.stop()


class TypedTest(harness.SwarmTest):
    """What a volunteer types, in the order in which it is typed."""

    FLAGS = ("--listen", "127.0.0.1:0", "--status-listen", "127.0.0.1:0", "--device", "cpu")

    def start(self, *arguments):
        log = self.folder / f"shoald-{len(list(self.folder.glob('shoald-*')))}.log"
        daemon = harness.Daemon("shoald", ["--dir", self.folder / "p", *self.FLAGS, *arguments],
                                log)
        self.addCleanup(daemon.kill)
        wait_for(lambda: daemon.poll() is not None or self.status(), 30, "shoald answers")
        return daemon

    def status(self):
        done = run("shoal", "status", "--dir", self.folder / "p", "--json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def caps(self):
        return [self.status()["limits"][key] // 10**6 for key in ("upBps", "downBps")]

    def shoal(self, *arguments):
        return run("shoal", *arguments, "--dir", self.folder / "p").stdout

    def test_what_was_typed_last_holds(self):
        with Swarm(self.folder / "s", stages=1) as swarm:
            swarm.start_scheduler()
            invite = f"file:{swarm.run_folder}/invite"
            daemon = self.start("--join", invite, "--upload", "50mbit")
            self.shoal("set", "upload=5mbit", "download=9mbit")
            wait_for(lambda: self.status()["state"] == "training", 30, "it trains")
            # To a shoald that runs: caps at once, the rest is named.
            said = self.shoal("join", invite, "--upload", "7mbit", "--name", "attic")
            self.assertRegex(said, "already a member.*upload 7 Mbit/s.*--name")
            self.assertEqual(self.caps(), [7, 9])
            # After a reboot: shoald alone rejoins, and what was set holds.
            daemon.kill()
            daemon = self.start()
            self.assertEqual(self.caps(), [7, 9])
            wait_for(lambda: self.status()["scheduler"]["connected"], 30, "it rejoins by itself")
            # A flag is newer than what was set, and says so.
            daemon.stop()
            daemon = self.start("--upload", "20mbit")
            self.assertEqual(self.caps(), [20, 9])
            self.assertRegex(daemon.log.read_text(), "--upload 20 Mbit/s replaces upload=7 Mbit/s")
            self.shoal("set", "on_battery=pause")
            daemon.stop()
            daemon = self.start("--on-battery", "train")
            self.assertRegex(daemon.log.read_text(), "--on-battery train replaces on_battery=pause")
            self.assertRegex(daemon.log.read_text(), "download=9 Mbit/s of an earlier .shoal set. "
                             "holds, not off")
            self.shoal("leave", "--now")
            daemon.wait(30)
            daemon = self.start()
            self.assertEqual(self.status()["state"], "idle")
            self.assertEqual(self.caps(), [0, 9])
            swarm.scheduler.stop()

    def test_what_join_was_told_holds_for_later_starts(self):
        with Swarm(self.folder / "s", stages=1) as swarm:
            swarm.start_scheduler()
            joined = harness.Daemon(
                "shoal", ["join", f"file:{swarm.run_folder}/invite", "--dir", self.folder / "p",
                          *self.FLAGS, "--upload", "7mbit", "--name", "attic"],
                self.folder / "shoald-join.log")
            self.addCleanup(joined.kill)
            wait_for(lambda: self.status() and self.status()["scheduler"]["connected"], 30,
                     "it joins")
            self.assertEqual(joined.stop(), 0)
            daemon = self.start("--download", "30mbit")
            self.assertEqual(self.caps(), [7, 30])
            self.assertEqual(self.status()["name"], "attic")
            daemon.stop()
            daemon = self.start("--name", "cellar")
            self.assertEqual(self.caps(), [7, 0])
            self.assertEqual(self.status()["name"], "cellar")
            self.assertEqual(daemon.stop(), 0)
            self.start()
            self.assertEqual(self.status()["name"], "attic")

    def test_an_invite_in_the_folder_is_enough(self):
        with Swarm(self.folder / "s", stages=1) as swarm:
            swarm.start_scheduler()
            (self.folder / "p").mkdir(mode=0o700)
            text = swarm.invite()
            (self.folder / "p/invite").write_text(text[:30] + "\n" + text[30:] + "\n")
            self.start()
            wait_for(lambda: self.status()["scheduler"]["connected"], 30, "it joins")
            self.shoal("leave", "--now")
            self.assertFalse((self.folder / "p/invite").exists())

    def test_a_scheduler_that_is_not_reached_is_said(self):
        port = harness.free_port()
        listen = {"listen": f"127.0.0.1:{port}"}
        first = f"127.0.0.9:{harness.free_port()}"  # nobody is there
        many = {**listen, "advertise": [first, f"127.0.0.1:{port}"]}
        with Swarm(self.folder / "a", network=many) as swarm:
            swarm.start_scheduler()
            old = swarm.invite()
            swarm.scheduler.stop()
        daemon = self.start("--join", old)
        wait_for(lambda: "refused" in daemon.log.read_text(), 30, "the terminal says why")
        # Each address as soon as it has failed, and then all of them.
        self.assertRegex(daemon.log.read_text(), rf"dial_failed .*{first}.*next=127.0.0.1:{port}")
        wait_for(lambda: "next_try_in=" in daemon.log.read_text(), 30, "it tries again")
        self.assertRegex(daemon.log.read_text(), r"cannot be reached.*refused.*next_try_in=")
        done = run("shoal", "doctor", "--dir", self.folder / "p", check=False)
        self.assertEqual(done.returncode, FAILURE)
        self.assertRegex(done.stdout, "bad +scheduler_unreachable")
        self.assertNotIn("work as they should", done.stdout)
        # Another run at the same address.
        with Swarm(self.folder / "b", network=listen) as swarm:
            swarm.start_scheduler()
            self.shoal("join", old)
            wait_for(lambda: "another run" in daemon.log.read_text(), 30, "it names the invite")
            self.assertIn("ask the organiser for a new one", daemon.log.read_text())
            self.assertNotIn("verification check", daemon.log.read_text())

    def test_the_image_starts_as_it_is(self):
        dockerfile = (harness.SOURCE / "deploy/Dockerfile").read_text().replace("\\\n", " ")
        command = json.loads(re.search(r"(?m)^CMD (\[.*\])$", dockerfile).group(1))
        self.assertEqual(command[0], "shoald")
        # The image's ports are those of its own network.
        arguments = [re.sub(r":87\d\d$", ":0", argument) for argument in command[1:]]
        daemon = harness.Daemon("shoald", arguments, self.folder / "image.log",
                                env={"SHOAL_DIR": str(self.folder / "p")})
        self.addCleanup(daemon.kill)
        wait_for(lambda: daemon.poll() is not None or self.status(), 30, "shoald answers")
        self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    harness.main()
