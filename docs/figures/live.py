#!/usr/bin/python3
"""live.py BUILD [OUT] - takes docs/img/live.png, or a picture of each look in the folder OUT: the page of ./run web after some
seconds, by a headless Chromium that is driven over a pipe, because the page's time must be the host's. Needs Pillow (python3-pil).
"""
import base64
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from PIL import Image

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PORT, WAIT_S, COLOURS = "8099", 20, 96
LOOKS = {"live": (1280, 920, "light"), "dark": (1280, 830, "dark"), "phone": (390, 844, "light"), "phone-dark": (390, 844, "dark")}


class Browser:
    """Chromium's DevTools protocol: JSON texts that end with a zero byte, on descriptors 3 and 4."""

    def __init__(self, folder):
        down, self.sends = os.pipe()
        self.receives, up = os.pipe()
        command = [shutil.which("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
                   f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen(["sh", "-c", f'exec "$@" 3<&{down} 4>&{up}', "-", *command], pass_fds=(down, up),
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        self.number, self.rest, self.session = 0, b"", None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.sends, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                self.rest += os.read(self.receives, 1 << 20)
            text, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.number:
                return answer["result"]

    def shoot(self, look):
        width, height, scheme = LOOKS[look]
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        time.sleep(3)
        return Image.open(io.BytesIO(base64.b64decode(self.ask("Page.captureScreenshot")["data"])))


def main(build, out=None):
    with tempfile.TemporaryDirectory() as folder:
        web = subprocess.Popen([f"{ROOT}/experiments/web.py", os.path.abspath(build), PORT], cwd=ROOT, stdout=subprocess.PIPE)
        web.stdout.readline()
        browser = Browser(folder)
        browser.ask("Page.navigate", url=f"http://127.0.0.1:{PORT}/")
        time.sleep(WAIT_S)
        for look in LOOKS if out else ["live"]:
            picture = browser.shoot(look).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
            picture.save(f"{out or ROOT + '/docs/img'}/{look}.png", optimize=True)
        os.killpg(browser.process.pid, signal.SIGKILL)
        browser.process.wait()
        web.send_signal(signal.SIGINT)
        sys.exit(web.wait())


main(*sys.argv[1:])
