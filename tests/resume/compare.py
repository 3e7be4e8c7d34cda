"""`muster compare`: one job trained in several ways, and what it says of them is what they left behind."""
import json
import signal
import socket
import subprocess

import runs

arguments = runs.arguments()


def compare(job, *flags):
    done = subprocess.run([arguments.muster, "compare", str(job), "--workers", "2", *flags],
                          capture_output=True, text=True, timeout=runs.DEADLINE)
    return done.returncode, done.stdout, done.stderr


def folders(parent):
    return {path for path in parent.iterdir() if not path.is_symlink()}


def moves_once_there_is_something_to_show(parent, job):
    """`latest` is the comparison before this one until this one can be looked at, and stays so where nothing came of
    it."""
    before, known = (parent / "latest").readlink(), folders(parent)
    endless = runs.command(arguments.muster, "compare", job, "--workers", 1, "--strategies", "data",
                           *runs.settings("training.max_steps=1000000", *runs.UNTIL_STOPPED))
    runs.wait_for(lambda: any(runs.rows(path.parent) for new in folders(parent) - known
                              for path in new.glob("data/2*/metrics.jsonl")), "a step")
    made, = folders(parent) - known
    assert (parent / "latest").readlink() == before, "nothing has come of it yet"
    endless.send_signal(signal.SIGTERM)
    code, output = runs.finish(endless)
    assert code == 128 + signal.SIGTERM, output
    assert str((parent / "latest").readlink()) == made.name, output
    assert (parent / "latest" / "comparison.html").exists(), output
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, output, errors = compare(job, "--strategies", "data", "--set",
                                       f"prometheus.listen=127.0.0.1:{taken.getsockname()[1]}")
    assert code == 3 and "prometheus.listen" in errors, output + errors
    assert str((parent / "latest").readlink()) == made.name, output + errors


with runs.workplace() as folder:
    runs.write_data(folder)
    job = runs.write_job(folder, "mlp", steps=40)

    code, output, errors = compare(job, "--strategies", "data,sharded,pipeline",
                                   "--variant", "another: seed=6; training.max_steps=30")
    assert code == 0, output + errors
    table = [line.split() for line in output.split("loss  samples/s")[1].splitlines()[1:5]]
    assert [line[0] for line in table] == ["data", "sharded", "pipeline", "another"], output
    assert [line[-1] for line in table[1:3]] == ["same", "same"], output
    assert table[3][-1] not in ("same", table[0][-1], "–"), output
    newest = folder / "runs" / "tiny.compare" / "latest"
    told = json.loads((newest / "comparison.json").read_text())["comparison"]
    for one in told:
        run = newest / one["name"] / "latest"
        count = sum("train/loss" in row for row in runs.rows(run))
        assert count == (30 if one["name"] == "another" else 40), (one, count)
        assert one["completed"] and one["samples_per_s"] > 0 and one["peak_bytes"] > 2**24, one
        expected = runs.weights(run, count)["model.safetensors"]
        assert one["weights"] == expected, (one, expected)
    made = subprocess.run([arguments.muster, "report", str(run), "--json"], capture_output=True, text=True)
    assert json.loads(made.stdout) == {"report": f"{run.parent / run.readlink()}/report.html"}, made
    page = (newest / "comparison.html").read_text()
    for one in told:
        assert f">{one['name']}</a>" in page, page

    # Stages of ZeRO have names of their own; cut tensors and shared sequences are other sums, and so other bits.
    text = runs.write_job(folder, "gpt", steps=12)
    code, output, errors = compare(text, "--strategies", "data,zero1,zero2,zero3,pipeline1+shard2,tensor,context")
    assert code == 0, output + errors
    table = {line.split()[0]: line.split() for line in output.splitlines() if line.count("MiB") > 0}
    assert [table[name][-1] for name in ("zero1", "zero2", "zero3", "pipeline1+shard2")] == ["same"] * 4, output
    told = {one["name"]: one for one in json.loads(
        (folder / "runs" / "tiny.compare" / "latest" / "comparison.json").read_text())["comparison"]}
    for name in ("tensor", "context"):
        assert told[name]["weights"] != told["data"]["weights"], told
        assert abs(told[name]["loss"] - told["data"]["loss"]) < 1e-3, told
    assert told["zero1"]["bytes_on_wire"] < told["zero2"]["bytes_on_wire"] < told["zero3"]["bytes_on_wire"], told
    job = runs.write_job(folder, "mlp", steps=40)

    moves_once_there_is_something_to_show(folder / "runs" / "tiny.compare", job)

    # A way whose numbers run away is found out by the workers: the others are trained all the same.
    code, output, _ = compare(job, "--variant", "bad: optimizer.learning_rate=1e30",
                              "--variant", "good: training.max_steps=5", "--json")
    told = [json.loads(line) for line in output.splitlines()][-1]["comparison"]
    assert code != 0 and [one["completed"] for one in told] == [False, True], (code, told)
    assert told[0]["failure"], told

    # What no job may say is told of all ways at once, before anything is trained.
    code, output, errors = compare(job, "--strategies", "data,zero9,shard3+tensor2", "--variant",
                                   "x: training.epochz=1")
    assert code == 2 and not output, (code, output)
    assert "zero9: " in errors and "x: " in errors and "epochs" in errors, errors
    assert "shard3+tensor2: " in errors and "is for 6 workers; workers.count is 2" in errors, errors

print("same")
