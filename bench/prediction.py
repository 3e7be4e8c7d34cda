#!/usr/bin/env python3
"""What `muster plan` predicts against what the training then measures: step, memory of a worker, bytes on the wire.

Each job is planned with the machine's own measurements and trained in the ways that the plan names, as it names them:
with the cut of a pipeline that was priced. The step is the median of a run without its first ones (the machine's
operations are counted after the first, caches and heaps fill); memory is the peak of the worker that has most, bytes
are the first worker's, `perf/bytes_on_wire`, and must be those predicted, to the last one. Of several repetitions the
median counts. Nothing is saved and nothing evaluated meanwhile.

Usage: bench/prediction.py [--build build/release] [--repetitions 1] [--jobs N] [--output FILE]
(--jobs 6: six of them, from all of the list)
"""
import json
import pathlib
import statistics
import sys
import typing

import harness

FIRST = 5  # steps of a run that do not count
ALONE = ("data",)
QUIET = ("evaluation.every=never", "checkpoint.every=never", "checkpoint.at_end=false", "stragglers.rebalance=false")


class Plan(typing.NamedTuple):
    """A job on so many workers, and the ways of it that are trained."""
    job: str
    sets: tuple
    workers: int
    steps: int
    ways: tuple


LARGE = ("model.hidden_sizes=[5120,5120]", "training.global_batch_size=64")
PLANS = (
    Plan("fashion.yaml", (), 1, 20, ALONE),
    Plan("fashion.yaml", (), 2, 25,
         ("data", "sharded", "sharded, stage 2", "sharded, stage 3", "1f1b, 2 stages", "zb_h1, 2 stages")),
    Plan("fashion.yaml", (), 4, 25, ("data", "replicate 2 × shard 2", "pipeline 2 × shard 2, 1f1b")),
    Plan("fashion.yaml", ("training.global_batch_size=64",), 2, 40, ("data", "sharded")),
    Plan("gpt.yaml", (), 1, 15, ALONE),
    Plan("gpt.yaml", (), 2, 20, ("data", "sharded", "sharded, stage 3", "1f1b, 2 stages", "interleaved, 2 stages",
                                 "tensor, 2 parts", "ulysses, 2 parts", "ring, 2 parts")),
    Plan("gpt.yaml", (), 4, 20, ("data", "pipeline 2 × tensor 2, 1f1b", "shard 2 × tensor 2")),
    Plan("gpt.yaml", ("training.global_batch_size=8",), 2, 40, ("data", "gpipe, 2 stages")),
    Plan("wide.yaml", (), 1, 12, ALONE),
    Plan("wide.yaml", (), 2, 15, ("data", "sharded", "tensor, 2 parts")),
    Plan("wide.yaml", LARGE, 1, 12, ALONE),
)


def own_options(parser):
    parser.add_argument("--jobs", type=int, help="so many of them, from all of the list")
    parser.add_argument("--output", type=pathlib.Path, help="JSON [prediction.json in the folder of the build]")


