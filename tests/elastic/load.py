"""On a machine with ten times as many processes that want to run as it has cores nobody is taken for stuck or dead; one
that hangs there still is."""
import contextlib
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import faulty
import runs

TIMES = 10
MOST = "3 min"  # that a worker waits for another where it has learnt nothing: far from what is learnt


@contextlib.contextmanager
def load():
    """From one moment to the next."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(TIMES * os.cpu_count())]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def losses(output):
    return re.findall(r"^\[WARN\] worker \d+ \(.* (?:is|are) left, .*$", output, re.MULTILINE)


def main():
    arguments = runs.arguments("--worker")
    with runs.workplace() as folder:
        process, run, faults = faulty.endless(folder, arguments, "loaded", 300,
                                              *runs.settings(f"communication.timeout={MOST}"))
        told = lambda: [row["text"] for row in runs.records(run, "notice")]
        with load():
            runs.goes_on(process, run, 200)
            assert not any("stands after" in line or " left, " in line for line in told()), told()
            print("ok  nobody is lost", flush=True)
            faults.arm(1, "hang", r"^at step \d*[5-9]\d, .*forward of slice \d+$")
            faults.struck(1)
            runs.wait_for(lambda: any("stands after" in line for line in told()), "the loss")
        output = runs.stop(arguments.muster, process, folder, run)
        found = losses(output)
        assert len(found) == 1 and re.search(r"worker 1 \(.*lives, but does not answer the others", found[0]), output
        waited = [re.search(r"rank 1 did not answer within (.+?) in generation 1 ", path.read_text())
                  for path in run.glob("logs/rank-[02].log")]
        assert any(waited) and not any(one and one[1] == MOST for one in waited), "how long is not learnt"
        print("ok  who hangs is found", flush=True)


if __name__ == "__main__":
    main()
