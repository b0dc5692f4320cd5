"""A peer's page in a real browser: its owner changes settings by the link of `shoal page`, looks at
the history, and saves a picture; whoever has no token changes nothing."""

import json
import struct
import urllib.error
import urllib.request

import browser
import harness
from harness import run, run_json, wait_for
from swarm import Swarm


class PageTest(harness.SwarmTest):

    def setUp(self):
        super().setUp()
        self.swarm = Swarm(self.folder / "s", stages=2, steps=100_000, checkpoint_every=100_000)
        self.enterContext(self.swarm)
        self.swarm.start(None, "--upload", "50mbit")
        self.swarm.wait_step(3)

    def link(self):
        return run("shoal", "page", "--dir", self.swarm.peer_folder("p0")).stdout.strip()

    def cap(self):
        return self.swarm.peer_status("p0")["limits"]["upBps"]

    def wait_state(self, state):
        def there():
            status = self.swarm.peer_status("p0", check=False)
            return status and status["state"] == state
        wait_for(there, 40, f"p0 is {state}")


class OrderTest(PageTest):
    """As the page asks, without a browser."""

    def order(self, order, **headers):
        """Code and text of the answer."""
        address, token = self.link().removeprefix("http://").split("/#token=")
        given = {"X-Shoal-Token": token, "Content-Type": "application/json",
                 "Origin": f"http://{address}", **headers}
        asked = urllib.request.Request(f"http://{address}/settings", json.dumps(order).encode(),
                                       given)
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def test_orders_do_what_the_command_line_does(self):
        folder = self.swarm.peer_folder("p0")
        code, text = self.order({"set": {"upload": "5mbit"}})
        self.assertEqual(code, 200, text)
        self.assertEqual(json.loads(text)["message"].split(",")[0], "upload 5 Mbit/s")
        self.assertEqual(self.cap(), 5_000_000)
        for settings in (["upload=5m"], ["colour=red"], ["upload=9mbit", "--for", "soon"]):
            said = run("shoal", "set", *settings, "--dir", folder, check=False).stderr
            values = dict(s.split("=") for s in settings if "=" in s)
            if "--for" in settings:
                values["for"] = settings[-1]
            code, text = self.order({"set": values})
            self.assertEqual(code, 400)
            self.assertIn(text.strip(), said)
        self.assertEqual(self.cap(), 5_000_000)
        code, text = self.order({"pause": {"for": "1h"}})
        self.assertEqual(code, 200)
        self.assertIn("it takes part again at", text)
        self.wait_state("paused")
        code, text = self.order({"settings": {}})
        values = {s["name"]: s["value"] for s in json.loads(text)["settings"]}
        self.assertEqual((values["upload"], values["schedule"]), ("5 Mbit/s", "always"))
        self.assertEqual(self.order({"resume": {}})[0], 200)
        self.wait_state("training")
        self.swarm.stop()
        self.assertEqual((folder / "history.bin").read_bytes()[:8], b"SHOALHIS")

    def test_others_change_nothing(self):
        for order, headers, code in (
                ({"resume": {}}, {"X-Shoal-Token": "0" * 32}, 403),
                ({"resume": {}}, {"Origin": "http://example.org"}, 403),
                ({"resume": {}}, {"Host": "example.org"}, 403),
                ({"resume": {}}, {"Content-Type": "text/plain"}, 415),
                ({"leave": {}}, {}, 400), ({"stop": {}}, {}, 400), ([], {}, 400)):
            self.assertEqual(self.order(order, **headers)[0], code, (order, headers))
        link = run_json("shoal", "page", "--dir", self.swarm.peer_folder("p0"), "--json")
        self.assertEqual((link["url"], link["settings"]), (self.link(), True))
        token = link["url"].split("=")[1]
        self.assertRegex(token, "^[0-9a-f]{32}$")
        address = self.swarm.address("p0")
        for path in ("/api/v1/status", "/", "/peer.js", "/metrics", "/history"):
            with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
                self.assertNotIn(token, answer.read().decode())
        self.assertNotIn(token, self.swarm.peers["p0"].log.read_text())
        self.swarm.peers["p0"].stop()
        self.swarm.start_peer("p0")
        self.swarm.wait_step(self.swarm.run()["step"] + 1)
        self.assertNotEqual(self.link().split("=")[1], token, "each start has its own")


@harness.unittest.skipIf(browser.CHROMIUM is None, "no chromium")
class BrowserTest(PageTest):

    def setUp(self):
        super().setUp()
        self.window = browser.Browser(self.folder)
        self.addCleanup(self.window.close)

    def said(self, part):
        self.window.wait(f"$('settings-said').textContent.includes({json.dumps(part)})")

    def press(self, button):
        self.window.value(f"$('{button}').focus()")
        self.window.key("Enter", "\r", 13)

    def test_its_owner_changes_settings_by_keyboard(self):
        page = self.window
        page.size(360, 740)
        page.open(f"http://{self.swarm.address('p0')}/")
        page.wait("$('foot').textContent.includes('shoal page')")
        self.assertTrue(page.value("$('settings-box').hidden"), "without a token it only shows")
        page.open(self.link())
        page.wait("$('set-upload')")
        self.assertEqual(page.value("location.hash"), "", "nobody copies it with the address")
        self.assertEqual(page.value("$('set-upload').value"), "50 Mbit/s")
        page.value("$('set-upload').focus(); $('set-upload').select()")
        page.type("5m")
        page.key("Enter", "\r", 13)
        self.said("upload: '5m' has no known unit of a rate")
        self.assertEqual(page.value("document.activeElement.getAttribute('aria-invalid')"), "true")
        page.value("$('set-upload').select()")
        page.type("5mbit")
        page.key("Enter", "\r", 13)
        self.said("upload 5 Mbit/s")
        self.assertEqual(self.cap(), 5_000_000)
        self.press("pause-hour")
        self.said("it takes part again at")
        self.wait_state("paused")
        page.wait("$('state').textContent === 'paused'")
        self.press("resume")
        self.said("resumed")
        self.wait_state("training")
        unnamed = page.value(
            "[...document.querySelectorAll('button, input, select, [role=img]')].filter(e =>"
            " !(e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label') ||"
            " e.getAttribute('aria-labelledby'))).map(e => e.id)")
        self.assertEqual(unnamed, [], "a screen reader has a name for each")
        self.assertEqual(page.value("document.documentElement.scrollWidth"), 360)
        # The link of an earlier start.
        page.open("about:blank")
        page.open(self.link()[:-1] + "g")
        self.said("`shoal page` prints a link")
        self.assertTrue(page.value("$('pauses').hidden"))

    def test_the_picture_to_share_has_figures_and_nothing_else(self):
        page = self.window
        page.size(1200, 900, dark=True)
        page.open(f"http://{self.swarm.address('p0')}/")
        page.wait("$('card').getAttribute('aria-label')")
        self.assertRegex(page.value("$('card').getAttribute('aria-label')"),
                         r"^My computer trains .*, run: test, [\d.]+ hours trained, [\d,]+ "
                         r"micro-batches, [\d.]+ \w+ sent and received, \w+ \d+, \d{4}$")
        self.press("card-save")
        picture = self.folder / "shoal.png"
        wait_for(picture.exists, 20, "the picture is saved")
        head = picture.read_bytes()[:24]
        self.assertEqual((head[:8], struct.unpack(">II", head[16:])),
                         (b"\x89PNG\r\n\x1a\n", (1200, 630)))
        wait_for(lambda: picture.stat().st_size > 10_000, 20, "it is no empty one")


if __name__ == "__main__":
    harness.main()
