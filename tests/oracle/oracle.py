"""oracle.py STEPS MODEL OPTIMIZER DTYPE...: runs muster's training (the program STEPS) and the same
training written here in plain PyTorch, from the same weights and data, and compares every step's
loss and gradient norm and the final weights and running statistics.

In f64 rounding cannot hide or cause a difference, so the limits are tight for every model. f32,
which is what muster trains in, is measured against PyTorch's f64: two right f32 runs of a network
with batch norm are further from each other than either need be from the truth. There a ReLU whose
input is rounding noise may be on in one run and off in the other (about three of the resnet's 40
million are); that bends its gradient by 1e-4 or so.

bf16 is mixed precision: muster's on the one side, torch.autocast on the other. There a product has
eight bits, and where both round differently (in another kernel) they are a few of these apart."""

import math
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file

SLICES = 5
MAX_NORM = 1.0  # with adamw

# Largest difference allowed: losses and norms relative, weights and statistics absolute, and of all
# parameters together relative to their way from the initial ones; a few times what is seen. Where
# weights move less than the absolute limit, the last one tells the right way from a wrong one.
LIMITS = {
    "f64": {"losses": 1e-14, "norms": 1e-13, "weights": 1e-14, "way": 1e-12},
    "f32": {"losses": 1e-6, "norms": 5e-6, "weights": 2e-6, "way": 1e-4},
    "bf16": {"losses": 2e-3, "norms": 2e-2, "weights": 5e-3, "way": 2e-2},
    "f32 resnet": {"losses": 1e-4, "norms": 3e-3, "weights": 3e-3, "way": 2e-2},
}


def softmax_dtype(x):
    """f32 in mixed precision, as with autocast on a GPU."""
    return torch.float32 if x.dtype != torch.float64 else None


