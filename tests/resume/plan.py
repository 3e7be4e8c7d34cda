"""`muster plan JOB`: the bytes that it predicts are those that the strategies count, to the last one."""
import json
import subprocess

import runs

arguments = runs.arguments("--model")


def plan(job, *flags):
    done = subprocess.run([arguments.muster, "plan", str(job), "--json", *flags],
                          capture_output=True, text=True, timeout=runs.DEADLINE)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def settings_of(way):
    sets = dict(way["set"])
    if "blocks" in way:  # the cut that was priced; another day's measurement may cut elsewhere
        sets["strategy.blocks"] = json.dumps(way["blocks"])
    return runs.settings(*(f"{field}={value}" for field, value in sets.items()), "stragglers.rebalance=false")


def check(job, folder, way, workers):
    runs.train(arguments.muster, job, "--workers", str(workers), *settings_of(way))
    found = {row["perf/bytes_on_wire"] for row in runs.rows(runs.latest(folder)) if "perf/bytes_on_wire" in row}
    assert found == {way["bytes_on_wire"]}, (way, found)
    print(f"{workers} workers, {way['way']}: {way['bytes_on_wire']} bytes", flush=True)


with runs.workplace() as folder:
    runs.write_data(folder)
    job = runs.write_job(folder, arguments.model, steps=3)
    for workers, wanted in ((3, ("data", "sharded", "sharded, stage 2", "sharded, stage 3", "1f1b, 3 stages")),
                            (4, ("interleaved, 2 stages", "sharded, stage 3", "tensor, 2 parts",
                                 "tensor, 2 parts, sequences", "ulysses, 2 parts", "ring, 2 parts"))):
        told = plan(job, "--workers", str(workers), "--memory", "64GiB", "--set", "stragglers.rebalance=false")
        ways = {way["way"]: way for way in reversed(told["ranking"])
                if "training.recompute" not in way["set"] and "training.micro_batch_size" not in way["set"]}
        assert told["own_mesh_priced"] and told["ranking"][told["best"]]["possible"], told
        for name in wanted:
            if arguments.model != "gpt" and name.startswith(("ulysses", "ring")):
                assert name not in ways, ways  # images have no sequences
                continue
            way = ways[name]
            if not way["possible"]:
                assert "blocks, too few" in way["reason"] or "cannot cut a model" in way["reason"], way
                continue
            assert way["same_bits"] == (not name.startswith(("tensor", "ulysses", "ring"))), way
            check(job, folder, way, workers)

    # Nothing fits into nothing, and every way says so.
    done = subprocess.run([arguments.muster, "plan", str(job), "--workers", "2", "--memory", "1MiB", "--json"],
                          capture_output=True, text=True, timeout=runs.DEADLINE)
    told = json.loads(done.stdout)
    assert done.returncode == 3 and told["best"] is None, done.stdout
    for way in told["ranking"]:
        assert "more than a worker may take" in way["reason"] or "step_s" not in way, way

    # strategy.type auto: one of the ways, told in one line, stored with the run, kept by a resume.
    job = runs.write_job(folder, arguments.model, steps=20)
    runs.train(arguments.muster, job, "--workers", "3")
    expected = runs.weights(runs.latest(folder), 20)
    auto = runs.settings("strategy.type=auto")
    output = runs.train(arguments.muster, job, "--workers", "3", *auto)
    assert output.count("strategy.type auto: ") == 1 and " predicted" in output, output
    run = runs.latest(folder)
    resolved = (run / "resolved.yaml").read_text()
    assert "# strategy.type: auto" in resolved and "  type: auto " not in resolved, resolved
    assert runs.weights(run, 20) == expected, "auto came to other weights"

    runs.train(arguments.muster, job, "--workers", "3", *runs.settings("strategy.type=sharded"))
    output = runs.train(arguments.muster, job, "--workers", "4", "--resume", *auto,
                        *runs.settings("training.max_steps=30"))
    assert "strategy.type auto: sharded, as the run was begun" in output, output
    assert "type: sharded" in (runs.latest(folder) / "resolved.yaml").read_text()
    print("auto: same", flush=True)
