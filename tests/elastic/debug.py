"""`muster debug` names who holds the others up, while the job hangs and after it has failed."""
import json
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

FIXED = ["--workers", "3", *runs.settings("workers.min_workers=3", "workers.max_restarts=0",
                                          "workers.heartbeat_timeout=100s")]


def debug(muster, run, *flags, code=0):
    asked = subprocess.run([muster, "debug", *flags, str(run)], capture_output=True, text=True, timeout=60)
    assert asked.returncode == code, asked
    return asked.stdout + asked.stderr


def hold(muster, folder, job, name, *flags):
    process = runs.start(muster, job, *FIXED, "--set", f"run_folder={folder / name}", *flags)
    run = runs.wait_for_step(process, folder, 30, name)
    victim = runs.workers_of(process)[1]
    runs.kill(victim, signal.SIGSTOP)
    time.sleep(0.5)
    return process, run, victim


def check_text(text, victim):
    assert "ranks 0, 2 have waited" in text and "rank 1 does not answer" in text, text
    assert f"pid {victim}" in text and "stopped (SIGSTOP)" in text, text


def main():
    muster = runs.arguments().muster
    with runs.workplace() as folder:
        runs.write_data(folder)
        job = runs.write_job(folder, "resnet", steps=200)
        process, run, victim = hold(muster, folder, job, "hangs")
        check_text(debug(muster, run), victim)
        stacks = debug(muster, run, "--stacks")
        assert "stacks of worker 0" in stacks and "#" in stacks, stacks
        report = json.loads(debug(muster, run, "--json"))
        assert [worker["worker"] for worker in report["workers"]] == [0, 1, 2], report
        assert "dump" not in report["workers"][1] and report["conclusions"], report
        runs.kill(victim, signal.SIGCONT)
        code, output = runs.finish(process)
        assert code == 0, output

        process, run, victim = hold(muster, folder, job, "fails", "--set", "communication.timeout=2s")
        code, output = runs.finish(process)
        assert code != 0, output
        check_text(output, victim)
        assert f"muster debug {run.parent.parent}" in output.replace("/latest", ""), output
        after = debug(muster, run)
        check_text(after, victim)
        assert "the job failed" in after, after

        well = runs.train(muster, job, "--set", f"run_folder={folder / 'well'}")
        assert "nobody trains in" in debug(muster, runs.latest(folder, "well"), code=3), well


if __name__ == "__main__":
    main()