def chosen(count):
    """(plan, way) of all, or of `count` at even distances."""
    cases = [(plan, way) for plan in PLANS for way in plan.ways]
    if count is None or count >= len(cases):
        return cases
    if count < 1:
        raise SystemExit(f"--jobs {count}: expected 1 or more")
    return [cases[i * len(cases) // count] for i in range(count)]


def sets_of(plan):
    return [*plan.sets, *QUIET, f"training.max_steps={plan.steps}"]


def predict(options, plan):
    """The ways as they are planned, by name, in passes of the job's size that recompute nothing."""
    command = [options.build / "bin/muster", "plan", harness.JOBS / plan.job, "--workers", plan.workers, "--json",
               "--memory", "64GiB"]
    for pair in sets_of(plan):
        command += ["--set", pair]
    told = json.loads(harness.run(command))
    if told["counted"]:
        raise SystemExit(f"{plan.job}: {told['counted']}")
    return {way["way"]: way for way in told["ranking"]
            if not {"training.recompute", "training.micro_batch_size"} & set(way.get("set", ()))}


def found_among(ways, plan, name):
    way = ways.get(name)
    if way is None or "memory" not in way:
        raise SystemExit(f"{plan.job} on {plan.workers} workers: {name}: {way['reason'] if way else 'no such way'}")
    return way


def train(options, plan, way):
    """Seconds of a step, bytes of memory, and the bytes on the wire of each of the steps, once each."""
    sets = [*sets_of(plan), *(f"{field}={value}" for field, value in way["set"].items())]
    if "blocks" in way:
        sets.append(f"strategy.blocks={json.dumps(way['blocks'])}")
    run = harness.undisturbed(lambda: harness.Run(options.build, plan.job, plan.workers, sets))
    return {"step_s": statistics.median(row["perf/step_time_s"] for row in run.rows[FIRST:]),
            "memory": run.results["mem/peak_rss_gib"] * 2**30,
            "bytes": sorted({row["perf/bytes_on_wire"] for row in run.rows})}


def measure(options, plan, way):
    runs = [train(options, plan, way) for _ in range(options.repetitions)]
    return {"step_s": statistics.median(run["step_s"] for run in runs),
            "memory": statistics.median(run["memory"] for run in runs),
            "bytes": sorted({number for run in runs for number in run["bytes"]})}


def off(predicted, measured):
    return predicted / measured - 1


def compare(plan, way, measured):
    predicted = {"step_s": way["step_s"], "memory": way["memory"]["total"], "bytes": way["bytes_on_wire"]}
    return {"job": plan.job.split(".")[0], "sets": plan.sets, "workers": plan.workers, "way": way["way"],
            "predicted": predicted, "measured": measured, "time": way["time"], "memory": way["memory"],
            "step_error": off(predicted["step_s"], measured["step_s"]),
            "memory_error": off(predicted["memory"], measured["memory"]),
            "bytes_exact": measured["bytes"] == [predicted["bytes"]]}


def mib(number):
    return f"{number / 2**20:,.1f}"


def show(result):
    predicted, measured = result["predicted"], result["measured"]
    name = ", ".join([result["job"], *(pair.split(".", 1)[1] for pair in result["sets"])])
    bytes_told = " or ".join(mib(number) for number in measured["bytes"])
    harness.table((name, result["workers"], result["way"],
                   f"{1e3 * predicted['step_s']:.1f}", f"{1e3 * measured['step_s']:.1f}",
                   f"{100 * result['step_error']:+.1f} %",
                   mib(predicted["memory"]), mib(measured["memory"]), f"{100 * result['memory_error']:+.1f} %",
                   mib(predicted["bytes"]), "the same" if result["bytes_exact"] else bytes_told))


def summary(results):
    return {"jobs": len(results),
            "mean_step_error": statistics.fmean(abs(result["step_error"]) for result in results),
            "mean_memory_error": statistics.fmean(abs(result["memory_error"]) for result in results),
            "bytes_exact": sum(result["bytes_exact"] for result in results)}


def conclude(options, results):
    told = summary(results)
    output = options.output or options.build / "prediction.json"
    output.write_text(json.dumps({**told, "results": results}, indent=1) + "\n")
    harness.say(f"written: {output}")
    harness.table((f"mean of the errors of {told['jobs']} jobs", "", "", "", "", f"{100 * told['mean_step_error']:.1f} %",
                   "", "", f"{100 * told['mean_memory_error']:.1f} %", "",
                   f"{told['bytes_exact']} of {told['jobs']} the same"))
    if told["bytes_exact"] < told["jobs"]:
        sys.exit("other bytes than predicted")


def main():
    options = harness.options(__doc__, repetitions=1, add=own_options)
    harness.table(("job", "workers", "way", "ms a step, predicted", "measured", "off",
                   "MiB a worker, predicted", "measured", "off", "MiB on the wire, predicted", "measured"), ["---"] * 11)
    planned, results = {}, []
    for plan, name in chosen(options.jobs):
        if plan not in planned:
            planned[plan] = harness.undisturbed(lambda plan=plan: predict(options, plan))
        way = found_among(planned[plan], plan, name)
        results.append(compare(plan, way, measure(options, plan, way)))
        show(results[-1])
    conclude(options, results)


if __name__ == "__main__":
    main()
