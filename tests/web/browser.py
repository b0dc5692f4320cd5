"""A headless Chromium that a test drives: pages, clicks, keys, sizes, pictures. It speaks the
DevTools protocol over pipes, so that nothing listens on a port."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

import harness

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--disable-background-networking", "--no-first-run"]
TIMEOUT_S = 60


class Browser:
    """One window. `folder` takes its profile and what it downloads."""

    def __init__(self, folder):
        to_child, self.write = os.pipe()
        self.read, from_child = os.pipe()
        # Chromium reads from 3 and writes to 4.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_child, from_child)]

        def prepare():
            harness.die_with_parent()
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        with open(f"{folder}/chromium.log", "wb") as log:
            self.process = subprocess.Popen(
                [CHROMIUM, *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={folder}/profile"],
                stdout=log, stderr=log, preexec_fn=prepare, pass_fds=(3, 4))
        for end in (to_child, from_child, *ends):
            os.close(end)
        self.folder = folder
        self.buffer, self.count, self.session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        self.call("Page.enable")

    def close(self):
        """Gone, with its helpers, when this returns."""
        try:
            self.call("Browser.close")
            self.process.wait(TIMEOUT_S)
        finally:
            self.process.kill()
            self.process.wait()
            harness.wait_for(lambda: not harness.processes_naming(f"{self.folder}/profile"), 20,
                             "the browser's helpers end")
        os.close(self.read)
        os.close(self.write)

    def _next(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.read], [], [], left)[0]:
                raise AssertionError("the browser does not answer")
            chunk = os.read(self.read, 1 << 16)
            if not chunk:
                raise AssertionError("the browser ended")
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._next(until)
            if answer.get("id") != self.count:
                continue
            if "error" in answer:
                raise AssertionError(f"{method}: {answer['error']}")
            return answer["result"]

    def open(self, url):
        self.call("Page.navigate", url=url)

    def size(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def value(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, script):
        """Until the script's value is true. While the page loads it has no names yet."""
        until = time.monotonic() + TIMEOUT_S
        guarded = f"(() => {{ try {{ return Boolean({script}); }} catch {{ return false; }} }})()"
        while not self.value(guarded):
            if time.monotonic() > until:
                raise AssertionError(f"never true on the page: {script}\n" +
                                     self.value("document.body.innerText"))
            time.sleep(0.1)

    def key(self, name, text="", code=0):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode=code, **({"text": text} if kind == "keyDown" and text
                                                     else {}))

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path, whole=True):
        """Of the whole page, or of what is in the window."""
        with open(path, "wb") as out:
            out.write(base64.b64decode(self.call(
                "Page.captureScreenshot", captureBeyondViewport=whole)["data"]))
