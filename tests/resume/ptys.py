"""Programs on a terminal of their own, of so many columns, and what it got from them."""
import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import runs

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# A person's terminal; what else this test was started in says nothing.
PLAIN = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")} | {"TERM": "xterm"}


class Shown:
    """A program while it runs there; `variables` are added to its environment."""

    def __init__(self, *command, columns=80, cwd=None, **variables):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        self.process = subprocess.Popen([*map(str, command)], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd,
                                        env=PLAIN | variables)
        runs.STARTED.append(self.process)
        os.close(theirs)
        self.text = ""
        self.bytes = b""

    def read_until(self, holds, what):
        """Until `holds` of all that came so far, or nobody writes any more; whether it did."""
        end = time.monotonic() + runs.DEADLINE
        while not holds(self.text):
            assert select.select([self.ours], [], [], max(0, end - time.monotonic()))[0], f"no {what}: {self.text!r}"
            part = b""
            with contextlib.suppress(OSError):  # what reading gives once nobody holds the other end
                part = os.read(self.ours, 65536)
            if not part:
                return False
            self.bytes += part
            self.text = self.bytes.decode(errors="ignore")  # the last character may be half there
        return True

    def ends(self, code=0):
        """Everything that the terminal got."""
        self.read_until(lambda _: False, "end")
        os.close(self.ours)
        ended = self.process.wait(timeout=runs.DEADLINE)
        assert code is None or ended == code, f"exit code {ended}: {self.text}"
        return self.text


def lines(text):
    """As they stand there, each time that one is drawn."""
    return [line for line in SEQUENCE.sub("", text.replace("\x1b[K", "\n")).replace("\r", "\n").split("\n") if line]
