"""Hosts for a test that are reached by the real `ssh`: each a network namespace (network.py) with an sshd of its own,
which has keys of its own and lets the test's user in. What ssh knows of them is in a folder of the test, not in the
user's own: a word `ssh` before all others on the PATH reads its configuration from there."""
import contextlib
import os
import pathlib
import shutil
import subprocess

import network
import runs

SSH = shutil.which("ssh")
SSHD = shutil.which("sshd")
PORT = 2222
USER = 1000  # sshd changes no user where it is not root's; in its namespace this is the test's own


def forbidden():
    """What this system does not allow of it; empty: nothing."""
    assert SSH and SSHD, "no ssh or sshd here: script/dependencies --for test installs both"
    return "" if runs.allowed("unshare", "-Urnm", "unshare", "-U", f"--map-user={USER}", "true") else \
        "this system does not allow user namespaces in each other"


class Keys:
    """The test's key, and what ssh is told of hosts; `environment` is for whoever is to use it."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.own = make_key(folder / "own")
        self.known = folder / "known_hosts"
        self.known.write_text("")
        self.config = folder / "config"
        self.config.write_text(f"IdentityFile {self.own}\nIdentitiesOnly yes\nUserKnownHostsFile {self.known}\n"
                               f"GlobalKnownHostsFile none\nUser trainer\nPort {PORT}\n"
                               "StrictHostKeyChecking no\n")  # which is not to count
        programs = folder / "programs"
        programs.mkdir()
        # Of `silent` nothing is ever heard, not even that it is not there.
        (programs / "ssh").write_text(f'#!/bin/sh\ncase "$*" in *silent*) exec sleep 1000 ;; esac\n'
                                      f'exec {SSH} -F {self.config} "$@"\n')
        (programs / "ssh").chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}

    def call(self, name, address):
        with self.config.open("a") as file:
            file.write(f"Host {name}\n  HostName {address}\n  HostKeyAlias {name}\n")


def make_key(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


class Host:
    """One that answers; `known`: ssh has its key. `hidden` and `replaced` are folders and files that are empty there,
    or others."""

    def __init__(self, keys, name, place, known=True, hidden=(), replaced=(), more=""):
        self.name, self.place = name, place
        folder = keys.folder / name
        folder.mkdir()
        key = make_key(folder / "host")
        keys.call(name, place.address)
        if known:
            with keys.known.open("a") as file:
                file.write(f"{name} {(folder / 'host.pub').read_text()}")
        shutil.copy(keys.own.with_suffix(".pub"), folder / "authorized")
        (folder / "passwd").write_text(f"trainer:x:{USER}:{USER}::{folder}:/bin/sh\n")
        (folder / "sshd_config").write_text(
            f"ListenAddress {place.address}:{PORT}\nHostKey {key}\nAuthorizedKeysFile {folder / 'authorized'}\n"
            "StrictModes no\nPidFile none\nUsePAM no\nPasswordAuthentication no\nPrintMotd no\n" + more)
        mounts = [f"mount --bind {folder / 'passwd'} /etc/passwd"]
        mounts += [f"mount -t tmpfs none {path}" for path in hidden]
        mounts += [f"mount --bind {other} {path}" for path, other in replaced]
        script = " && ".join([*mounts, f"exec unshare -U --map-user={USER} --map-group={USER} "
                                       f"{SSHD} -D -e -f {folder / 'sshd_config'}"])
        self.log = folder / "sshd.log"
        with self.log.open("w") as log:
            self.sshd = subprocess.Popen([*place.inside, "unshare", "-m", "sh", "-c", script], stdout=log, stderr=log,
                                         stdin=subprocess.DEVNULL)
        runs.STARTED.append(self.sshd)
        runs.wait_for(lambda: "Server listening" in self.log.read_text() or self.sshd.poll() is not None,
                      f"sshd of {name}")
        assert self.sshd.poll() is None, self.log.read_text()

    def processes(self, *names):
        """Command lines of what runs there under one of these names, by number."""
        found = {}
        here = os.readlink(f"/proc/{self.place.holder.pid}/ns/net")
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if os.readlink(process / "ns/net") == here and pathlib.Path(line[0]).name in names:
                    found[int(process.name)] = line
        return found

    def workers(self):
        return sorted(self.processes("muster-worker"))

    def of_jobs(self):
        """All that runs there for a job."""
        return self.processes("muster-worker", "muster")


@contextlib.contextmanager
def places(count):
    made = [network.Place(number) for number in range(count)]
    try:
        yield made
    finally:
        for place in made:
            place.close()
