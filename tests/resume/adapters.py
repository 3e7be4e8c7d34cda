"""A training that starts from another one's weights and trains adapters beside them: the same bits under each
strategy, the base as it was, and merged weights that answer as base and adapters do together."""
import json
import struct

import runs

STEPS = 20
LORA = runs.settings("lora.rank=4", "lora.dropout=0.1", "lora.target_modules=['layer?.*']")

arguments = runs.arguments()


def tensors(path):
    data = path.read_bytes()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:end])
    header.pop("__metadata__", None)
    return {name: data[end + entry["data_offsets"][0]:end + entry["data_offsets"][1]]
            for name, entry in header.items()}


def model_of(run):
    return tensors(sorted(run.glob("checkpoints/*"))[-1] / "model.safetensors")


def export(run, folder, *flags):
    code, output = runs.finish(runs.command(arguments.muster, "checkpoint", "export", run, "-o", folder, *flags))
    return code, output


def evaluated(job, weights, *flags):
    """What a model that stays as it is loses on the validation data."""
    still = runs.settings(f"model.weights={weights}", "training.max_steps=1", "optimizer.learning_rate=1e-30",
                          "optimizer.weight_decay=0", "schedule.type=constant", "schedule.warmup=0 steps")
    runs.train(arguments.muster, job, "--workers", "1", *still, *flags)
    return runs.evaluations(runs.latest(folder))[-1][1]


with runs.workplace() as folder:
    runs.write_data(folder)
    job = runs.write_job(folder, "gpt", steps=STEPS)
    runs.train(arguments.muster, job, "--workers", "2")
    base = runs.latest(folder)

    from_base = runs.settings(f"model.weights={base}")
    runs.train(arguments.muster, job, "--workers", "1", *from_base, *LORA)
    tuned = runs.latest(folder)
    expected = runs.weights(tuned, STEPS)
    for flags in (("--workers", "3"), ("--workers", "2", *runs.settings("strategy.type=sharded")),
                  ("--workers", "3", *runs.settings("strategy.type=pipeline"))):
        runs.train(arguments.muster, job, *flags, *from_base, *LORA)
        assert runs.weights(runs.latest(folder), STEPS) == expected, flags
        print(f"{flags}: same", flush=True)

    before, after = model_of(base), model_of(tuned)
    assert all(after[name] == values for name, values in before.items()), "the base has changed"
    trained = [name for name in after if name.endswith("lora_B.weight")]
    assert len(trained) == 8 and all(any(after[name]) for name in trained), trained

    code, output = export(base, folder / "none", "--merge")
    assert code == 2 and "no adapters to merge" in output, output
    code, output = export(tuned, folder / "merged", "--merge")
    assert code == 0, output
    merged = tensors(folder / "merged" / "model.safetensors")
    assert set(merged) == set(before)
    changed = {name for name in before if merged[name] != before[name]}
    assert changed == {name.replace("lora_B.", "") for name in trained}, changed

    plain, adapted = evaluated(job, base), evaluated(job, tuned, *LORA)
    together = evaluated(job, folder / "merged")
    assert abs(plain - adapted) > 1e-3, "the adapters changed nothing"
    assert abs(together - adapted) <= 1e-5 * adapted, f"merged {together}, adapted {adapted}"
    assert adapted == runs.evaluations(tuned)[-1][1], "other weights than the run ended with"

    for flags, said in ((runs.settings(f"model.weights={tuned}"), "merge it first"),
                        (runs.settings(f"model.weights={base}", "model.n_embd=64"), "differs from the checkpoint"),
                        (runs.settings(f"model.weights={base}", "model.n_layer=1"), "model does not have"),
                        (runs.settings("model.weights=/nowhere"), "there is no /nowhere"),
                        (runs.settings("lora.rank=2", "lora.target_modules=['*.query']"),
                         "no layer has a name like `*.query`; there are layer0.qkv")):
        for dry in (["--dry-run"], []):
            code, output = runs.finish(runs.start(arguments.muster, job, *dry, *flags))
            assert code in (2, 3) and said in output, f"exit code {code}:\n{output}"
