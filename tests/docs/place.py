"""The folder in which a reader of the docs types what they say, and what the shell answers there."""
import fcntl
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import termios
import time

import ports
import runs

DEADLINE = 150  # seconds for one command: a bound on a hang
BYTES_OF_TEXT = 100_000  # of the King James text: enough to train on, soon evaluated
# What makes a training short; the rest of a command stays as the page has it.
SHORT = ("training.max_steps=3", "evaluation.every=end")
TRAINS = re.compile(r"\bmuster (train|compare|resume)\b|\btides train\b")
GENERATES = re.compile(r"jobs/(gpt|llama|moe)\.yaml")


def without_comment(line):
    return re.sub(r"\s+#\s.*$", "", line).strip()


def commands_of(block):
    """The lines that are typed: those behind `$ `, or all of a block that has none."""
    prompted = [line[2:] for line in block.lines if line.startswith("$ ")]
    typed = [without_comment(line) for line in prompted or block.lines]
    return [line for line in typed if line and not line.startswith("#")]


def printed_in(block):
    """The lines of a block that a program has printed."""
    return [line for line in block.lines if not line.startswith("$ ")]


class Place:
    """A folder with jobs/ and data/, where `muster` is on the PATH, HOME is the folder itself, and nothing is left behind."""

    def __init__(self, folder, tools):
        self.folder, self.tools = folder, tools
        self.root = pathlib.Path(tools.root)
        (folder / "bin").mkdir()
        (folder / "bin/muster").symlink_to(tools.muster)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        self.environment |= {"HOME": str(folder), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        shutil.copytree(self.root / "jobs", folder / "jobs")
        self.put_data_in_place()

    def put_data_in_place(self):
        """As script/data does it, but for the length of the text."""
        (self.folder / "script").mkdir()
        for name in ("data", "common.sh"):
            shutil.copy(self.root / "script" / name, self.folder / "script")
        self.run("script/data")
        text = self.folder / "data/kjv.txt"
        text.write_bytes(text.read_bytes()[:BYTES_OF_TEXT])

    def shortened(self, command, settings=SHORT):
        """The command with flags behind it that make its training short."""
        if not TRAINS.search(command):
            return command
        length = ["generate.length=1", "training.global_batch_size=8"] if GENERATES.search(command) else []
        return f"{command} {shlex.join(runs.settings(*settings, *length))}"

    def start(self, command, variables=None):
        process = subprocess.Popen(["bash", "-c", command], cwd=self.folder, env=self.environment | (variables or {}),
                                   text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        process.started = time.time()
        runs.STARTED.append(process)
        return process

    def run(self, command, code=0):
        """What it prints."""
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=DEADLINE, check=False)
        assert done.returncode == code, f"`{command}`: exit code {done.returncode}, not {code}\n{done.stdout}"
        return done.stdout

    def seen(self, command, pattern, columns=120):
        """What is on a terminal of so many columns when this has come; then the command is ended."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment,
                                   stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
        runs.STARTED.append(process)
        os.close(slave)
        text, end = b"", time.monotonic() + DEADLINE
        while not re.search(pattern, text.decode(errors="ignore")):
            ready, _, _ = select.select([master], [], [], max(end - time.monotonic(), 0))
            assert ready, f"`{command}` does not show `{pattern}`:\n{text.decode(errors='ignore')}"
            text += os.read(master, 4096)
        process.kill()
        process.wait()
        os.close(master)
        return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text.decode(errors="ignore"))

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


def on_two_hosts(page, commands):
    """Both of which are this one, under the name `head` that the page gives to the first; what each prints."""
    head = f"127.0.0.1:{ports.free_ports(1)[0]}"
    assert all(command.count("head:29500") == 1 for command in commands), commands
    hosts = [page.place().start(f"exec {command.replace('head:29500', head)}") for command in commands]
    outputs = [host.communicate(timeout=runs.DEADLINE)[0] for host in hosts]
    assert not any(host.returncode for host in hosts), outputs
    return outputs


def type_in(page, block, settings=SHORT):
    """Every command of a block, one after the other, as a reader would; what all of them print."""
    reader = page.place()
    return "".join(reader.run(reader.shortened(command, settings)) for command in commands_of(block))
