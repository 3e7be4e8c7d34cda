"""Workers that other hosts start: they join while the job trains, leave, die, and are refused with a
reason; the weights stay the same."""
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

STEPS = 6000


class Host:
    """`muster worker` as another host would start it; its output goes to a file."""

    def __init__(self, muster, folder, key, before=(), flags=()):
        self.path = folder / f"host-{time.monotonic_ns()}.txt"
        with open(self.path, "w") as file:
            self.process = subprocess.Popen([*before, muster, "worker", "--credentials", str(key), *flags],
                                            stdout=file, stderr=subprocess.STDOUT, text=True)

    def output(self):
        return self.path.read_text()

    def wait(self):
        return self.process.wait(timeout=runs.DEADLINE)

    def worker(self):
        """The pid of its training process."""
        [pid] = runs.wait_for(lambda: list(runs.workers_of(self.process).values()), "a worker")
        return pid


def start(muster, folder, name, *settings):
    """A job of one worker that others may join, the run's folder, and the file they need for it."""
    job = runs.write_job(folder, "mlp", steps=STEPS)
    process = runs.start(muster, job, *runs.settings(
        f"run_folder={folder / name}", "workers.max_workers=3", "workers.listen=127.0.0.1:0",
        "workers.join_timeout=30s", *settings))
    run = runs.wait_for_step(process, folder, 1, name)
    return process, run, run / "join.key"


def members(run):
    """How many trained in each generation so far."""
    text = (run / "logs/rank-0.log").read_text()
    return [int(line.split(" of ")[1].split(" in ")[0]) for line in text.splitlines()
            if "in generation" in line and "rank 0 of" in line and "lanes" in line]


def wait_for_members(run, count):
    runs.wait_for(lambda: members(run)[-1:] == [count], f"{count} members")


def check_end(process, run, expected):
    code, output = runs.finish(process)
    assert code == 0, f"exit code {code}:\n{output}"
    assert runs.weights(run, STEPS) == expected, f"other weights\n{output}"
    assert not (run / "join.key").exists(), "the key outlived the job"
    return output


def join_and_leave(muster, folder, expected):
    process, run, key = start(muster, folder, "leave")
    first, second = Host(muster, folder, key), Host(muster, folder, key, flags=("--lanes", "1"))
    wait_for_members(run, 3)
    third = Host(muster, folder, key)
    assert third.wait() == 2 and "all 3 (workers.max_workers) are taken" in third.output(), third.output()
    first.process.send_signal(signal.SIGTERM)
    assert first.wait() == 0, first.output()
    assert "leaving with the step" in first.output(), first.output()
    wait_for_members(run, 2)
    output = check_end(process, run, expected)
    assert second.wait() == 0 and "done" in second.output(), second.output()
    assert output.count("joins") >= 2 and "worker 1 was told to go" in output or \
        "worker 2 was told to go" in output, output


def die_and_come_again(muster, folder, expected):
    process, run, key = start(muster, folder, "die")
    first = Host(muster, folder, key)
    wait_for_members(run, 2)
    runs.kill(first.worker())
    assert first.wait() == 128 + signal.SIGKILL, first.output()
    wait_for_members(run, 1)
    again = Host(muster, folder, key)
    wait_for_members(run, 2)
    output = check_end(process, run, expected)
    assert again.wait() == 0, again.output()
    assert "worker 1 (pid" in output and "going on" in output, output


def without_the_folder(muster, folder, expected):
    """Then it never saves; and when all who can are gone, the job ends with what is on the disk."""
    if not runs.allowed("unshare", "-Urm", "true"):
        return print("skipped: this system does not allow mount namespaces")
    process, run, key = start(muster, folder, "apart", "communication.transport=tcp")
    copy = folder / "copy.key"
    shutil.copy(key, copy)
    hidden = ("unshare", "-Urm", "sh", "-c", f"mount -t tmpfs none {folder / 'apart'} && exec \"$@\"", "sh")
    host = Host(muster, folder, copy, before=hidden)
    wait_for_members(run, 2)
    runs.wait_for_newcomer(run, 1)
    assert "out of sight" in host.output(), host.output()
    runs.kill(runs.workers_of(process)[0])
    wait_for_members(run, 2)  # the new one of the launcher's host is first again
    output = check_end(process, run, expected)
    assert host.wait() == 0, host.output()
    assert "does not see the run's folder" in output, output


def strangers(muster, folder, expected):
    process, run, key = start(muster, folder, "strangers")
    address = key.read_text().split()[0]
    other, _, other_key = start(muster, folder, "others")
    wrong = Host(muster, folder, other_key, flags=("--join", address))
    assert wrong.wait() != 0, wrong.output()
    nobody = Host(muster, folder, key, flags=("--join", "127.0.0.1:1"))
    assert nobody.wait() != 0 and "127.0.0.1:1" in nobody.output(), nobody.output()
    assert oct(key.stat().st_mode & 0o777) == "0o600"
    check_end(process, run, expected)
    runs.finish(other)
    late = Host(muster, folder, folder / "nowhere.key")
    assert late.wait() != 0 and "nowhere.key" in late.output(), late.output()


if __name__ == "__main__":
    runs.play((join_and_leave, die_and_come_again, without_the_folder, strangers),
              runs.arguments().muster, "mlp", STEPS)
