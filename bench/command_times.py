#!/usr/bin/env python3
"""How long one waits for a command that only reads or tells: `muster --help`, `--version`, `help job`, and `validate` of
shipped jobs, beside the bare start of a process, /bin/true.

Usage: bench/command_times.py [--build build/release] [--repetitions 20]
"""
import time

import harness

TIMES = 10  # each command, in a turn: the machine's times come in hundredths of a second
# By words: what the answer has to hold, and how many ms it may take.
COMMANDS = {
    "--help": ("Usage: muster", 30),
    "--version": ("libtorch", None),
    "help job": ("training.max_steps", None),
    "validate jobs/fashion.yaml": ("jobs/fashion.yaml: valid", 100),
    "validate jobs/gpt.yaml": ("jobs/gpt.yaml: valid", 100)}


def time_of(command, word):
    began = time.perf_counter()
    said = harness.run(command)
    took = time.perf_counter() - began
    if word not in said:
        raise SystemExit(f"{' '.join(map(str, command))} says nothing of {word!r}:\n{said}")
    return took


def main():
    options = harness.options(__doc__, repetitions=20)
    muster = options.build / "bin/muster"
    taken = {words: [] for words in COMMANDS}
    bare = {words: [] for words in COMMANDS}

    def turn():
        return [(words, time_of([muster, *words.split()], word), time_of(["/bin/true"], ""))
                for _ in range(TIMES) for words, (word, _) in COMMANDS.items()]

    turn()  # once to fill the page cache
    for _ in range(options.repetitions):
        for words, ours, of_true in harness.undisturbed(turn):
            taken[words].append(ours)
            bare[words].append(of_true)
    for words, (_, goal) in COMMANDS.items():
        harness.table((f"ms of `muster {words}`, beside `/bin/true`", harness.describe_times(taken[words], digits=1),
                       harness.describe_times(bare[words], digits=1),
                       f"{harness.ratio(taken[words], bare[words]):.1f} ×", f"≤ {goal} ms" if goal else "–"))


if __name__ == "__main__":
    main()
