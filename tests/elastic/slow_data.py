"""Data that stands still for a while, as of a busy file server: the worker that waits for it tells so, the others
wait longer than for anybody else, and go on with it; nobody is done without, and the weights stay the same."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import faulty
import runs


def main():
    arguments = runs.arguments("--worker")
    with runs.workplace() as folder, open(folder / "printed", "w") as printed:
        process, run, faults = faulty.endless(folder, arguments, "slow", 100,
                                              *runs.settings("communication.timeout=60s"), stdout=printed)
        faults.arm(1, "stall", r"^at step \d*[5-9]\d, waiting for data$")
        faults.struck(1)
        # Until the others have missed it twice: anybody else is given up then.
        runs.wait_for(lambda: " s for its data, and the others for it" in (folder / "printed").read_text(),
                      "that they wait for it")
        faults.release(1)
        runs.goes_on(process, run, 200)
        runs.stop(arguments.muster, process, folder, run)
        output = (folder / "printed").read_text()
        assert " left, " not in output and "does not answer the others" not in output, f"a worker was missed\n{output}"
        waited = re.findall(r"worker 1 \(.*\) has waited (\S+) s for its data, and the others for it", output)
        assert waited and float(waited[0]) > 4, output
        assert re.search(r"generation \d+ of 3 workers stands after", output), output
        assert len(list(run.glob("logs/rank-*.log"))) == 3, "somebody was started anew"


if __name__ == "__main__":
    main()
