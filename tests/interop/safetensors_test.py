"""Python's safetensors reads what muster writes, and muster what it writes.

usage: safetensors_test.py TOOL
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

DTYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64,
          "I32": torch.int32, "I64": torch.int64, "U8": torch.uint8}


def bytes_of(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def counted(size):
    return bytes(i % 256 for i in range(size))


def check_reads_muster(tool, folder):
    subprocess.run([tool, "write", folder], check=True)
    for path in (folder / "weights/model.safetensors",
                 folder / "checkpoints/step-00000007/model.safetensors"):
        tensors = load_file(path)
        assert set(tensors) == {f"x.{name}" for name in DTYPES} | {'scalar "quoted" ü', "empty"}
        for name, dtype in DTYPES.items():
            tensor = tensors[f"x.{name}"]
            assert tensor.dtype == dtype and tuple(tensor.shape) == (2, 3, 4), name
            assert bytes_of(tensor) == counted(24 * dtype.itemsize), name
        assert tensors['scalar "quoted" ü'].shape == ()
        assert tuple(tensors["empty"].shape) == (0, 5)
        with safe_open(path, "pt") as opened:
            assert opened.metadata() == {"format": "pt"}


def check_muster_reads(tool, folder):
    torch.manual_seed(1)
    tensors = {f"t.{name}": torch.randint(0, 100, (3, 5)).to(dtype)
               for name, dtype in DTYPES.items()}
    tensors["scalar"] = torch.tensor(3.5)
    tensors["empty"] = torch.zeros(4, 0)
    save_file(tensors, folder / "python.safetensors", {"format": "pt", "who": "ü"})
    output = subprocess.run([tool, "read", folder / "python.safetensors"], check=True,
                            capture_output=True, text=True).stdout
    seen = {}
    for line in output.splitlines():
        name, dtype, shape, digest = line.split(" ")
        seen[name] = (DTYPES[dtype], tuple(int(n) for n in shape.split(",") if n), digest)
    expected = {name: (tensor.dtype, tuple(tensor.shape),
                       hashlib.sha256(bytes_of(tensor)).hexdigest())
                for name, tensor in tensors.items()}
    assert seen == expected, f"{seen}\n{expected}"


def main():
    tool = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        check_reads_muster(tool, Path(folder))
        check_muster_reads(tool, Path(folder))


if __name__ == "__main__":
    main()
