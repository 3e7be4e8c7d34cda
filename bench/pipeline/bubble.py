#!/usr/bin/env python3
"""The bubble of a pipeline, measured with blocks that sleep, against what the simulator says of the same
schedule, for 2 to 8 stages on any number of cores. Strategy, schedule and messages are the real ones. A
step's time is the median; the weights must not depend on schedule and stages, where the model is the same.

Usage: bench/pipeline/bubble.py [--build build/release]
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness

STEPS = 7
# schedule, stages, chunks a stage, micro-batches
RUNS = (("gpipe", 4, 1, 8), ("1f1b", 2, 1, 8), ("1f1b", 4, 1, 8), ("1f1b", 8, 1, 16), ("interleaved", 2, 2, 8),
        ("interleaved", 4, 2, 8), ("zb_h1", 4, 1, 8), ("zb_v", 4, 2, 8))


def main():
    options = harness.options(__doc__)
    weights = {}  # by blocks and micro-batches
    harness.table(["schedule", "stages", "chunks a stage", "micro-batches", "ms a step", "simulated",
                   "bubble", "simulated", "step longer by"], ["---"] * 9)
    for schedule, stages, chunks, micro in RUNS:
        found = json.loads(harness.run([options.build / "bench/pipeline/muster_bench_pipeline", schedule, stages,
                                        chunks, micro, STEPS]))
        if weights.setdefault((stages * chunks, micro), found["weights"]) != found["weights"]:
            raise SystemExit(f"other weights under {schedule} on {stages} stages")
        harness.table([schedule, stages, chunks, micro, f"{found['step_ms']:.1f}", f"{found['simulated_ms']:.1f}",
                       f"{100 * found['bubble']:.1f} %", f"{100 * found['simulated_bubble']:.1f} %",
                       f"{100 * (found['step_ms'] / found['simulated_ms'] - 1):.1f} %"])


if __name__ == "__main__":
    main()
