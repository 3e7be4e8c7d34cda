"""trained_job.py MUSTER MODEL [FLAG…]: `muster train` with two workers, or with these flags, and the
same training in plain PyTorch from the same files and starting weights; compares every step's loss, gradient norm and
learning rate, the final weights and running statistics, and what they are worth on the validation
data, whose number no batch, slice or worker divides. oracle.py compares models and optimizers
in a loop of its own. This one goes through what a person runs: reading and slicing the data (an
epoch's last step is shorter), lanes, buckets, clipping, the schedule, the checkpoint and its export.

muster computes in f32. It is measured against PyTorch in f64; PyTorch in f32 shows what rounding
alone comes to. The limits must be tight enough to tell other trainings apart: a slightly different
one, in PyTorch, has to be outside of them."""

import math
import struct
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from oracle import SLICES, create_model, relative, run_batch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

sys.path.append(str(Path(__file__).resolve().parents[1] / "resume"))
import runs  # noqa: E402

STEPS = 20
BATCH = 23  # slices of 5, 5, 5, 4, 4
SAMPLES = {"mlp": 250, "resnet": 250, "gpt": 112}  # an epoch ends with a step of 20
VALIDATION = 77  # images
HELD_OUT = 397  # bytes; the last sample of CONTEXT targets overlaps the one before
SIDES = {"mlp": 28, "resnet": 14}  # of an image
CONTEXT = 32
MEAN, STD = 0.25, 0.3
DECAY = 0.01
WARMUP = 4  # steps
FINAL_RATIO = 0.1

JOB = """
name: tiny
model: {{type: {model}, {shape}, weights: {folder}/initial.safetensors}}
data: {{{data}, shuffle: false}}
training:
  max_steps: {STEPS}
  global_batch_size: {BATCH}
  virtual_workers: {SLICES}
  lanes: 2
  max_grad_norm: {case.max_norm}
optimizer: {{{optimizer}, learning_rate: {case.peak}, weight_decay: {DECAY}}}
schedule: {{type: cosine, warmup: {WARMUP} steps, final_ratio: {FINAL_RATIO}}}
communication: {{first_bucket_size: 4 KiB, bucket_size: 16 KiB}}
evaluation: {{every: end, batch_size: 7}}
run_folder: {folder}/runs
"""
DATA = {
    "idx": "type: idx, path: {folder}, mean: [{MEAN}], std: [{STD}]",
    "text": "type: text, path: {folder}/text.txt, context_length: {CONTEXT}, validation_split: {split}",
}
SHAPES = {
    "mlp": "hidden_sizes: [64, 32]",
    "resnet": "channels: [16, 32, 64]",
    "gpt": "n_layer: 2, n_head: 4, n_embd: 64",
}
# Adam divides by the gradient's own size: with the usual epsilon, a gradient of pure rounding noise
# would move its weight by a full learning rate.
OPTIMIZERS = {"sgd": "type: sgd, momentum: 0.9", "adamw": "type: adamw, epsilon: 1e-5"}


@dataclass
class Case:
    optimizer: str
    peak: float  # learning rate
    max_norm: float  # the run's norms cross it
    first: int = 0  # sample that an epoch begins with
    slices: int = SLICES  # of a batch, each with statistics of its own for batch norm


CASES = {
    "mlp": Case("adamw", 2e-3, 1.0),
    "resnet": Case("sgd", 0.02, 0.95),
    "gpt": Case("adamw", 2e-3, 1.0),
}

# What must not pass for the same.
OTHERS = {
    "a learning rate 1 % higher": lambda case: replace(case, peak=1.01 * case.peak),
    "no clipping": lambda case: replace(case, max_norm=math.inf),
    "another order": lambda case: replace(case, first=1),
}
OTHER_STATISTICS = {
    "batch norm by other statistics": lambda case: replace(case, slices=1 + SLICES - case.slices),
}

# Largest difference allowed, relative; of a tensor, the norm of the difference to the norm of its
# way from the initial weights. For the resnet's see oracle.py: one ReLU that is on here and off
# there bends its gradient by 1e-4, and the steps behind it multiply that.
LIMITS = {
    "mlp": {"rates": 1e-12, "losses": 1e-6, "norms": 5e-6, "weights": 1e-4},
    "resnet": {"rates": 1e-12, "losses": 5e-4, "norms": 1e-2, "weights": 5e-2},
    "gpt": {"rates": 1e-12, "losses": 1e-6, "norms": 5e-6, "weights": 1e-4},
}
SYNCHRONISED = "training.sync_batch_norm=true"  # a flag
EVALUATION = 2e-6  # loss and accuracy of the same weights, relative


