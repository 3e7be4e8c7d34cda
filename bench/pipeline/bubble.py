#!/usr/bin/env python3
"""The bubble of a pipeline, measured with blocks that sleep, against what the simulator says of the same
schedule, for 2 to 8 stages on any number of cores. Strategy, schedule and messages are the real ones. A
step's time is the median; the weights must not depend on schedule and stages, where the model is the same.

Usage: bench/pipeline/bubble.py [--build build/release]
"""
import pipelines
from pipelines import harness

STEPS = 7
GOAL = 0.05  # of a step, beside what is simulated; the bubbles then differ by less, in points
# schedule, stages, chunks a stage, micro-batches; each model is there at least twice
RUNS = (("gpipe", 4, 1, 8), ("1f1b", 2, 1, 8), ("1f1b", 4, 1, 8), ("1f1b", 8, 1, 16), ("interleaved", 2, 2, 8),
        ("interleaved", 4, 2, 8), ("interleaved", 8, 2, 16), ("zb_h1", 2, 1, 8), ("zb_h1", 4, 1, 8), ("zb_h1", 8, 1, 16),
        ("zb_v", 2, 2, 8), ("zb_v", 4, 2, 8), ("zb_v", 8, 2, 16))


def main():
    options = harness.options(__doc__)
    weights = {}  # by blocks and micro-batches
    pipelines.heading()
    pipelines.columns("schedule", "stages", "chunks a stage", "micro-batches", "ms a step", "simulated", "bubble",
                      "simulated", "step longer by", "goal", "reached")
    for schedule, stages, chunks, micro in RUNS:
        found = pipelines.sleeping(options, schedule, stages, chunks, micro, STEPS)
        if weights.setdefault((stages * chunks, micro), found["weights"]) != found["weights"]:
            raise SystemExit(f"other weights under {schedule} on {stages} stages")
        longer = found["step_ms"] / found["simulated_ms"] - 1
        harness.table([schedule, stages, chunks, micro, pipelines.milliseconds(found["step_ms"]),
                       pipelines.milliseconds(found["simulated_ms"]), pipelines.percent(found["bubble"]),
                       pipelines.percent(found["simulated_bubble"]), pipelines.percent(longer),
                       f"≤ {pipelines.percent(GOAL)}", pipelines.reached(abs(longer) <= GOAL)])


if __name__ == "__main__":
    main()
