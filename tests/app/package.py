"""The Debian package that cpack makes (docs/building.md): what it asks for, that it trains once libtorch is there, and that
`muster doctor` says what is missing until then and `muster doctor --fix` has it fetched. What fetches is a stand-in here,
which takes what script/dependencies has fetched in the same way."""
import argparse
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

parser = argparse.ArgumentParser()
for name in ("--build", "--cpack", "--libtorch"):
    parser.add_argument(name, required=True)
arguments = parser.parse_args()
NEEDED = {"libc6", "libstdc++6", "libssl3", "libfmt9", "libspdlog1.10-fmt9", "libyaml-cpp0.7", "libdeflate0", "python3-venv"}


def run(*words, code=0, **options):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=500, check=False, **options)
    assert done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def made(folder):
    run(arguments.cpack, "--config", f"{arguments.build}/CPackConfig.cmake", "-G", "DEB", "-B", folder)
    [package] = folder.glob("*.deb")
    assert re.fullmatch(r"muster_\d+\.\d+\.\d+_amd64\.deb", package.name), package
    return package


def says_what_it_needs(package):
    told = run("dpkg-deb", "--field", package, "Depends")
    names = {word.split()[0] for word in told.split(",")}
    assert NEEDED <= names, told
    assert not any("torch" in name for name in names), told
    assert run("dpkg-deb", "--field", package, "Package").strip() == "muster"


def holds_what_runs_alone(root, build):
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert {"usr/bin/muster", "usr/bin/muster-worker", "usr/share/muster/libtorch.txt",
            "usr/share/bash-completion/completions/muster", "usr/share/zsh/vendor-completions/_muster"} <= files, files
    assert any(name.startswith("usr/share/man/man1/muster.1") for name in files), files
    assert {name for name in files if name.endswith((".a", ".h", ".c"))} == {
        f"usr/share/muster/{name}/muster_{name}.{end}" for name in ("mpi", "nccl") for end in "ch"}, files
    told = run("readelf", "-d", root / "usr/bin/muster-worker")
    assert "[$ORIGIN/../lib/muster/libtorch/torch/lib]" in told and str(build) not in told, told


def has_what_a_module_for_an_mpi_is_made_of(root, folder):
    """As docs/communication.md says."""
    module = folder / "mpi-mine.so"
    run("mpicc.mpich", "-shared", "-fPIC", "-O2", root / "usr/share/muster/mpi/muster_mpi.c", "-o", module)
    assert "muster_mpi" in run("readelf", "--dyn-syms", "--wide", module)


def without_libtorch_the_doctor_knows(muster):
    told = run(muster, "doctor", code=3)
    assert "`muster doctor --fix`, as root, fetches libtorch" in told, told
    told = run(pathlib.Path(arguments.build) / "bin/muster", "doctor", "--fix", code=2)
    assert "script/dependencies" in told, told


def the_doctor_has_it_fetched(muster, root):
    script = root / "usr/share/muster/fetch-wheels"
    assert script.read_text() == (pathlib.Path(__file__).parents[2] / "script/fetch-wheels").read_text()
    script.write_text('#!/bin/sh\necho fetching "$1"\ngrep -q torch== "$2" && mkdir -p "${1%/*}" && '
                      f'ln -s {arguments.libtorch} "$1"\n')
    told = run(muster, "doctor", "--fix")
    assert f"fetching {root}/usr/lib/muster/libtorch" in told and re.search(r"ok +libtorch +", told), told


def another_libtorch_is_noticed(muster, root):
    pins = root / "usr/share/muster/libtorch.txt"
    pins.write_text(pins.read_text() + "# of a later muster\n")
    told = run(muster, "doctor")
    assert re.search(r"warn +libtorch +.*fetched for another muster\n +`muster doctor --fix`", told), told


def it_trains(muster, folder):
    runs.write_data(folder)
    job = runs.write_job(folder, "mlp", steps=20)
    assert "done after step 20" in run(muster, "train", job, "--workers", 2)


with runs.workplace() as workplace:
    deb = made(workplace / "made")
    says_what_it_needs(deb)
    place = workplace / "root"
    run("dpkg-deb", "--extract", deb, place)
    holds_what_runs_alone(place, pathlib.Path(arguments.build).resolve())
    has_what_a_module_for_an_mpi_is_made_of(place, workplace)
    installed = place / "usr/bin/muster"
    without_libtorch_the_doctor_knows(installed)
    the_doctor_has_it_fetched(installed, place)
    it_trains(installed, workplace)
    another_libtorch_is_noticed(installed, place)
print("ok")
