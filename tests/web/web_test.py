"""The live pages in a real browser, and the metrics in promtool, of a swarm that trains."""

import http.server
import json
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request

import harness
from swarm import Swarm

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
PROMTOOL = shutil.which("promtool") or next(
    (str(p) for p in [harness.SOURCE / ".deps/bin/promtool"] if p.exists()), None)


def get(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
        return answer.read().decode()


class Browser(harness.SwarmTest):

    def browse(self, address, *flags):
        self.assertIsNotNone(BROWSER)
        done = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-background-networking", "--no-first-run", "--window-size=1200,1300",
             f"--user-data-dir={self.folder}/browser", "--virtual-time-budget=6000", *flags,
             f"http://{address}/"], capture_output=True, text=True, timeout=120, check=False,
            preexec_fn=harness.die_with_parent)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout

    def page(self, status, history=None, events=None):
        """What the page makes of a status, and of the history and events behind it."""
        status, history, events = (json.dumps(part or {}).encode()
                                   for part in (status, history, events))

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js",
                        "/peer.js": "peer.js",
                        "/history.js": "history.js"}.get(self.path)
                if name:
                    body = (harness.SOURCE / f"net/http/status_{name}").read_bytes()
                else:
                    body = {"/history": history, "/events": events}.get(
                        self.path.partition("?")[0], status)
                kind = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
                self.send_response(200)
                self.send_header("Content-Type", kind.get((name or "").rpartition(".")[2],
                                                          "application/json"))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return self.browse(f"127.0.0.1:{server.server_port}", "--dump-dom")


    def part(self, page, pattern):
        match = re.search(pattern, page, re.S)
        self.assertIsNotNone(match, f"{pattern} is not on the page")
        return match.group(1)


class HostilePeerTest(Browser):
    """The organiser's page shows what peers say: text, never script."""

    EVIL = "<img src=x onerror='document.title=`owned`'>"

    def status(self):
        evil = self.EVIL
        peer = {"role": {"layers": [evil, evil]},
                "work": {"time": [{"activity": evil, "ms": evil}]},
                "links": [{"ratio": evil, "name": evil, "channel": evil, "upBps": evil,
                           "rttMs": evil, "stallNetworkMs": evil}, None, 7],
                "boundaries": [{"boundary": evil, "relativeDelta": evil, "lowRank": evil}, None],
                "health": [{"text": evil, "fix": evil}, None], "traffic": {"forward": evil},
                "deltaStore": {"bytes": evil}}
        run = {"name": evil, "state": evil, "reason": evil, "step": evil, "losses": [evil],
               "checkpointStep": evil,
               "heldOut": [evil, [evil, evil]]}
        return {"run": run, "version": evil,
                "checkpointStore": {"address": evil, "step": evil, "lastFailure": evil},
                "members": [{"peer": "1", "name": evil, "stage": 0, "pipeline": evil,
                             "state": evil, "status": peer}]}

    @harness.unittest.skipIf(BROWSER is None, "no chromium")
    def test_the_organisers_page_runs_no_script_of_a_peer(self):
        events = [{"kind": kind, "name": self.EVIL, "peer": self.EVIL, "reason": self.EVIL,
                   "step": self.EVIL, "pipelines": self.EVIL} for kind in
                  ("left", "counting", "generation", "skipped", self.EVIL)]
        page = self.page(self.status(), events={"events": [*events, None, 7]})
        self.assertNotIn("<img", page)
        self.assertEqual(len(re.findall(r'<td class="long">', page)), 6)
        self.assertIn("&lt;img src=x", page)
        self.assertNotRegex(page, "<title>owned")
        self.assertNotIn("no answer", page, "a text in place of a number stops nothing")

    @harness.unittest.skipIf(BROWSER is None, "no chromium")
    def test_the_page_says_where_the_checkpoints_are(self):
        status = {"run": {"name": "r", "state": "training", "checkpointStep": 40}, "members": [],
                  "version": "1"}
        self.assertRegex(self.page(status), r"<b>step 40</b><span>checkpoint")
        status["checkpointStore"] = {"address": "s3://b/p", "step": 30, "lastFailure": "no route"}
        page = self.page(status)
        self.assertRegex(page, r"<b>step 40, stored 30</b><span>checkpoint")
        self.assertRegex(page, r"checkpoints are not copied to the store; it tries again: "
                               r"</b>no route")


    @harness.unittest.skipIf(BROWSER is None, "no chromium")
    def test_the_map_shows_where_a_pipeline_lacks_a_stage(self):
        members = [{"peer": str(i), "name": name, "stage": stage, "pipeline": pipeline,
                    "state": "training", "status": {}}
                   for i, (name, stage, pipeline) in enumerate(
                       [("a", 0, 0), ("b", 1, 0), ("c", 2, 0), ("d", 0, 1), ("e", 2, 1)])]
        page = self.page({"run": {"name": "r", "state": "training"}, "members": members,
                          "version": "1"})
        rows = self.part(page, r'<div id="map">(.*?)</section>').split('class="row"')[1:]
        boxes = [re.findall(r'class="(peer [a-z]+|wire)">(?:<b>(\w+)</b>)?', row) for row in rows]
        self.assertEqual([name for kind, name in boxes[0] if kind != "wire"], ["a", "b", "c"])
        self.assertEqual([kind for kind, _ in boxes[1]],
                         ["peer good", "wire", "peer gap", "wire", "peer good"])
        self.assertEqual([name for _, name in boxes[1]], ["d", "", "nobody", "", "e"])

    @harness.unittest.skipIf(BROWSER is None, "no chromium")
    def test_the_organisers_page_tells_what_happened_and_when_it_ends(self):
        minute = int(time.time()) // 60 * 60_000
        points = [[minute - ago * 60_000, 7_500_000, 0, 6, 60_000, 2.5] for ago in (4, 3, 2)]
        run = {"name": "r", "state": "training", "step": 40, "steps": 1_000, "stepSeconds": 10}
        page = self.page(
            {"run": run, "members": [], "version": "1"},
            {"schemaVersion": 1, "span": "1h", "periodMs": 60_000, "points": points},
            {"events": [
                {"kind": "joined", "time": minute, "peer": "1f00a2b3c4", "name": "attic"},
                {"kind": "generation", "time": minute, "generation": 2, "step": 40,
                 "stepsBefore": "kept", "stepsLost": 0, "secondsWithoutStep": 3.21}]})
        self.assertRegex(page, r"<b>2 h 40 min</b><span>ETA")
        self.assertRegex(page, r"Peers sent each other 21\.5 MiB in 1 hour")
        moved = self.part(page, r'<div class="key" id="moved-key">(.*?)</div>')
        self.assertNotIn("received", moved)
        rows = re.findall(r'<td class="\w*">(\w+)</td><td class="long">([^<]*)</td>',
                          self.part(page, r'<table id="events">(.*?)</table>'))
        self.assertEqual(rows, [
            ("generation", "generation 2 from step 40: no step lost, 3.2 s without a step"),
            ("joined", "attic")])