def write_images(folder, count, side):
    """Noise with a bright square whose place tells the class; the inputs and targets of an epoch, and
    those for validation."""
    whole = count + VALIDATION
    labels = torch.arange(whole).mul(7).remainder(10)
    random = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 60, (whole, side, side), generator=random, dtype=torch.uint8)
    square = side // 5
    for image, label in zip(pixels, labels.tolist()):
        image[side // 2 * (label // 5) :, square * (label % 5) :][:square, :square] += 180
    inputs = ((pixels.float() / 255 - MEAN) / STD)[:, None]
    for part, which in ("train", slice(count)), ("t10k", slice(count, whole)):
        own = pixels[which]
        head = struct.pack(">IIII", 0x803, len(own), side, side)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + bytes(own.flatten().tolist()))
        head = struct.pack(">II", 0x801, len(own))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(head + bytes(labels[which].tolist()))
    return (inputs[:count], labels[:count]), (inputs[count:], labels[count:])


def write_text(folder, count):
    """The last bytes of the file are not for training."""
    length = count * CONTEXT + 1
    walk = torch.arange(length + HELD_OUT)
    tokens = walk.mul(walk.div(97, rounding_mode="floor") + 3).remainder(61).add(60)
    (folder / "text.txt").write_bytes(bytes(tokens.tolist()))
    training, held_out = tokens[:length], tokens[length:]
    last = HELD_OUT - 1 - CONTEXT
    begins = [min(begin, last) for begin in range(0, HELD_OUT - 1, CONTEXT)]
    windows = torch.stack([held_out[begin : begin + CONTEXT + 1] for begin in begins])
    shape = (count, CONTEXT)
    return (training[:-1].view(shape), training[1:].view(shape)), (windows[:, :-1], windows[:, 1:])


def write_data(folder, name):
    if name == "gpt":
        return write_text(folder, SAMPLES[name])
    return write_images(folder, SAMPLES[name], SIDES[name])


def write_initial(folder, name):
    torch.manual_seed(3)
    model = create_model(name)
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=0.1)
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight)
    state = {k: v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    save_file(state, folder / "initial.safetensors")
    return state


def write_job(folder, name, case):
    split = HELD_OUT / (SAMPLES[name] * CONTEXT + 1 + HELD_OUT)
    data = DATA["text" if name == "gpt" else "idx"].format(folder=folder, split=split, **globals())
    rest = {"model": name, "shape": SHAPES[name], "optimizer": OPTIMIZERS[case.optimizer]}
    job = folder / "tiny.yaml"
    job.write_text(JOB.format(folder=folder, data=data, case=case, **rest, **globals()))
    return job


def train_in_muster(muster, folder, name, case, flags):
    runs.train(muster, write_job(folder, name, case), *(flags or ("--workers", "2")))
    run = runs.latest(folder)
    rows = [row for row in runs.rows(run) if "train/loss" in row]
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1)), rows

    def told(name):
        return torch.tensor([row[f"train/{name}"] for row in rows], dtype=torch.float64)

    (_, loss, accuracy), = runs.evaluations(run)
    return {
        "evaluation": torch.tensor([loss, accuracy], dtype=torch.float64),
        "rates": told("learning_rate"),
        "losses": told("loss"),
        "norms": told("grad_norm"),
        "weights": exported(muster, run, folder / "exported"),
    }


def exported(muster, run, folder):
    """The newest weights, as Python's safetensors reads them."""
    code, output = runs.finish(runs.command(muster, "checkpoint", "export", run, "-o", folder))
    assert code == 0, f"exit code {code}:\n{output}"
    with safe_open(folder / "model.safetensors", "pt") as opened:
        assert opened.metadata()["format"] == "pt", opened.metadata()
    return load_file(folder / "model.safetensors")


def steps_of(count):
    """The samples of every step, as positions within the epoch."""
    epoch = [range(begin, min(begin + BATCH, count)) for begin in range(0, count, BATCH)]
    return [epoch[step % len(epoch)] for step in range(STEPS)]


def rate_at(case, steps, step):
    """A linear rise over the warm-up's samples, then half a cosine over the others'."""
    seen = [sum(map(len, steps[:i])) for i in range(STEPS + 1)]
    if step < WARMUP:
        return case.peak * seen[step + 1] / seen[WARMUP]
    share = (seen[step] - seen[WARMUP]) / (seen[STEPS] - seen[WARMUP])
    last = FINAL_RATIO * case.peak
    return last + (case.peak - last) * (1 + math.cos(math.pi * share)) / 2