class MlpLayer(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return self.linear(x.flatten(1))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer0, self.layer1 = MlpLayer(784, 64), MlpLayer(64, 32)
        self.head = MlpLayer(32, 10)

    def forward(self, x):
        return self.head(F.relu(self.layer1(F.relu(self.layer0(x)))))


class Basic(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = None
        if stride != 1:
            self.shortcut = nn.Sequential()
            self.shortcut.add_module("conv", nn.Conv2d(inputs, outputs, 1, stride, bias=False))
            self.shortcut.add_module("norm", nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet(nn.Module):
    def __init__(self, memory_format=torch.contiguous_format):
        super().__init__()
        self.memory_format = memory_format  # of the activations; other kernels, other rounding
        self.stem = nn.Sequential()
        self.stem.add_module("conv", nn.Conv2d(1, 16, 3, 1, 1, bias=False))
        self.stem.add_module("norm", nn.BatchNorm2d(16))
        self.stage0_block0 = Basic(16, 16, 1)
        self.stage1_block0 = Basic(16, 32, 2)
        self.stage2_block0 = Basic(32, 64, 2)
        self.head = MlpLayer(64, 10)

    def forward(self, x):
        x = self.stem.conv(x).contiguous(memory_format=self.memory_format)
        x = self.stage0_block0(F.relu(self.stem.norm(x)))
        x = self.stage2_block0(self.stage1_block0(x))
        return self.head(x.mean((2, 3)))


class Experts(nn.Module):
    """Every expert computes every token; a mask says whose answer counts, and where in its expert's
    queue a token stands (GShard's formulation)."""

    def __init__(self, width, experts, per_token, capacity_factor, expert):
        super().__init__()
        self.per_token, self.capacity_factor = per_token, capacity_factor
        self.weight = nn.Parameter(torch.empty(experts, width))
        for name, size in (("load", experts), ("dropped", 1), ("balance_loss", 1), ("z_loss", 1)):
            self.register_buffer(name, torch.empty(size))
        self.members = [expert() for _ in range(experts)]  # registered by the layer

    def forward(self, x):
        tokens = x.flatten(0, 1)
        logits = tokens @ self.weight.T
        p = logits.softmax(1)
        wanted = torch.stack(
            [F.one_hot(c, p.size(1)) for c in logits.topk(self.per_token, 1).indices.unbind(1)]
        )  # [choices, tokens, experts]
        kept = wanted
        if self.capacity_factor is not None:
            capacity = math.ceil(self.capacity_factor * wanted.sum() / p.size(1))
            place = wanted.flatten(0, 1).cumsum(0).view_as(wanted)
            kept = wanted * (place <= capacity)
        share = p * wanted.sum(0)
        if self.per_token > 1:
            share = share / share.sum(1, keepdim=True)
        share = share * kept.sum(0)
        y = sum(share[:, e, None] * f(tokens) for e, f in enumerate(self.members))
        load = wanted.sum((0, 1)).to(p.dtype) / wanted.sum()
        balance = (load * p.mean(0)).sum() * p.size(1)
        z = logits.exp().sum(1).log().square().mean()
        self.auxiliary = 0.01 * balance + 0.001 * z
        dropped = 1 - kept.sum().to(p.dtype) / wanted.sum()
        self.of_pass = [t.detach().reshape(-1) for t in (load, dropped, balance, z)]
        return y.view_as(x)


class GptMlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.contract(F.gelu(self.expand(x)))


class SwiGlu(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.expand = nn.Linear(width, hidden, bias=False)
        self.contract = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        gate = self.gate(x)
        return self.contract(gate * torch.sigmoid(gate) * self.expand(x))


def add_mlp(layer, mlp, experts):
    """One MLP, whose layers are the layer's own by name, or experts."""
    if experts is None:
        layer.mlp = [mlp()]
        for name, part in layer.mlp[0].named_children():
            layer.add_module(name, part)
    else:
        layer.router = experts(mlp)
        layer.mlp = [layer.router]
        layer.experts = nn.ModuleList(layer.router.members)


class GptLayer(nn.Module):
    def __init__(self, width, heads, experts=None):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        add_mlp(self, lambda: GptMlp(width), experts)

    def attend(self, x):
        n, length, width = x.shape
        q, k, v = (
            t.view(n, length, self.heads, -1).transpose(1, 2)
            for t in self.qkv(x).split(width, dim=2)
        )
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
        later = torch.ones(length, length).triu(1).bool()
        weights = scores.masked_fill(later, float("-inf")).softmax(3, dtype=softmax_dtype(x))
        mixed = weights @ v
        return self.projection(mixed.transpose(1, 2).reshape(n, length, width))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp[0](self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, context=32, width=64, heads=4, experts=None):
        super().__init__()
        self.embedding = nn.ModuleDict(
            {"token": nn.Embedding(256, width), "position": nn.Embedding(context, width)}
        )
        self.layer0, self.layer1 = GptLayer(width, heads), GptLayer(width, heads, experts)
        self.head = nn.Sequential()
        self.head.add_module("norm", nn.LayerNorm(width))

    def forward(self, x):
        x = self.embedding["token"](x.long()) + self.embedding["position"](torch.arange(x.size(1)))
        return self.head(self.layer1(self.layer0(x))) @ self.embedding["token"].weight.T


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * self.weight


def turned(x, base=10000.0):
    """Rotary position embedding of x [n, heads, length, width] with complex numbers, as precise as
    f32 at least."""
    length, width = x.shape[2:]
    wide = x.float() if x.dtype == torch.bfloat16 else x
    speed = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * speed
    turn = torch.polar(torch.ones_like(angle), angle).to(torch.complex(wide, wide).dtype)
    pairs = torch.complex(*wide.split(width // 2, dim=3)) * turn
    return torch.cat((pairs.real, pairs.imag), dim=3).to(x.dtype)


class LlamaLayer(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden, experts=None):
        super().__init__()
        self.head_width = width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)

        def linear(inputs, outputs):
            return nn.Linear(inputs, outputs, bias=False)

        self.query, self.projection = linear(width, width), linear(width, width)
        self.key = linear(width, kv_heads * self.head_width)
        self.value = linear(width, kv_heads * self.head_width)
        add_mlp(self, lambda: SwiGlu(width, hidden), experts)

    def attend(self, x):
        n, length, width = x.shape
        q, k, v = (
            f(x).view(n, length, -1, self.head_width).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        served = q.size(1) // k.size(1)
        q, k = turned(q), turned(k).repeat_interleave(served, dim=1)
        scores = q @ k.transpose(2, 3) / self.head_width**0.5
        later = torch.ones(length, length).triu(1).bool()
        scores = scores.masked_fill(later, float("-inf"))
        weights = scores.softmax(3, dtype=softmax_dtype(x))
        mixed = weights @ v.repeat_interleave(served, dim=1)
        return self.projection(mixed.transpose(1, 2).reshape(n, length, width))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp[0](self.norm2(x))


class Llama(nn.Module):
    def __init__(self, width=64, heads=4, kv_heads=2, hidden=192, experts=None):
        super().__init__()
        self.embedding = nn.ModuleDict({"token": nn.Embedding(256, width)})
        self.layer0 = LlamaLayer(width, heads, kv_heads, hidden, experts)
        self.layer1 = LlamaLayer(width, heads, kv_heads, hidden, experts)
        self.head = nn.Linear(width, 256, bias=False)
        self.head.add_module("norm", RmsNorm(width))

    def forward(self, x):
        x = self.layer1(self.layer0(self.embedding["token"](x.long())))
        return self.head(self.head.norm(x))


class Adapted(nn.Linear):
    """Hu et al. 2022, as in Hugging Face's PEFT."""

    def __init__(self, layer, rank):
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None)
        self.lora_A = nn.Linear(layer.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, layer.out_features, bias=False)
        self.register_buffer("lora_alpha", torch.zeros(1))
        for p in (self.weight, self.bias):
            p.requires_grad = False

    def forward(self, x):
        scale = self.lora_alpha / self.lora_A.out_features
        return super().forward(x) + scale * self.lora_B(self.lora_A(x))


def adapted_gpt():
    model = Gpt()
    for p in model.parameters():
        p.requires_grad = False
    for layer, name in ((model.layer0, "qkv"), *((model.layer1, n) for n in ("qkv", "projection"))):
        setattr(layer, name, Adapted(getattr(layer, name), 4))
    for name in ("expand", "contract"):
        part = Adapted(getattr(model.layer1, name), 4)
        setattr(model.layer1, name, part)
        setattr(model.layer1.mlp[0], name, part)
    return model


def create_model(name):
    return {
        "mlp": Mlp,
        "resnet": ResNet,
        "resnet_channels_last": lambda: ResNet(torch.channels_last),
        "gpt": Gpt,
        "llama": Llama,
        "lora": adapted_gpt,
        "moe": lambda: Llama(experts=lambda mlp: Experts(64, 5, 2, None, mlp)),
        "switch": lambda: Gpt(experts=lambda mlp: Experts(64, 4, 1, 0.8, mlp)),
    }[name]()


class Scaled(torch.optim.Optimizer):
    """What LARS and LAMB share: a trust ratio for each tensor but norms and biases."""

    def __init__(self, model, learning_rate, decay):
        super().__init__(model.parameters(), {"lr": learning_rate})
        self.decay, self.steps = decay, 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        for p in self.param_groups[0]["params"]:
            self.move(p, self.param_groups[0]["lr"], self.decay if p.dim() > 1 else None)


class Lars(Scaled):
    def move(self, p, rate, decay):
        norm = p.norm()
        trust = 1 if decay is None else 0.1 * norm / (p.grad.norm() + decay * norm)
        v = self.state[p].setdefault("v", torch.zeros_like(p))
        v.mul_(0.9).add_(rate * trust * (p.grad + (decay or 0) * p))
        p.sub_(v)


class Lamb(Scaled):
    def move(self, p, rate, decay):
        m = self.state[p].setdefault("m", torch.zeros_like(p))
        v = self.state[p].setdefault("v", torch.zeros_like(p))
        m.mul_(0.9).add_(0.1 * p.grad)
        v.mul_(0.999).add_(0.001 * p.grad * p.grad)
        root = (v / (1 - 0.999**self.steps)).sqrt() + 1e-5
        r = m / (1 - 0.9**self.steps) / root + (decay or 0) * p
        p.sub_(rate * (1 if decay is None else p.norm() / r.norm()) * r)


def create_optimizer(name, model, learning_rate):
    if name == "sgd":
        return torch.optim.SGD(
            model.parameters(), lr=learning_rate, momentum=0.9, nesterov=True, weight_decay=5e-4
        )
    if name == "lars":
        return Lars(model, learning_rate, 5e-4)
    if name == "lamb":
        return Lamb(model, learning_rate, 0.1)
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, eps=1e-5)


def statistics_of(model, kind):
    return [m for m in model.modules() if isinstance(m, kind)]


def run_batch(model, inputs, targets, autocast, slices=SLICES):
    """Backward over all slices; statistics are the slices' mean, weighted by samples, and so are
    auxiliary losses. With one slice batch norm is that over the whole batch."""
    norms = statistics_of(model, nn.BatchNorm2d)
    mixtures = statistics_of(model, Experts)
    loads = [[torch.zeros_like(b) for b in m.buffers(recurse=False)] for m in mixtures]
    before = [(m.running_mean.clone(), m.running_var.clone()) for m in norms]
    merged = [(torch.zeros_like(a), torch.zeros_like(b)) for a, b in before]
    total = 0.0
    for x, y in zip(inputs.tensor_split(slices), targets.tensor_split(slices)):
        for m in norms:
            m.momentum = 1.0  # leaves this slice's own statistics in the running ones
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            logits = model(x)
        logits = logits.float() if autocast else logits
        loss = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="sum")
        loss = loss / targets.numel()
        share = len(x) / len(inputs)
        (loss + sum(share * m.auxiliary for m in mixtures)).backward()
        total += loss.item()
        for m, sums in zip(mixtures, loads):
            for own, value in zip(sums, m.of_pass):
                own += share * value
        for m, (mean, variance) in zip(norms, merged):
            mean += m.running_mean * (len(x) / len(inputs))
            variance += m.running_var * (len(x) / len(inputs))
    for m, sums in zip(mixtures, loads):
        for buffer, value in zip(m.buffers(recurse=False), sums):
            buffer.copy_(0.9 * buffer + 0.1 * value)
    for m, old, new in zip(norms, before, merged):
        m.running_mean.copy_(0.9 * old[0] + 0.1 * new[0])
        m.running_var.copy_(0.9 * old[1] + 0.1 * new[1])
    return total


def train(model, optimizer, data, clips, autocast):
    losses, norms = [], []
    for inputs, targets in zip(data["inputs"], data["targets"]):
        optimizer.zero_grad()
        losses.append(run_batch(model, inputs, targets, autocast))
        limit = MAX_NORM if clips else float("inf")
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), limit).item())
        optimizer.step()
    return torch.tensor(losses, dtype=torch.float64), torch.tensor(norms, dtype=torch.float64)


