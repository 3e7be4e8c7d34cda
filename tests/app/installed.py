"""What `cmake --install` leaves is all that a user needs: examples are configured, built and run from the install tree
alone, one of them without libtorch; what find_package cannot give it says."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
for name in ("--build", "--examples", "--cmake"):
    parser.add_argument(name, required=True)
arguments = parser.parse_args()
EXAMPLES = pathlib.Path(arguments.examples)
HERE = pathlib.Path(__file__).resolve().parent


def run(*words, fails=False):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=500, check=False)
    assert (done.returncode != 0) == fails, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def configure(source, build, prefix, *more, fails=False):
    return run(arguments.cmake, "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
               "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_CXX_COMPILER_LAUNCHER=" + (shutil.which("ccache") or ""), *more,
               fails=fails)


def build(name, work, prefix, target=None):
    """A copy of the example, so that nothing beside it is found either."""
    source = work / name
    shutil.copytree(EXAMPLES / name, source)
    configure(source, source / "build", prefix)
    run(arguments.cmake, "--build", source / "build", "--target", target or name)
    return source / "build" / (target or name)


def headers_are_those_needed(prefix):
    found = {str(path.relative_to(prefix / "include")) for path in (prefix / "include").rglob("*.h")}
    assert {"muster/app.h", "muster/comm/communicator.h", "muster/checkpoint/checkpointer.h"} <= found, found
    surplus = [path for path in found if "testing" in path or path.startswith(("muster/cli/", "muster/train/"))]
    assert not surplus and len(found) < 90, (len(found), surplus)


def layers_need_no_libtorch(work, prefix):
    program = build("layers", work, prefix)
    assert "libtorch" not in run("ldd", program)
    assert "every sample once: 499500" in run(program, work / "checkpoints")


def an_app_trains(work, prefix):
    program = build("tides", work, prefix)
    print(run(sys.executable, HERE / "tides.py", "--tides", program, "--muster", prefix / "bin/muster", "--example",
              EXAMPLES / "tides", "--only", "learns_the_same_at_any_size"))


def a_loop_of_ones_own_trains(work, prefix):
    program = build("plain", work, prefix, "resumable")
    assert "step 40: loss" in run(prefix / "bin/muster", "launch", "-n", 2, program, work / "loop")


def programs_run(prefix):
    assert "muster" in run(prefix / "bin/muster", "--version")
    assert (prefix / "share/man/man1/muster.1").read_text().startswith('.TH "MUSTER" 1')
    assert "libtorch" in run(prefix / "bin/muster-worker", "--version")


def what_is_missing_is_told(work, prefix):
    source = work / "wrong"
    source.mkdir()
    project = "cmake_minimum_required(VERSION 3.25)\nproject(wrong LANGUAGES CXX)\nfind_package(muster {} REQUIRED {})\n"
    (source / "CMakeLists.txt").write_text(project.format("", "COMPONENTS comms"))
    told = configure(source, source / "build", prefix, fails=True)
    assert "muster has no component comms; it has" in told, told
    (source / "CMakeLists.txt").write_text(project.format("7.0", "COMPONENTS comm"))
    assert "compatible" in configure(source, source / "build", prefix, fails=True)


os.environ.pop("CMAKE_PREFIX_PATH", None)
with tempfile.TemporaryDirectory(prefix="muster-install-") as folder:
    place = pathlib.Path(folder)
    run(arguments.cmake, "--install", arguments.build, "--prefix", place / "installed")
    for scenario in (layers_need_no_libtorch, an_app_trains, a_loop_of_ones_own_trains, what_is_missing_is_told):
        scenario(place, place / "installed")
        print(f"ok  {scenario.__name__}", flush=True)
    for scenario in (headers_are_those_needed, programs_run):
        scenario(place / "installed")
        print(f"ok  {scenario.__name__}", flush=True)
