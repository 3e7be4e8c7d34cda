"""Workers that other hosts start: they join while the job trains, leave, die, and are refused with a
reason; the weights stay the same."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import ports
import runs


class Host:
    """`muster worker` as another host would start it; its output goes to a file."""

    def __init__(self, muster, folder, key, before=(), flags=(), env=None):
        self.path = folder / f"host-{time.monotonic_ns()}.txt"
        with open(self.path, "w") as file:
            self.process = subprocess.Popen([*before, muster, "worker", "--credentials", str(key), *flags],
                                            stdout=file, stderr=subprocess.STDOUT, text=True, env=env)

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
    process = runs.endless(muster, folder, name, *runs.settings(
        "workers.max_workers=3", "workers.listen=127.0.0.1:0", "workers.join_timeout=2 min", *settings))
    run = runs.wait_for_step(process, folder, 1, name)
    return process, run, run / "join.key"


def sizes_of_generations(run):
    """How many trained in each so far, as its first rank wrote down, whichever worker that was."""
    sizes = {}
    for path in run.glob("logs/rank-*.log"):
        for size, generation in re.findall(r" rank 0 of (\d+) in generation (\d+): pid ", path.read_text()):
            sizes[int(generation)] = int(size)
    return sizes


def members(run):
    return [size for _, size in sorted(sizes_of_generations(run).items())]


def wait_for_members(run, count):
    runs.wait_for(lambda: members(run)[-1:] == [count], f"{count} members")


def check_end(process, muster, folder, run, *settings):
    """Stops it a little later; what it printed. `settings`: on which its bits depend."""
    runs.goes_on(process, run)
    output = runs.stop(muster, process, folder, run, flags=runs.settings(*settings))
    assert not (run / "join.key").exists(), "the key outlived the job"
    return output


def join_and_leave(muster, folder):
    process, run, key = start(muster, folder, "leave")
    first, second = Host(muster, folder, key), Host(muster, folder, key, flags=("--lanes", "1"))
    wait_for_members(run, 3)
    third = Host(muster, folder, key)
    assert third.wait() == 2 and "all 3 (workers.max_workers) are taken" in third.output(), third.output()
    first.process.send_signal(signal.SIGTERM)
    assert first.wait() == 0, first.output()
    assert "leaving with the step" in first.output(), first.output()
    wait_for_members(run, 2)
    output = check_end(process, muster, folder, run)
    assert second.wait() == 0 and "done" in second.output(), second.output()
    assert output.count("joins") >= 2 and "worker 1 was told to go" in output or \
        "worker 2 was told to go" in output, output


def die_and_come_again(muster, folder):
    process, run, key = start(muster, folder, "die")
    first = Host(muster, folder, key)
    wait_for_members(run, 2)
    pid = first.worker()
    runs.goes_on(process, run)
    runs.kill(pid)
    assert first.wait() == 128 + signal.SIGKILL, first.output()
    wait_for_members(run, 1)
    again = Host(muster, folder, key)
    wait_for_members(run, 2)
    output = check_end(process, muster, folder, run)
    assert again.wait() == 0, again.output()
    # Its own host has seen what it died of and where, and what it wrote last.
    told = rf"worker 1 \(pid {pid} on {re.escape(socket.gethostname())}\) killed by SIGKILL at step \d+, ({runs.DOING}); " \
        rf"1 worker is left, going on; its last line: .*rank 1 of 2 in generation 2: pid {pid} on "
    assert any(re.search(told, row["text"]) for row in runs.records(run, "notice")), f"no `{told}` beside:\n{output}"


def instruction_set(muster, folder):
    """Workers that come by themselves compute with the kernels that the job asks for, as all others."""
    if " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text():
        return runs.leave_out("this processor has no AVX2, and a job cannot ask for less")
    process, run, key = start(muster, folder, "kernels", "training.isa=avx2")
    host = Host(muster, folder, key, env={**os.environ, "ATEN_CPU_CAPABILITY": "default"})
    wait_for_members(run, 2)
    for pid in (runs.workers_of(process)[0], host.worker()):
        variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        kernels = sorted(each for each in variables if each.startswith((b"ATEN_CPU", b"ONEDNN_MAX")))
        assert kernels == [b"ATEN_CPU_CAPABILITY=avx2", b"ONEDNN_MAX_CPU_ISA=AVX2"], kernels
    check_end(process, muster, folder, run, "training.isa=avx2")
    assert host.wait() == 0, host.output()


def without_the_folder(muster, folder):
    """Then it never saves; and when all who can are gone, the job ends with what is on the disk."""
    if not runs.allowed("unshare", "-Urm", "true"):
        return runs.leave_out("this system does not allow mount namespaces")
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
    output = check_end(process, muster, folder, run)
    assert host.wait() == 0, host.output()
    assert "does not see the run's folder" in output, output


def strangers(muster, folder):
    process, run, key = start(muster, folder, "strangers")
    address = key.read_text().split()[0]
    other, other_run, other_key = start(muster, folder, "others")
    wrong = Host(muster, folder, other_key, flags=("--join", address))
    assert wrong.wait() != 0, wrong.output()
    nobody = Host(muster, folder, key, flags=("--join", "127.0.0.1:1", "--join-timeout", "5s"))
    assert nobody.wait() == 3 and "no launcher was found within 5.0 s" in nobody.output(), nobody.output()
    assert nobody.output().count("127.0.0.1:1: Connection refused") == 2, nobody.output()
    assert oct(key.stat().st_mode & 0o777) == "0o600"
    check_end(process, muster, folder, run)
    runs.stop(muster, other, folder, other_run)
    late = Host(muster, folder, folder / "nowhere.key", flags=("--join-timeout", "0s"))
    assert late.wait() == 3 and "nowhere.key" in late.output(), late.output()


def notices(run):
    return [row["text"] for row in runs.records(run, "notice")]


def begin_alone(muster, folder, name, least, *settings):
    """A job of one worker that waits for others to begin; its run and key."""
    process = runs.endless(muster, folder, name, *runs.settings(
        "workers.max_workers=3", f"workers.min_workers={least}", "workers.listen=127.0.0.1:0", *settings))
    link = folder / name / "tiny/latest"
    runs.wait_for((link / "join.key").exists, "the key")
    run = link.resolve()
    wait_for_notices(run, "waiting until ", 1)
    return process, run, run / "join.key"


def wait_for_notices(run, text, count):
    runs.wait_for(lambda: sum(text in row["text"] for row in runs.records(run, "notice")) >= count, text)


def begin_with_others(muster, folder):
    """One that dies or leaves before the beginning is no loss: another one may come."""
    process, run, key = begin_alone(muster, folder, "begin", 3, "workers.join_timeout=2 min")
    for count, (number, code) in enumerate(((signal.SIGKILL, 128 + signal.SIGKILL), (signal.SIGTERM, 0)), start=1):
        host = Host(muster, folder, key)
        wait_for_notices(run, " joins", count)
        runs.kill(host.worker(), number)
        assert host.wait() == code, host.output()
    hosts = [Host(muster, folder, key), Host(muster, folder, key)]
    output = check_end(process, muster, folder, run)
    assert "waiting until 2 more have joined" in output, output
    assert members(run)[0] == 3, members(run)
    assert "workers 1, 2 got the state" in output, output
    for host in hosts:
        assert host.wait() == 0, host.output()


def begin_in_vain(muster, folder):
    process, run, _ = begin_alone(muster, folder, "vain", 3, "workers.join_timeout=1 min")
    code, output = runs.finish(process)
    assert code == 1, f"exit code {code}:\n{output}"
    assert "[ERROR] [cluster/launcher] fewer than 3 workers (workers.min_workers) have joined" in output, output


def wait_for_another(muster, folder):
    """Too few are left when one of another host dies: the others wait for the next one."""
    process, run, key = begin_alone(muster, folder, "next", 2, "workers.join_timeout=2 min")
    first = Host(muster, folder, key)
    runs.wait_for_newcomer(run, 1)
    runs.kill(first.worker())
    wait_for_notices(run, "1 worker is left, waiting until 1 more has joined", 1)
    second = Host(muster, folder, key)
    check_end(process, muster, folder, run)
    assert second.wait() == 0, second.output()
    assert members(run) == [2, 2], members(run)


def ledger(run):
    """What was committed: the generation, and its first and last step, of one segment after the other."""
    rows = map(json.loads, (run / "ledger.jsonl").read_text().splitlines())
    return [(row["generation"], *row["steps"]) for row in rows if "steps" in row]


def state_from_several(muster, folder):
    """Each of those who train gives a newcomer a part of the state, and they commit steps meanwhile, in the
    generation in which it is there already."""
    process = runs.endless(muster, folder, "several", "--workers", "2", *runs.settings(
        "workers.max_workers=3", "workers.listen=127.0.0.1:0"))
    run = runs.wait_for_step(process, folder, 20, "several")
    before = runs.workers_of(process)
    host = Host(muster, folder, run / "join.key")
    runs.wait_for_newcomer(run, 2)
    assert runs.workers_of(process) == before, "those who train were started anew"
    output = check_end(process, muster, folder, run)
    assert host.wait() == 0, host.output()
    told = r"worker 2 got the state \([^)]+\) from 2 workers while (\d+) steps? passed, and computes from step (\d+) on"
    found = re.search(told, output)
    assert found, f"no `{told}` in:\n{output}"
    passed, first = int(found[1]), int(found[2])
    committed = [steps for generation, *steps in ledger(run) if generation == 2]
    assert passed > 0 and committed and committed[0][0] == first - passed, f"{found[0]}: {ledger(run)}"
    assert members(run) == [2, 3], members(run)


def relay(listener, port):
    """What arrives at `listener` goes on to the port, and back, until the listener is closed."""
    def copy(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve():
        while True:
            try:
                here, _ = listener.accept()
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", port))
            for ends in ((here, there), (there, here)):
                threading.Thread(target=copy, args=ends, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()


def before_the_launcher(muster, folder):
    """A worker finds a launcher that comes up after it, be it that its key is not there yet or that nobody
    answers; one that does not let it in is not asked twice."""
    early = Host(muster, folder, folder / "early/tiny/latest/join.key")
    runs.wait_for(lambda: "join.key: No such file" in early.output() and "trying again" in early.output(),
                  "that it waits for the key")
    process, run, key = start(muster, folder, "early", "workers.max_workers=4")
    wait_for_members(run, 2)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        before_it = Host(muster, folder, key, flags=("--join", address))
        runs.wait_for(lambda: "Connection refused" in before_it.output(), "that it waits for the launcher")
        listener.listen()
        relay(listener, int(key.read_text().split()[0].rsplit(":", 1)[1]))
        wait_for_members(run, 3)
        old = folder / "old.key"
        old.write_text(f"127.0.0.1:{ports.free_ports(1)[0]} {key.read_text().split()[1]}\n")
        waits = Host(muster, folder, old, flags=("--join-timeout", "5 min"))
        runs.wait_for(lambda: "Connection refused" in waits.output(), "that it waits for another launcher")
        check_end(process, muster, folder, run)
    assert early.wait() == 0 and before_it.wait() == 0, early.output() + before_it.output()
    other, run, _ = start(muster, folder, "another", f"workers.listen={old.read_text().split()[0]}")
    assert waits.wait() == 2 and "not let in" in waits.output(), waits.output()
    runs.stop(muster, other, folder, run)


if __name__ == "__main__":
    runs.play((join_and_leave, die_and_come_again, instruction_set, without_the_folder, begin_with_others, begin_in_vain,
               wait_for_another, state_from_several, strangers, before_the_launcher), runs.arguments().muster)
