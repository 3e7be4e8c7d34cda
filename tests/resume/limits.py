"""What a system refuses: memory, sizes of files, processes, ports. It is named, with the limit, and nobody is started in vain."""
import functools
import json
import os
import resource
import socket
import subprocess

import runs
from cases import expect, play


def address_space_limited(muster, folder):
    """Batch systems limit it (ulimit -v). That is no worker's fault that another one could do better."""
    job = runs.write_job(folder, "mlp", steps=400)
    limited = functools.partial(resource.setrlimit, resource.RLIMIT_AS, (4 << 30, 4 << 30))
    for count in ("2", "3"):
        code, output = runs.finish(runs.start(muster, job, "--workers", count, preexec_fn=limited))
        expect(code, 3, output, "cannot share memory", "of address space", "ulimit -v unlimited")
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", *runs.settings(
        "communication.transport=tcp", "training.max_steps=3"), preexec_fn=limited))
    expect(code, 0, output)


def file_size_limited(muster, folder):
    """Batch systems limit it (ulimit -f), and a file is what workers share memory through as well. Nobody dies of the
    signal; what did not fit is named, with the limit, and nobody is started in vain."""
    job = runs.write_job(folder, "mlp", steps=400)
    for limit in (600 << 10, 100 << 20):
        limited = {"preexec_fn": functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))}
        for count in ("1", "2"):
            code, output = runs.finish(runs.start(muster, job, "--workers", count, **limited))
            expect(code, 3, output, "cannot share memory", "File too large", "ulimit -f")
            assert "started anew" not in output and "SIGXFSZ" not in output, output
        code, output = runs.finish(runs.start(muster, job, "--workers", "2", *runs.settings(
            "communication.transport=tcp", "training.max_steps=3"), **limited))
        expect(code, 0, output)
        looked = subprocess.run([muster, "doctor"], capture_output=True, text=True, cwd=folder, **limited)
        expect(looked.returncode, 3, looked.stdout + looked.stderr, "file size", "ulimit -f")
    small = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (600 << 10, 600 << 10))
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", *runs.settings(
        "communication.transport=tcp", "model.hidden_sizes=[1000]"), preexec_fn=small))
    expect(code, 3, output, f"{folder}/runs", ".safetensors", "File too large", "ulimit -f")
    assert "started anew" not in output, output


def processes_limited(muster, folder):
    """ulimit -u: whoever is refused a thread or a process says so and what to raise, at whatever place that is; none
    hangs or aborts. Root has no such limit, and other users' processes do not count."""
    if os.getuid() != 0:
        return runs.leave_out("whose processes count is decided by root alone")
    job = runs.write_job(folder, "mlp", steps=30)
    user = 60_000 + os.getpid() % 5000
    for path in (folder, *folder.iterdir()):
        os.chown(path, user, user)

    def limited(most):
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)

    codes = set()
    for most in (*range(1, 22), 200):
        code, output = runs.finish(runs.start(muster, job, "--workers", "2", "--set", "training.lanes=3",
                                              preexec_fn=functools.partial(limited, most)))
        codes.add(code)
        assert "terminate called" not in output and "SIGABRT" not in output, f"{most}:\n{output}"
        assert output.count("started anew") <= 3, f"{most}:\n{output}"
        if code != 0:
            expect(code, 3, output, "Resource temporarily unavailable", "limit of processes")
    assert codes == {0, 3}, codes


def port_taken(muster, folder):
    """Told before there is a run, as an address that is another host's is."""
    job = runs.write_job(folder, "mlp")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for listen, why in ((address, "in use"), ("198.51.100.7:0", "assign")):
            for words in ((), ("--dry-run",)):
                code, output = runs.finish(runs.start(muster, job, "--set", f"workers.listen={listen}", *words))
                expect(code, 3, output, f"workers.listen: [net/listen] cannot listen at {listen}", why)
    assert not (folder / "runs").exists(), "a run's folder was made"


def port_taken_meanwhile(muster, folder):
    """What a launcher fails for that has made the folder of the run stands there."""
    job = runs.write_job(folder, "mlp")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    # The endpoint is opened first.
    code, output = runs.finish(runs.start(muster, job, *runs.settings(f"workers.listen={address}", f"prometheus.listen={address}")))
    expect(code, 3, output, address, "in use")
    summary = json.loads((runs.latest(folder) / "summary.json").read_text())
    assert summary["state"] == "failed" and summary["reason"] in output, (summary, output)
    listed = subprocess.run([muster, "runs", "--run-folder", str(folder / "runs")], capture_output=True, text=True)
    expect(listed.returncode, 0, listed.stdout + listed.stderr, "failed")


play([address_space_limited, file_size_limited, processes_limited, port_taken, port_taken_meanwhile])
