"""Scenarios in which something goes wrong: the right exit code, the right culprit, nothing lost, nothing left behind."""
import signal
import time

import runs

# Whoever runs this may have it ignored (nohup), and what is ignored stays so in programs that are started.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def expect(code, wanted, output, *fragments):
    assert code == wanted, f"exit code {code} instead of {wanted}:\n{output}"
    for fragment in fragments:
        assert fragment in output, f"no {fragment!r} in:\n{output}"


def gone(workers):
    end = time.monotonic() + runs.DEADLINE
    while any(runs.alive(pid) for pid in workers.values()) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(runs.alive(pid) for pid in workers.values()), "a worker outlived its job"


def saved_steps(run):
    return sorted(int(path.name[5:13]) for path in run.glob("checkpoints/step-*"))


def play(cases):
    """Each in a workplace of its own, of which nothing may stay in memory; --only NAME: that one."""
    arguments = runs.arguments("--only")
    named = [case for case in cases if arguments.only in (None, case.__name__)]
    assert named, f"--only {arguments.only}: there is none of that name, but {[case.__name__ for case in cases]}"
    for case in named:
        with runs.workplace() as workplace:
            runs.write_data(workplace)
            case(arguments.muster, workplace)
            runs.no_memory_stays(workplace)
        print(f"{case.__name__}: as it should be", flush=True)
