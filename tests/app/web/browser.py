"""Headless Chromium, commanded through a pipe by its DevTools protocol."""

import json
import os
import select
import shutil
import subprocess
import time
from contextlib import contextmanager
from itertools import count

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")
QUIET = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-gpu")
ANSWER_S = 60.0
LOST = "net::ERR_"  # a server that went away


class Browser:
    """One tab. `complaints` are the texts of errors and warnings of the pages, refusals of their policy included.

    A lost server is no complaint.
    """

    def __init__(self, reads, writes):
        self._reads, self._writes, self._numbers, self._rest = reads, writes, count(1), b""
        self.session, self.complaints = None, []

    def ask(self, method, **values):
        """Give a command; its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": values}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            told = json.dumps(answer.get("params"))
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded") and LOST not in told:
                self.complaints.append(told)
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self):
        while b"\0" not in self._rest:
            assert select.select([self._reads], [], [], ANSWER_S)[0], "Chromium does not answer"
            data = os.read(self._reads, 1 << 20)
            assert data, "Chromium ended"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def run(self, script):
        """The value of a script's expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, script):
        """Wait until a script's expression is true."""
        end = time.monotonic() + ANSWER_S
        while not self.run(script):
            assert time.monotonic() < end, f"{script}: stays false on {self.run('document.body.innerText')[:2000]}"
            time.sleep(0.05)

    def open(self, address):
        self.ask("Page.navigate", url=address)
        self.wait(f"location.href === {json.dumps(address)} && document.readyState === 'complete'")

    def size(self, width, height=900, phone=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def press(self, key, text=None):
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            codes = {"Tab": 9, "Enter": 13}
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=codes.get(key, 0), **more)

    def prefer(self, scheme):
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


@contextmanager
def open_browser(folder):
    """A browser with its profile in `folder`."""
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    command = [
        "bash", "-c", f'exec "$0" "$@" 3<&{in_read} 4>&{out_write}', CHROMIUM, "--headless", "--no-sandbox", *QUIET,
        f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank",
    ]  # fmt: skip
    process = subprocess.Popen(command, pass_fds=(in_read, out_write), stderr=subprocess.DEVNULL)
    os.close(in_read)
    os.close(out_write)
    browser = Browser(out_read, in_write)
    try:
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        browser.session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            browser.ask(f"{domain}.enable")
        yield browser
        browser.session = None
        browser.ask("Browser.close")
    finally:
        os.close(in_write)
        os.close(out_read)
        process.terminate()
        process.wait(30)
