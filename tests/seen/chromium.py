"""The real Chromium, without a window."""
import base64
import json
import os
import shutil
import subprocess
import time

import runs


def program():
    found = shutil.which("chromium")
    assert found, "no chromium here: script/dependencies --for test installs it"
    return found


def flags(folder):
    return ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"]


def shown(folder, address, *more):
    """What it makes of a page after ten seconds, by its own clock."""
    ended = subprocess.run([program(), *flags(folder / "chromium"), "--virtual-time-budget=10000",
                            "--window-size=1080,1600", *more, address],
                           capture_output=True, text=True, timeout=runs.DEADLINE)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


class Page:
    """One that stays open, spoken to by the DevTools protocol over a pair of pipes."""

    def __init__(self, folder, address, size="1500,900"):
        inward, self.to = os.pipe()
        self.answers, outward = os.pipe()

        def as_it_expects():  # it reads from 3 and writes to 4, whatever numbers ours have
            far = [os.dup2(end, number) for end, number in ((inward, 103), (outward, 104))]
            for end, number in zip(far, (3, 4)):
                os.dup2(end, number, inheritable=True)

        self.process = subprocess.Popen(
            [program(), *flags(folder / "devtools"), "--remote-debugging-pipe", f"--window-size={size}", "about:blank"],
            preexec_fn=as_it_expects, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        runs.STARTED.append(self.process)
        os.close(inward)
        os.close(outward)
        self.asked, self.unread, self.session = 0, b"", {}
        target = self.call("Target.createTarget", url=address)["targetId"]
        self.session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}

    def call(self, method, **params):
        self.asked += 1
        asked = {"id": self.asked, "method": method, "params": params, **self.session}
        os.write(self.to, json.dumps(asked).encode() + b"\0")
        while True:
            while b"\0" not in self.unread:
                more = os.read(self.answers, 1 << 20)
                assert more, "chromium is gone"
                self.unread += more
            message, _, self.unread = self.unread.partition(b"\0")
            answer = json.loads(message)
            if answer.get("id") == self.asked:
                assert "error" not in answer, answer
                return answer["result"]

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, expression, what):
        runs.wait_for(lambda: self.value(expression), what)

    def picture(self, path, settle=2):
        time.sleep(settle)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.answers)
