"""How the checks call the compilers: like the build, without its build folder."""

from pathlib import Path

from check_layers import FRONTS, LAYERS, TORCH_LAYERS
from sources import ROOT

TORCH = ROOT / ".deps/libtorch/torch"
APP_WITH_TORCH = ("worker", "rendezvous")  # the rest of app is part of the program that starts without libtorch
LANGUAGE = ["-std=c++20", "-I.", "-DASIO_STANDALONE", "-DASIO_NO_DEPRECATED", "-DMUSTER_CHECKED=1",
            "-DCPPHTTPLIB_OPENSSL_SUPPORT", "-DMUSTER_VERSION=\"0\"", "-DMUSTER_TORCH_VERSION=\"0\""]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wnon-virtual-dtor", "-Werror"]


def needs_torch(path):
    """True where libtorch's headers may appear, tests of those layers included."""
    top, layer = path.parts[:2]
    if path.as_posix() in FRONTS:
        return True
    return top == "muster" and layer in TORCH_LAYERS and (layer != "app" or path.parts[2] in APP_WITH_TORCH)


def in_core(path):
    """True for the layers that build without libtorch, and what of app does."""
    return path.parts[0] == "muster" and path.parts[1] in LAYERS and not needs_torch(path)


def torch_flags():
    """As in cmake/MusterTorch.cmake: after the system's folders."""
    return [flag for folder in ("include", "include/torch/csrc/api/include")
            for flag in ("-idirafter", str(TORCH / folder))]


def precompiled_torch(run, root=ROOT):
    """clang's precompiled header of libtorch: 15 s once instead of 15 s a file. `run(command)` must
    raise on failure. Returns the flags that use it."""
    place = root / "build/checks/torch.pch"
    source = root / "cmake/torch_pch.h"
    if not place.exists() or place.stat().st_mtime < source.stat().st_mtime:
        place.parent.mkdir(parents=True, exist_ok=True)
        run(["clang++-19", *LANGUAGE, *torch_flags(), "-fPIC", "-x", "c++-header", str(source), "-o",
             str(place)])
    return [*torch_flags(), "-fPIC", "-include-pch", str(place)]
