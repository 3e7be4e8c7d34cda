"""The Debian package that cpack makes (docs/building.md): that it asks for all that it loads, that it trains once libtorch is there, and that
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
FETCHES = {"python3-venv", "ca-certificates"}  # what script/fetch-wheels takes libtorch with


def run(*words, code=0, **options):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=500, check=False, **options)
    assert done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def made(folder):
    run(arguments.cpack, "--config", f"{arguments.build}/CPackConfig.cmake", "-G", "DEB", "-B", folder)
    [package] = folder.glob("*.deb")
    assert re.fullmatch(r"muster_\d+\.\d+\.\d+_amd64\.deb", package.name), package
    return package


def relations(text):
    """By name what a field lists: how it stands to which version, empty where any will do."""
    return dict(re.findall(r"([^\s,(]+)(?:\s*\(([^)]*)\))?", text))


def asked_for(package):
    return relations(run("dpkg-deb", "--field", package, "Depends"))


def says_what_it_needs(package):
    names = asked_for(package)
    assert FETCHES <= names.keys(), names
    assert not any("torch" in name for name in names), names
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


def needed_by(program):
    """The libraries that it names itself; those that these load are up to their own packages."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", program))


def loaded_by(program):
    """By name: where it is."""
    told = run("ldd", program)
    assert "not found" not in told, told
    return {pathlib.Path(path).name: path for path in re.findall(r"(/\S+) \(0x", told)}


def owner_of(path):
    """The package, which may know the file by a place that a link of the system's leads from."""
    real = str(pathlib.Path(path).resolve())
    for place in (path, real, real.removeprefix("/usr"), f"/usr{path}"):
        done = subprocess.run(["dpkg-query", "--search", place], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    raise AssertionError(f"{path} is of no package")


def is_asked_for(package, depends):
    """As it is here, under its own name or one that it provides."""
    version, provided = run("dpkg-query", "--show", "--showformat", "${Version}\n${Provides}", package).split("\n")
    versions = relations(provided) | {package: version}
    return any(not depends[name] or subprocess.run(["dpkg", "--compare-versions", here.removeprefix("= "), *depends[name].split()],
                                                   check=False).returncode == 0
               for name, here in versions.items() if name in depends)


def lacking(depends, root):
    """Whose libraries its programs, and those of libtorch that they load, need, which it does not ask for."""
    found = set()
    is_program = lambda path: path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"
    for program in filter(is_program, root.rglob("*")):
        loaded = loaded_by(program)
        own = [path for path in loaded.values() if "/libtorch/" in path]
        names = {name for each in (program, *own) for name in needed_by(each)}
        owners = {owner_of(loaded[name]) for name in names if "/libtorch/" not in loaded[name]}
        found |= {owner for owner in owners if not is_asked_for(owner, depends)}
    return found


def asks_for_all_that_it_loads(package, root):
    depends = asked_for(package)
    assert not (found := lacking(depends, root)), f"Depends {depends} lacks {found}"
    without = {name: relation for name, relation in depends.items() if name != "libyaml-cpp0.7"}
    assert lacking(without | {"libc6": ">= 99"}, root) == {"libyaml-cpp0.7", "libc6"}


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
    asks_for_all_that_it_loads(deb, place)
    it_trains(installed, workplace)
    another_libtorch_is_noticed(installed, place)
print("ok")