class PeerPageTest(Browser):

    @harness.unittest.skipIf(BROWSER is None, "no chromium")
    def test_a_peers_page_names_the_rules_in_force_and_the_cost(self):
        paused, quiet = "paused until 18:00: schedule", "upload 5 Mbit/s until 22:00: quiet hours"
        page = self.page({"name": "attic", "state": "paused", "stateReasons": [paused],
                          "terms": {"rules": [paused, quiet]}, "version": "1",
                          "gpu": {"name": "RTX", "powerWatts": 287.5},
                          "usage": {"trainedMs": 7_200_000, "sentBytes": 1 << 30,
                                    "receivedBytes": 1 << 30, "energyJoules": 5_400_000}})
        self.assertIn(f'<span id="reason" role="status">{paused}; {quiet}</span>', page)
        self.assertRegex(page, r"<b>2\.0 h</b>")
        self.assertRegex(page, r"<b>2\.\d+ GiB</b>")
        self.assertRegex(page, r"<b>288 W</b><span>powerWatts</span>")
        self.assertRegex(page, r"<b>1\.50 kWh</b><span>energyJoules</span>")


    @harness.unittest.skipIf(BROWSER is None, "no chromium")
    def test_a_peers_page_draws_its_history_with_gaps_where_it_was_off(self):
        minute = int(time.time()) // 60 * 60_000
        points = [[minute - ago * 60_000, 7_500_000, 750_000, 6, 60_000, None if ago % 2 else 2.5]
                  for ago in (50, 49, 48, 20, 19, 18, 17)]
        page = self.page({"name": "attic", "state": "training", "version": "1"},
                         {"schemaVersion": 1, "span": "1h", "periodMs": 60_000, "points": points})
        moved = re.search(r'<svg id="moved".*?</svg>', page, re.S).group()
        self.assertEqual([len(line.split()) for line in re.findall(r' points="([^"]*)"', moved)],
                         [3, 4, 3, 4], "sent and received, before and after the gap")
        self.assertIn("1.0 Mbit/s", moved)
        self.assertRegex(page, r"Micro-batches per minute; 42 in 1 hour")
        self.assertRegex(page, r"Loss, now 2\.5000")
        self.assertRegex(page, r'<section id="settings-box"[^>]* hidden')


