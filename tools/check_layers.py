#!/usr/bin/env python3
"""Includes go down only: holds every #include to the table of layers (ARCHITECTURE.md).

usage: tools/check_layers.py [ROOT]
"""

import re
from pathlib import Path

from sources import ROOT, SYSTEM_HEADER, arguments, cpp_files, finish, includes, is_test, root_of

# Layer -> what it may include: layers, or single headers of a layer. Lowest first.
LOWER = ("base", "net", "storage", "observe", "job", "layout", "cluster", "comm", "data", "checkpoint")
WITHOUT_TORCH = (*LOWER, "plan")
LAYERS = {
    "base": (),
    "net": ("base",),
    "storage": ("base",),
    "observe": ("base",),
    "job": ("base",),
    "layout": ("base",),
    "cluster": ("net", "observe", "base"),
    "comm": ("cluster/store.h", "storage", "net", "observe", "base"),
    "data": ("cluster/store.h", "storage", "net", "observe", "base"),
    "checkpoint": ("comm", "storage", "observe", "base"),
    "models": ("base",),
    "optim": ("base",),
    "parallel": ("comm", "layout", "optim", "models", "data/batch.h", "observe", "base"),
    "plan": ("comm/cost.h", "comm/schedule.h", "comm/sum_tree.h", "layout", "base"),
    "train": (*LOWER, "models", "optim", "parallel"),
    "app": (*WITHOUT_TORCH, "models", "optim", "parallel", "train"),
    "cli": (*WITHOUT_TORCH, "app"),
    "own": ("base", "job", "layout", "comm", "data", "checkpoint", "models", "parallel", "app", "cli"),
}
TORCH_LAYERS = ("models", "optim", "parallel", "train", "app", "own")
FRONTS = ("muster/app.h", "muster/checkpointer.h", "muster/join.h", "muster/sampler.h")  # what users' programs include, and tests of them

# Folders of leaves: only app and tests include what lies in one; leaves do not see each other.
LEAF_FOLDERS = ("backend", "formats", "sinks", "stores", "launchers")
COMPOSERS = ("app",)

# Third-party headers -> the layers that may use them.
THIRD_PARTY = {
    r"(torch|ATen|c10)/": TORCH_LAYERS,
    r"asio(/|\.hpp)": ("net", "cluster", "comm"),
    r"openssl/": ("base", "net"),
    r"yaml-cpp/": ("job",),
    r"CLI/": ("cli", "app"),
    r"spdlog/": ("base",),
    r"httplib\.h": ("app",),
    r"libdeflate\.h": ("data",),
    r"nlohmann/": ("base", "net", "observe", "job", "cluster", "data", "checkpoint", "plan", "train",
                   "app", "cli"),
    r"fmt/": tuple(LAYERS),
    r"tl/expected\.hpp": ("base",),
    r"(png|turbojpeg|csv)\.h": ("data",),
    r"(gtest|gmock|rapidcheck|benchmark)[/.]": (),
}
# Of the language, or the system: tools/check_symbols.py says who may include the latter.
OF_THE_SYSTEM = re.compile(r"[a-z_0-9]+|std(int|def)\.h|" + SYSTEM_HEADER)


def leaf_of(path):
    """('comm', 'backend', 'native') for muster/comm/backend/native/…, else None."""
    parts = Path(path).parts
    if len(parts) > 4 and parts[2] in LEAF_FOLDERS:
        return parts[1:4]
    return None


def may_include_layer(layer, target):
    """target: path after muster/, as in comm/work.h."""
    other = target.split("/")[0]
    return other == layer or other in LAYERS[layer] or target in LAYERS[layer]


def project_problem(path, layer, name):
    """Why `path` of `layer` may not include the project's header `name`; None when it may."""
    test = is_test(path)
    target = name.removeprefix("muster/")
    other = target.split("/")[0]
    if "testing" in target.split("/")[:-1] and not test:
        return "what lies in a folder named testing is for tests only"
    if other == "testing":
        return None
    if name in FRONTS:
        return None if test else "what users include is for them"
    if other not in LAYERS:
        return f"{other} is no layer: add it to the table in tools/check_layers.py"
    leaf = leaf_of(name)
    if leaf and not test and layer not in COMPOSERS and leaf != leaf_of(path):
        return f"the leaf {'/'.join(leaf)} is included by {', '.join(COMPOSERS)} and tests only"
    if layer is None or may_include_layer(layer, target):
        return None
    return f"{layer} may include only: {', '.join(LAYERS[layer]) or 'nothing of the project'}"


def third_party_problem(path, layer, name):
    """Why `path` may not include the library header `name`; None when it may."""
    for pattern, layers in THIRD_PARTY.items():
        if re.match(pattern, name) and not is_test(path) and layer not in layers:
            return f"<{name}> is for {', '.join(layers) or 'tests'} only"
        if re.match(pattern, name) and layer in WITHOUT_TORCH and pattern.startswith("(torch"):
            return f"{layer} builds without libtorch, its tests too"
        if re.match(pattern, name):
            return None
    if layer is None or is_test(path) or OF_THE_SYSTEM.fullmatch(name):
        return None
    return "it is no library that is used here: add it to THIRD_PARTY in tools/check_layers.py"


def file_problems(root, path):
    in_muster = path.parts[0] == "muster"
    layer = path.parts[1] if in_muster and path.parts[1] != "testing" else None
    if path.as_posix() in FRONTS:
        layer = "own"
    if layer is not None and layer not in LAYERS:
        yield f"{path}:1: {layer} is no layer: add it to the table in tools/check_layers.py"
        return
    for line, quote, name in includes((root / path).read_text()):
        judge = project_problem if name.startswith("muster/") else third_party_problem
        problem = judge(path, layer, name)
        if in_muster and quote == '"' and not name.startswith(("muster/", "tests/")):
            problem = "headers of the project are named from its root: muster/…"
        if problem:
            yield f"{path}:{line}: includes {name}: {problem}"


def main():
    root = root_of(arguments(__doc__))
    files = cpp_files(root)
    finish("layers", [p for path in files for p in file_problems(root, path)], len(files))


if __name__ == "__main__":
    main()
