"""Ranks on hosts of their own, at the ends of slow, long and lossy links: right results; and where a link is cut in the
middle of an operation, every rank names who is behind it, at its deadline."""
import argparse
import pathlib
import re
import subprocess
import sys
import threading

TESTS = pathlib.Path(__file__).parent.parent.parent
sys.path[:0] = [str(TESTS / "elastic"), str(TESTS / "resume")]
import cables
import network
import runs

SKIPPED = 77  # what CTest takes for it
RANKS = 3
TIMED_OUT = re.compile(r"rank (\d) timeout (-?\d) (.*)")


class Ranks:
    """The program, one rank in each place; what it prints, line by line."""

    def __init__(self, program, places, *words):
        self.process = subprocess.Popen(
            [program, *words, *(f"{place.holder.pid}:{place.address}" for place in places)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        runs.STARTED.append(self.process)
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        self.reader.start()

    def wait_for(self, what, count):
        def came():
            assert self.process.poll() is None, self.lines
            return sum(what in line for line in self.lines) >= count
        runs.wait_for(came, f"{what} of {count} ranks")

    def wait(self):
        status = self.process.wait(timeout=runs.DEADLINE)
        self.reader.join()
        return status

    def missed(self):
        """Whom each rank missed, once all have ended."""
        assert self.wait() == 0, self.lines
        told = [match for line in self.lines if (match := TIMED_OUT.match(line))]
        assert len(told) == RANKS, self.lines
        return {int(match[1]): int(match[2]) for match in told}


def right_results(program, places):
    """Every operation, with values that show what was lost or misplaced."""
    ranks = Ranks(program, places, "check", "8")
    assert ranks.wait() == 0, ranks.lines
    assert any(place.is_lossy() for place in places), "nothing was lost on the way"


def cut_off(program, places):
    """A host that is gone is named by all others, whatever they do."""
    groups = [Ranks(program, places, "lose", operation) for operation in ("all_reduce", "broadcast", "send", "recv")]
    for ranks in groups:
        ranks.wait_for("begun", RANKS)
    places[2].cut_off()
    for ranks in groups:
        missed = ranks.missed()
        assert missed[0] == missed[1] == 2 and missed[2] in (0, 1), ranks.lines
    places[2].bring_back()


def cut_between_two(program, places):
    """Nobody is gone, and yet two cannot speak: they name each other, and the third one of them."""
    ranks = Ranks(program, places, "lose", "all_reduce")
    ranks.wait_for("begun", RANKS)
    places[0].cut_to(places[1])
    missed = ranks.missed()
    places[0].heal_to(places[1])
    assert set(missed.values()) <= {0, 1}, ranks.lines


def main():
    if not cables.possible() or not network.enter():
        runs.leave_out("this system does not allow network namespaces, bridges, tc, or neither netem nor taps")
        sys.exit(SKIPPED)
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    program = parser.parse_args().program
    netem = cables.has_netem()
    print("links by", "netem" if netem else "a relay: this kernel has no netem", flush=True)
    places = []
    try:
        for number in range(RANKS):
            places.append(cables.FarPlace(number, netem))
        for scenario in (right_results, cut_between_two, cut_off):
            scenario(program, places)
            print(f"ok  {scenario.__name__}", flush=True)
    finally:
        for process in runs.STARTED:
            process.kill()
            process.wait()
        for place in places:
            place.close()


if __name__ == "__main__":
    main()
