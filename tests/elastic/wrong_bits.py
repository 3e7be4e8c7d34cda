"""A bit that goes wrong in the memory of a worker that trains, in its weights or in what was reduced: it is found,
the worker named and replaced, and what it spoilt is undone, or never done."""
import json
import pathlib
import re
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import faulty
import runs

STEPS = 600
# So small a rate changes no weight, so that weights can be found in memory; the optimizer's state changes.
STILL = runs.settings("optimizer.learning_rate=1e-30", "optimizer.weight_decay=0", "optimizer.momentum=0.9")


def largest_tensor(run):
    """The bytes of it, from the newest checkpoint."""
    [*_, folder] = sorted(run.glob("checkpoints/step-*/manifest.json"))
    [file] = folder.parent.glob("model*.safetensors")
    content = file.read_bytes()
    [length] = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    begin, end = max((entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"),
                     key=lambda at: at[1] - at[0])
    return content[8 + length:][begin:end]


def flip_bit(pid, pattern):
    """The same bit wherever these bytes are in the process; how often that is."""
    places = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for line in maps:
            extent, rights, *_ = line.split()
            if not rights.startswith("rw") or line.endswith("[vvar]\n"):
                continue
            begin, end = (int(word, 16) for word in extent.split("-"))
            if end - begin > 1 << 30:  # address space that is kept for later
                continue
            memory.seek(begin)
            try:
                content = memory.read(end - begin)
            except OSError:
                continue
            at = content.find(pattern)
            while at >= 0:
                places.append(begin + at)
                at = content.find(pattern, at + 1)
        for place in places:
            memory.seek(place)
            memory.write(bytes([pattern[0] ^ 4]))
    return len(places)


def play(muster, folder, expected, workers, victim, *ways, source=None):
    """`ways`: settings that spread the model; `source`: who holds the same part and gives it to the new one."""
    name = f"{workers}-{victim}{'-spread' if ways else ''}"
    job = runs.write_job(folder, "mlp", steps=STEPS)
    process = runs.start(muster, job, "--workers", str(workers), *STILL, *runs.settings(
        f"run_folder={folder / name}", "replicas.compare_every=10 steps", *ways))
    run = runs.wait_for_step(process, folder, 60, name)
    pid = runs.workers_of(process)[victim]
    tensor = largest_tensor(run)
    middle = len(tensor) // 8 * 4
    assert flip_bit(pid, tensor[middle:middle + 64]) > 0, "the weights are not in the worker's memory"
    code, output = runs.finish(process)
    assert code == 0, f"exit code {code}:\n{output}"
    assert f"[WARN] worker {victim} (pid {pid} on " in output, output
    assert ") held other weights than the others after step " in output, output
    if victim > 0 or ways:  # the first one tells of it, or who takes its place does not go back either
        assert "all go back to step" in output and "where they were the same" in output, output
    lost = rf"worker {victim} \(pid {pid} on \S+\) held other bits than the others at step"
    assert re.search(lost, output), output
    assert f"worker {victim} is started anew" in output, output
    if source is not None:
        assert f"worker {victim} got its state from worker {source}" in output, output
    assert runs.weights(run, STEPS) == expected, f"other weights\n{output}"
    audit = subprocess.run([muster, "data", "audit", "--json", str(run)], capture_output=True)
    told = json.loads(audit.stdout)
    ledger = (run / "ledger.jsonl").read_text()
    assert told["well"] and told["superseded_steps"] > 0, f"what was undone counts as trained: {ledger}\n{output}"


def play_gradient(muster, folder, expected, workers, victim, *ways):
    """A reduced gradient that one of them got wrong: nobody updates with it. `ways`: settings that make two replicas."""
    name = f"gradient-{workers}-{victim}"
    faults = faulty.Faults(folder / f"faults-{name}")
    job = runs.write_job(folder, "mlp", steps=STEPS, runs=name)
    process = runs.start(muster, job, "--workers", str(workers), *runs.settings(
        "replicas.compare_gradients=1 steps", "training.lanes=1", *ways), env=faults.environment())
    run = runs.wait_for_step(process, folder, 60, name)
    pid = runs.workers_of(process)[victim]
    faults.arm(victim, "sum", r"backward of slice \d+(, chunk \d+)?$")
    _, where = faults.struck(victim)
    code, output = runs.finish(process)
    assert code == 0, f"exit code {code}:\n{output}"
    step = faulty.step_of(where)
    again = f"[WARN] the workers' reduced gradients differ in step {step}: it is taken again, to see who is wrong"
    assert (again in output) == (workers == 2 or bool(ways)), f"of two the second attempt tells who:\n{output}"
    for told in (rf"\[WARN\] worker {victim} \(pid {pid} on \S+\) got other reduced gradients than the others in "
                 rf"step {step}: its memory or processor is faulty",
                 rf"\[WARN\] worker {victim} \(pid {pid} on \S+\) held other bits than the others at step {step - 1}, "
                 "comparing gradients", rf"worker {victim} is started anew"):
        assert re.search(told, output), f"no `{told}` in:\n{output}"
    assert "go back to step" not in output, output
    assert runs.weights(run, STEPS) == expected, f"other weights\n{output}"
    audit = subprocess.run([muster, "data", "audit", "--json", str(run)], capture_output=True)
    assert json.loads(audit.stdout)["well"], audit.stdout


def main():
    arguments = runs.arguments("--worker")
    muster = arguments.muster
    with runs.workplace() as folder:
        runs.write_data(folder)
        expected = runs.undisturbed(muster, folder, "mlp", STEPS, *STILL)
        for workers, victim in ((3, 0), (3, 1), (2, 0), (2, 1)):
            play(muster, folder, expected, workers, victim)
            print(f"ok  worker {victim} of {workers}", flush=True)
        for victim, source in ((0, 2), (2, 0)):  # they hold the first stage, with the largest tensor
            play(muster, folder, expected, 4, victim, "strategy.type=pipeline", "strategy.stages=2", source=source)
            print(f"ok  worker {victim} of two replicas of a pipeline", flush=True)
        expected = runs.undisturbed(muster, folder, "mlp", STEPS)
        with_faults = faulty.install(folder, muster, arguments.worker)
        for workers, victim in ((3, 0), (3, 1), (2, 0), (2, 1)):
            play_gradient(with_faults, folder, expected, workers, victim)
            print(f"ok  gradients of worker {victim} of {workers}", flush=True)
        for victim in (0, 2):  # they hold the first stage
            play_gradient(with_faults, folder, expected, 4, victim, "strategy.type=pipeline", "strategy.stages=2")
            print(f"ok  gradients of worker {victim} of two replicas of a pipeline", flush=True)


if __name__ == "__main__":
    main()