def run_steps(*arguments):
    """Initial state, data and final state of muster's run."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*arguments, folder], check=True, timeout=240)
        parts = ("initial", "data", "final")
        return [load_file(Path(folder) / f"{part}.safetensors") for part in parts]


def relative(mine, theirs):
    return ((mine - theirs) / mine).abs().max().item()


def apart(state, other):
    return max((state[k] - v).abs().max().item() for k, v in other.items())


def distance(model, state):
    """Of all parameters; running statistics move far more, and would hide them."""
    return math.sqrt(
        sum((p - state[k]).double().square().sum().item() for k, p in model.named_parameters())
    )


def is_close(steps, name, optimizer_name, dtype):
    initial, data, final = run_steps(steps, name, optimizer_name, dtype)
    exact = torch.float32 if dtype == "bf16" else torch.float64
    data = {k: v.to(exact) if v.is_floating_point() else v for k, v in data.items()}
    model = create_model(name).to(exact)
    keys = model.load_state_dict(initial, strict=False)
    assert not keys.unexpected_keys, keys
    assert all(k.endswith("num_batches_tracked") for k in keys.missing_keys), keys
    optimizer = create_optimizer(optimizer_name, model, data["learning_rate"].item())
    losses, norms = train(model, optimizer, data, optimizer_name == "adamw", dtype == "bf16")
    print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}; norm {norms.min():.4f} … {norms.max():.4f}")
    assert apart(model.state_dict(), initial) > 1e-3, "nothing was trained"
    seen = {
        "losses": relative(losses, final.pop("losses")),
        "norms": relative(norms, final.pop("norms")),
        "weights": apart(model.state_dict(), final),
        "way": distance(model, final) / distance(model, initial),
    }
    limits = LIMITS["f32 resnet" if dtype == "f32" and "resnet" in name else dtype]
    for what, limit in limits.items():
        print(f"{dtype} {what}: largest difference {seen[what]:.1e}, allowed {limit:.0e}", flush=True)
    return all(seen[what] <= limit for what, limit in limits.items())


def main(steps, name, optimizer_name, *dtypes):
    torch.set_num_threads(1)
    close = [is_close(steps, name, optimizer_name, dtype) for dtype in dtypes]
    return 0 if close and all(close) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