class WebTest(Browser):

    def setUp(self):
        super().setUp()
        # Long enough to still train while the browser looks.
        self.swarm = Swarm(self.folder / "s", stages=2, pipelines=2, steps=100_000,
                           checkpoint_every=100_000, forward="aqsgd:bits=4",
                           backward="direct:bits=8", data=harness.data(32, 10_000))
        self.enterContext(self.swarm)
        self.swarm.start(None, "--upload", "50mbit", "--download", "80mbit")
        self.swarm.wait_step(20)

    def check_page(self, address, peers, links, kinds_sent):
        page = self.browse(address, "--dump-dom")
        self.assertRegex(self.part(page, r'id="state" class="([^"]*)"'), "good")
        boxes = re.findall(r'class="peer (\w+)"><b>(\w+)</b>\s*<small>training, layers (\d)–(\d)',
                           self.part(page, r'<div id="map">(.*?)</section>'))
        self.assertEqual({name for _, name, *_ in boxes}, peers)
        self.assertTrue(all(mood == "good" for mood, *_ in boxes))
        loss = self.part(page, r'<svg id="loss".*?<polyline[^>]* points="([^"]*)"')
        self.assertGreaterEqual(len(loss.split()), 20)
        rates = re.findall(r'<polyline[^>]* points="([^"]*)"',
                           self.part(page, r'<svg id="rates"(.*?)</svg>'))
        self.assertGreaterEqual(len(rates), links)
        for curve in rates:
            self.assertGreaterEqual(len(curve.split()), 3)
        table = self.part(page, r'<table id="links">(.*?)</table>')
        names = re.findall(r"<th[^>]*>(.*?)</th>", table)
        rows = re.findall(r"<tr><td>.*?</tr>", table)
        self.assertGreaterEqual(len(rows), links)
        for row in rows:
            cell = dict(zip(names, re.findall(r"<td>(.*?)</td>", row)))
            self.assertIn("50.0 Mbit/s", cell["cap"])
            self.assertRegex(cell["sent"], r"^[\d.]+ [KM]iB$")
            self.assertRegex(cell["ratio"], r"^\d+\.\d×$")
        stages = self.part(page, r'<table id="time">(.*?)</table>')
        self.assertEqual(set(re.findall(r'class="peer-name">(\w+)<', stages)), peers)
        self.assertEqual(len(re.findall(
            r'class="bar"><b>(?:<i[^>]*></i>)+</b></td>'
            r"<td>(?:zero-bubble</td><td>\d+</td><td>\d+|1f1b</td><td>\d+</td><td>–)</td>"
            r"<td>[\d.]+ [KM]iB</td><td>[\d.]+ m?s</td><td>[\d.]+ m?s</td>", stages)), len(peers))
        ends = self.part(page, r'<table id="ends">(.*?)</table>')
        self.assertRegex(ends, r"<td>0</td><td>activations</td><td[^>]*>[a-z ]+</td>"
                               r"<td>(–|[\d.]+ %)</td><td>(–|[\d.]+ %)</td><td>[\d.]+ %</td>"
                               r"<td>\d+</td>")
        kinds = self.part(page, r'<table id="kinds">(.*?)</table>')
        for kind in kinds_sent:
            self.assertRegex(kinds, rf"<td>{kind}</td><td>[\d.]+ [KMG]iB</td>"
                                    rf"<td>[\d.]+ [KMG]iB</td><td>\d+\.\d×</td>")
        for target in re.findall(r'(?:src|href)="([^"]*)"', page):
            self.assertTrue(target.startswith("/"), f"the page needs the network: {target}")
        return page

    @harness.unittest.skipIf(BROWSER is None, "no chromium")
    def test_pages(self):
        sender = self.swarm.peer_at(stage=0)
        page = self.check_page(self.swarm.address(), set(self.swarm.peers), 4,
                               ("forward", "backward"))
        self.assertIn("pipeline 1", page)
        happened = re.findall(r'<td class="\w*">(\w+)</td><td class="long">',
                              self.part(page, r'<table id="events">(.*?)</table>'))
        self.assertEqual(happened, ["generation"] + 4 * ["joined"] + ["began"])
        self.assertNotIn("pipeline 2", page)
        self.check_page(self.swarm.address(sender), {sender}, 1, ("forward",))
        picture = self.folder / "page.png"
        self.browse(self.swarm.address(), f"--screenshot={picture}")
        self.assertGreater(picture.stat().st_size, 20_000)  # an empty page has some 5 kB
        self.swarm.check_alive()

    def test_endpoints(self):
        for name in (None, "p0"):
            address = self.swarm.address(name)
            with urllib.request.urlopen(f"http://{address}/", timeout=10) as answer:
                policy = answer.headers["Content-Security-Policy"]
                self.assertIn("default-src 'none'", policy)
                self.assertIn("frame-ancestors 'none'", policy)
                self.assertNotIn("unsafe", policy)
            status = json.loads(get(address, "/api/v1/status"))
            self.assertEqual(next(iter(status)), "schemaVersion")
            self.assertEqual(get(address, "/healthz").strip(), "ok")
            self.assertTrue(get(address, "/readyz"))
            with self.assertRaises(urllib.error.HTTPError) as missing:
                get(address, "/nothing")
            self.assertEqual(missing.exception.code, 404)
            metrics = get(address, "/metrics")
            self.assertRegex(metrics, r"(?m)^shoal_\w+(\{[^}]*\})? [\d.e+]+$")
            if PROMTOOL is None:
                print("no promtool: format of /metrics not checked")
                continue
            done = subprocess.run([PROMTOOL, "check", "metrics"], input=metrics, text=True,
                                  capture_output=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))


if __name__ == "__main__":
    harness.main()
