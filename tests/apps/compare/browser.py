"""Chromium without a window, driven over its DevTools protocol through a pipe: no package of Python's, no port."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile


def find_chromium():
    """Its path, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    return None


class Browser:
    """A page in a browser of its own. `problems` has what went wrong in it: errors, exceptions, what was refused."""

    def __init__(self, chromium):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # its processes end by and by
        # The browser reads commands from its descriptor 3 and answers on 4.
        read_command, write_command = os.pipe()
        read_answer, write_answer = os.pipe()
        self.process = subprocess.Popen(
            ["bash", "-c", 'exec 3<&"$1" 4>&"$2"; exec "${@:3}"', "-", str(read_command), str(write_answer), chromium,
             "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank"],
            pass_fds=(read_command, write_answer), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_command)
        os.close(write_answer)
        self.commands, self.answers, self.received = os.fdopen(write_command, "wb", 0), read_answer, b""
        self.number, self.session, self.problems, self.events = 0, None, [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(AssertionError, OSError):
            self.session = None
            self.call("Browser.close")
        self.process.kill()
        self.process.wait()
        self.commands.close()
        os.close(self.answers)
        self.profile.cleanup()

    def receive(self):
        while b"\0" not in self.received:
            assert select.select([self.answers], [], [], 60)[0], "the browser has said nothing for a minute"
            more = os.read(self.answers, 1 << 20)
            assert more, "the browser has ended"
            self.received += more
        text, self.received = self.received.split(b"\0", 1)
        message = json.loads(text)
        method, given = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(given["exceptionDetails"])[:500])
        if method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(given["args"])[:500])
        if method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.problems.append(given["entry"]["text"])
        if method == "Page.javascriptDialogOpening":
            self.problems.append("a dialog: " + given["message"])
        if method:
            self.events.append(method)
        return message

    def call(self, method, **given):
        self.number += 1
        message = {"id": self.number, "method": method, "params": given}
        if self.session:
            message["sessionId"] = self.session
        self.commands.write(json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            pass
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def open(self, file, width=1440, height=1000, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.emulate("screen", dark)
        self.events.clear()
        self.call("Page.navigate", url="about:blank")  # another part of the same page would be no load
        while "Page.loadEventFired" not in self.events:
            self.receive()
        self.events.clear()
        self.call("Page.navigate", url=f"file://{file}" if "://" not in str(file) else str(file))
        while "Page.loadEventFired" not in self.events:
            self.receive()
        self.frame()

    def emulate(self, media, dark=False):
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def js(self, code):
        """The value of an expression, or of what it promises."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (code, answer["exceptionDetails"])
        return answer["result"].get("value")

    def frame(self):
        """Waits until what was changed is drawn."""
        self.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))")

    def place(self, selector):
        """The middle of an element, scrolled into sight."""
        return self.js(f"""(() => {{ const found = document.querySelector({json.dumps(selector)});
            found.scrollIntoView({{block: "center", inline: "center"}});
            const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()""")

    def point(self, selector=None, at=None):
        x, y = at or self.place(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.frame()

    def click(self, selector):
        x, y = self.place(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.frame()

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)
        self.frame()

    def write(self, selector, text):
        self.js(f"""(() => {{ const field = document.querySelector({json.dumps(selector)}); field.value = {json.dumps(text)};
            field.dispatchEvent(new Event("input", {{bubbles: true}}));
            field.dispatchEvent(new Event("change", {{bubbles: true}})); }})()""")
        self.frame()

    def picture(self):
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
