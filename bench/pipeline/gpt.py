#!/usr/bin/env python3
"""The bubble of the gpt job on two stages under each schedule, against what is simulated of the same schedule.

What each stage computed and when is in the trace of the training. The simulator plays the schedule with the median times
of each chunk's forward and backwards in that training, and no time for messages, so what is longer than simulated is
messages, waiting for a core, and passes that are not all alike. The losses of all schedules must be the same.

Usage: bench/pipeline/gpt.py [--build build/release]
"""
import collections
import itertools
import json
import pathlib
import re
import statistics
import tempfile
import typing

import pipelines
from pipelines import harness

STAGES = 2
STEPS = 40
FIRST = 5  # steps of a run that do not count
GOAL = 0.02  # of a step, as in bubble.py
CHUNKS = {"gpipe": 1, "1f1b": 1, "interleaved": 2, "zb_h1": 1, "zb_v": 2}  # a stage
KINDS = {"forward": 0, "backward": 1, "weights' backward": 2}  # as the trace calls them; without the third: of both


class Action(typing.NamedTuple):
    """What a stage computed of a micro-batch; microseconds."""
    rank: int
    micro: int
    chunk: int
    kind: int
    begin: int
    end: int


class Step(typing.NamedTuple):
    took_ms: float  # from the first action of any stage to the last one's end
    bubble: float


def actions_by_step(trace):
    steps = collections.defaultdict(list)
    for event in json.loads(trace.read_text()):
        if event["ph"] != "X" or event["cat"] != "compute" or event["name"] not in KINDS:
            continue
        arguments = event["args"]
        micro, chunk = map(int, re.fullmatch(r"slice (\d+), chunk (\d+)", arguments["of"]).groups())
        steps[arguments["step"]].append(Action(arguments["rank"], micro, chunk, KINDS[event["name"]], event["ts"],
                                               event["ts"] + event["dur"]))
    return steps


def check_whole(schedule, steps):
    """How many micro-batches each step has: all actions of all of them, each once."""
    micro = 1 + max((action.micro for action in steps[STEPS]), default=0)
    kinds = {action.kind for action in steps[STEPS]}
    expected = sorted(itertools.product(range(micro), range(STAGES * CHUNKS[schedule]), kinds))
    for number in range(FIRST + 1, STEPS + 1):
        if not expected or sorted((action.micro, action.chunk, action.kind) for action in steps[number]) != expected:
            raise SystemExit(f"{schedule}: the trace has {len(steps[number])} passes of step {number}, expected "
                             f"{len(expected)}: {micro} micro-batches, each of {len(kinds)} kinds, on each chunk once")
    return micro


def measured(actions):
    took = max(action.end for action in actions) - min(action.begin for action in actions)
    busy = sum(action.end - action.begin for action in actions)
    return Step(took / 1e3, 1 - busy / (took * STAGES))


def costs_of(schedule, steps):
    """By chunk: the medians of its forward, backward for the input (or for both), backward for the weights."""
    durations = collections.defaultdict(list)
    for action in itertools.chain.from_iterable(steps):
        durations[action.chunk, action.kind].append(action.end - action.begin)
    return [[statistics.median(durations.get((chunk, kind), [0])) for kind in range(pipelines.KINDS)]
            for chunk in range(STAGES * CHUNKS[schedule])]


def train(options, schedule):
    """The losses, the milliseconds of a whole step, and the passes by step."""
    with tempfile.TemporaryDirectory() as folder:
        sets = [f"run_folder={folder}", f"training.max_steps={STEPS}", "trace.enabled=true", "strategy.type=pipeline",
                f"strategy.stages={STAGES}", f"strategy.schedule={schedule}"]
        harness.run(harness.train_command(options.build, "gpt.yaml", STAGES, sets))
        [run] = pathlib.Path(folder).glob("*/latest")
        records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        rows = [record for record in records if record["type"] == "metrics" and "train/loss" in record]
        [trace] = run.glob("trace/trace-*Z.json")
        return ([row["train/loss"] for row in rows],
                1e3 * statistics.median(row["perf/step_time_s"] for row in rows[FIRST:]), actions_by_step(trace))


def compare(options, schedule):
    """The losses and the row of a schedule."""
    losses, whole_ms, by_step = harness.undisturbed(lambda: train(options, schedule))
    micro = check_whole(schedule, by_step)
    steps = [by_step[number] for number in range(FIRST + 1, STEPS + 1)]
    played = [measured(actions) for actions in steps]
    ideal = pipelines.simulated(options, schedule, STAGES, micro, costs_of(schedule, steps))
    took = statistics.median(step.took_ms for step in played)
    longer = took / ideal["simulated_ms"] - 1
    return losses, [schedule, micro, pipelines.milliseconds(whole_ms), pipelines.milliseconds(took),
                    pipelines.milliseconds(ideal["simulated_ms"]),
                    pipelines.percent(statistics.median(step.bubble for step in played)),
                    pipelines.percent(ideal["simulated_bubble"]), pipelines.percent(longer),
                    f"≤ {pipelines.percent(GOAL)}", pipelines.reached(abs(longer) <= GOAL)]


def main():
    options = harness.options(__doc__)
    pipelines.heading()
    pipelines.columns("gpt, 2 stages", "micro-batches", "ms a step, all of it", "passes", "simulated", "bubble",
                      "simulated", "passes longer by", "goal", "reached")
    expected = None
    for schedule in CHUNKS:
        losses, row = compare(options, schedule)
        expected = expected or losses
        if losses != expected:
            raise SystemExit(f"other losses under {schedule}")
        harness.table(row)


if __name__ == "__main__":
    main()
