"""What the comparisons of pipelines share: muster's side of them, what a schedule would take, where figures are from."""
import datetime
import json
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness

KINDS = 3  # forward, backward for the input, backward for the weights


def program(options, schedule, stages, chunks, micro, *words):
    command = [options.build / "bench/pipeline/muster_bench_pipeline", schedule, stages, chunks, micro, *words]
    return json.loads(harness.run(command))


def sleeping(options, schedule, stages, chunks, micro, steps):
    """A training whose blocks sleep: the median of its steps, beside what is simulated of it."""
    return program(options, schedule, stages, chunks, micro, steps)


def simulated(options, schedule, stages, micro, costs):
    """What a step would take with `costs`, the microseconds of each chunk's forward and backwards."""
    words = [round(cost) for chunk in costs for cost in chunk]
    return program(options, schedule, stages, len(costs) // stages, micro, "simulate", *words)


def processor():
    found = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return found[1].strip() if found else os.uname().machine


def commit():
    changed = harness.run(["git", "status", "--porcelain", "--untracked-files=no"]).strip()
    return harness.run(["git", "rev-parse", "--short", "HEAD"]).strip() + (", changed since" if changed else "")


def heading():
    """Where, when and of what the figures are."""
    today = datetime.datetime.now(datetime.timezone.utc).date()
    print(f"{processor()}, {os.cpu_count()} cores; {today}; {commit()}\n", flush=True)


def columns(*names):
    harness.table(names, ["---"] * len(names))


def percent(share):
    return f"{100 * share:.1f} %"


def milliseconds(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def reached(is_so):
    return "yes" if is_so else "**no**"
