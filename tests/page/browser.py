"""A headless Chromium over a pipe, by the Chrome DevTools protocol; Python's own library is all that it needs."""
import base64
import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path

# The widths that pages are held at, in CSS pixels.
WIDTHS = [1280, 800, 390]
# Seconds that the browser may take for an answer.
PATIENCE = 120


def told(wrong):
    """Says what is wrong, and ends with 1 where there is something."""
    for what in wrong:
        print(what, file=sys.stderr)
    sys.exit(1 if wrong else 0)


class Browser:
    def __init__(self, program):
        requests, self.out = os.pipe()
        self.into, answers = os.pipe()
        self.profile = tempfile.TemporaryDirectory()

        def pipes():
            # The protocol's files are 3 and 4, whatever numbers the pipes have.
            ends = os.dup(requests), os.dup(answers)
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        # Its sandbox does not run as root, as which containers do; it opens no page but ours.
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(command, close_fds=False, preexec_fn=pipes,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")

    def read(self):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.into], [], [], PATIENCE)
            piece = os.read(self.into, 1 << 20) if ready else b""
            if not piece:
                raise RuntimeError("the browser does not answer")
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.out, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path, width, dark=False, scripts=True, medium=""):
        """Loads a page at a width in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.media(dark, medium)
        self.events.clear()
        self.call("Page.navigate", url=Path(path).absolute().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.read())

    def media(self, dark=False, medium=""):
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media=medium, features=features)

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{result['exceptionDetails']} in {script}")
        return result["result"].get("value")

    def press(self, key, text=""):
        event = {"key": key, "code": "Space" if key == " " else key, "text": text}
        codes = {"Enter": 13, " ": 32, "Escape": 27, "End": 35, "Home": 36,
                 "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        event["windowsVirtualKeyCode"] = codes[key]
        self.call("Input.dispatchKeyEvent", type="keyDown", **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def point(self, x, y, click=False):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if click:
            for kind in ["mousePressed", "mouseReleased"]:
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def complaints(self):
        """What the page threw, logged or fetched since it was opened."""
        found = []
        for event in self.events:
            method, of = event.get("method"), event.get("params", {})
            if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                found.append(f"{method}: {json.dumps(of)[:300]}")
            elif method == "Network.requestWillBeSent" and of["type"] != "Document":
                found.append(f"it fetches {of['request']['url'][:100]}")
        return found

    def picture(self, path):
        height = self.run("document.documentElement.scrollHeight")
        width = self.run("innerWidth")
        # A picture of more pixels than a texture has is empty.
        for part, top in enumerate(range(0, height, 1800)):
            clip = {"x": 0, "y": top, "width": width, "height": min(1800, height - top), "scale": 1}
            data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
            Path(f"{path}-{part}.png").write_bytes(base64.b64decode(data))

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
        except RuntimeError:
            pass
        self.process.wait(PATIENCE)
