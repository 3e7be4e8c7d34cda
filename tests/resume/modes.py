"""Ways to train that may round differently: micro-batches (accumulation) and fast mode come close to what whole
slices in ordered mode come to, and micro-batches to the same bits at any number of workers. The loopback engine
is one more way to the same bits."""
import array
import json
import math
import struct

import runs

STEPS = 30
CLOSE = 5e-5  # difference of losses
# Of all weights, to their way from step 10 on. What rounding comes to in some steps depends on the processor's kernels:
# where a ReLU is about to open, it decides.
CLOSE_WEIGHTS = {"mlp": 1e-3, "gpt": 5e-5}
PLAIN = runs.settings("model.dropout=0", "training.global_batch_size=32", "training.virtual_workers=4",
                      "checkpoint.every=10 steps", "checkpoint.keep=10")
MICRO = runs.settings("training.micro_batch_size=2")
FAST = runs.settings("training.mode=fast")
TCP = runs.settings("communication.transport=tcp", "communication.algorithm=halving_doubling")

arguments = runs.arguments("--model")
close = CLOSE_WEIGHTS[arguments.model]


def numbers(run, step):
    """All weights after that step, one behind the other."""
    data = (run / f"checkpoints/step-{step:08d}/model.safetensors").read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    assert all(entry["dtype"] == "F32" for entry in header.values()), header
    return array.array("f", b"".join(data[begin + first:begin + end] for first, end in (
        header[name]["data_offsets"] for name in sorted(header))))


def losses(run):
    return [row["train/loss"] for row in runs.rows(run) if "train/loss" in row]


def apart(run, other):
    """Weights, relative to how far they moved, and losses."""
    mine, theirs = numbers(run, STEPS), numbers(other, STEPS)
    weights = math.dist(mine, theirs) / math.dist(mine, numbers(run, 10))
    return weights, max(abs(a - b) / a for a, b in zip(losses(run), losses(other), strict=True))


with runs.workplace() as folder:
    runs.write_data(folder)
    job = runs.write_job(folder, arguments.model, steps=STEPS)

    def train(workers, *flags):
        output = runs.train(arguments.muster, job, "--workers", str(workers), *PLAIN, *flags)
        run = runs.latest(folder)
        assert len(losses(run)) == STEPS, output
        return run

    whole = train(2)
    first, *_, last = losses(whole)
    assert last < 0.9 * first, f"nothing was learnt: {losses(whole)}"

    loopback = train(1, *runs.settings("communication.engine=loopback"))
    assert runs.weights(loopback, STEPS) == runs.weights(whole, STEPS), "loopback: other bits"
    print("loopback: same", flush=True)

    micro = train(3, *MICRO)
    assert runs.weights(train(1, *MICRO), STEPS) == runs.weights(micro, STEPS), "micro-batches: other bits"
    for name, run in (("micro-batches", micro), ("fast", train(2, *FAST)), ("fast, TCP", train(3, *FAST, *TCP)),
                      ("fast, micro-batches", train(2, *FAST, *MICRO))):
        weights, loss = apart(whole, run)
        print(f"{name}: weights {weights:.1e}, loss {loss:.1e}", flush=True)
        assert weights < close and loss < CLOSE, f"{name}: weights {weights:.1e}, loss {loss:.1e} apart"
        assert weights > 0, f"{name} did as without"

    # The comparison can fail: a learning rate that is 2 % higher is found out.
    weights, loss = apart(whole, train(2, *runs.settings(
        "optimizer.learning_rate=" + {"mlp": "0.051", "gpt": "3.06e-3"}[arguments.model])))
    print(f"another learning rate: weights {weights:.1e}, loss {loss:.1e}", flush=True)
    assert weights > close, f"another learning rate: only {weights:.1e} apart"