def create_optimizer(case, model):
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": DECAY},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if case.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=case.peak, momentum=0.9)
    return torch.optim.AdamW(groups, lr=case.peak, eps=1e-5)


def train_in_pytorch(name, case, initial, data, dtype):
    model = create_model(name).to(dtype)
    keys = model.load_state_dict(initial, strict=False)
    assert not keys.unexpected_keys, keys
    optimizer = create_optimizer(case, model)
    inputs, targets = (part.roll(-case.first, 0) for part in data)
    inputs = inputs.to(dtype) if inputs.is_floating_point() else inputs
    steps = steps_of(len(inputs))
    rates = [rate_at(case, steps, step) for step in range(STEPS)]
    losses, norms = [], []
    for samples, rate in zip(steps, rates):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        part = slice(samples.start, samples.stop)
        losses.append(run_batch(model, inputs[part], targets[part], False, case.slices))
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), case.max_norm).item())
        optimizer.step()
    told = {"rates": rates, "losses": losses, "norms": norms}
    told = {what: torch.tensor(values, dtype=torch.float64) for what, values in told.items()}
    return told | {"weights": model.state_dict()}


def evaluate_in_pytorch(name, weights, data):
    """Loss and accuracy of these very weights, over all targets."""
    model = create_model(name).to(torch.float64)
    model.load_state_dict(weights, strict=False)
    model.eval()
    inputs, targets = data
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    with torch.no_grad():
        logits = model(inputs).flatten(0, -2)
    loss = nn.functional.cross_entropy(logits, targets.flatten()).item()
    accuracy = (logits.argmax(-1) == targets.flatten()).double().mean().item()
    return torch.tensor([loss, accuracy], dtype=torch.float64)


def differences(exact, other, initial):
    """The largest of each kind."""
    seen = {what: relative(exact[what], other[what]) for what in ("rates", "losses", "norms")}
    apart = []
    for key, start in initial.items():
        mine, theirs = exact["weights"][key], other["weights"][key].double()
        apart.append(((mine - theirs).norm() / (mine - start).norm()).item())
    return seen | {"weights": max(apart)}


def passes(seen, limits):
    """A difference that is no number is none that passes."""
    return all(seen[what] <= limit for what, limit in limits.items())


def told(seen):
    return ", ".join(f"{what} {value:.1e}" for what, value in seen.items())


def main(muster, name, *flags):
    torch.set_num_threads(1)
    case, limits = CASES[name], LIMITS[name]
    if SYNCHRONISED in flags:
        case = replace(case, slices=1)
    with runs.workplace() as folder:
        data, validation = write_data(folder, name)
        initial = write_initial(folder, name)
        found = train_in_muster(muster, folder, name, case, flags)
    assert found["weights"].keys() == initial.keys(), found["weights"].keys() ^ initial.keys()
    exact = train_in_pytorch(name, case, initial, data, torch.float64)
    worth = evaluate_in_pytorch(name, found["weights"], validation)
    apart = relative(worth, found["evaluation"])
    print(f"evaluation {found['evaluation'].tolist()}, {apart:.1e} from PyTorch's; allowed: {EVALUATION:.0e}")
    good = apart <= EVALUATION
    short = evaluate_in_pytorch(name, found["weights"], [part[:-1] for part in validation])
    assert relative(short, found["evaluation"]) > EVALUATION, "one sample less passes for the same"
    losses, norms = exact["losses"], exact["norms"]
    print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}; norm {norms.min():.4f} … {norms.max():.4f}")
    assert norms.min() < case.max_norm < norms.max(), "clipping always, or never"

    single = train_in_pytorch(name, case, initial, data, torch.float32)
    print(f"PyTorch in f32: {told(differences(exact, single, initial))}")
    seen = differences(exact, found, initial)
    print(f"muster:         {told(seen)}\nallowed:        {told(limits)}")
    good = good and passes(seen, limits)
    others = OTHERS | (OTHER_STATISTICS if name == "resnet" else {})
    for what, change in others.items():
        other = train_in_pytorch(name, change(case), initial, data, torch.float64)
        seen = differences(other, found, initial)
        print(f"{what}: {told(seen)}")
        # The curve of the learning rate is told apart by itself; the training must be as well.
        if passes(seen | {"rates": 0}, limits):
            print(f"{what} passes for the same", file=sys.stderr)
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
