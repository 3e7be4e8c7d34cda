"""The scripts take what they are given, and say what to do where they cannot begin."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534


def run_as_somebody(command):
    """As a user that is not root."""
    other = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          env=os.environ | {"MUSTER_SCRIPT_STARTED": "0"}, **other)


def fill(place, programs):
    """A project with nothing but the scripts; these programs, by path and text, stand for what they call."""
    shutil.copytree(ROOT / "script", Path(place, "script"))
    for folder in ("build", "data", "runs", ".deps"):
        Path(place, folder).mkdir()
    for name, text in {"script/dependencies": "exit 0", "script/build": "exit 0", "script/data": "exit 0", **programs}.items():
        program = Path(place, name)
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/bash\n{text}\n")
        program.chmod(0o755)


class Quickstart(unittest.TestCase):
    def test_in_a_folder_of_somebody_else(self):
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o755)
            project = Path(place, "muster")
            shutil.copytree(ROOT / "script", project / "script")
            os.chmod(project, 0o555)
            done = run_as_somebody([project / "script/quickstart"])
            os.chmod(project, 0o755)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn(f"{project} cannot be written by", done.stderr)
        self.assertIn("sudo chown", done.stderr)


class Workers(unittest.TestCase):
    """On two, unless the person says on how many."""

    def words(self, *given, **variables):
        """What muster is called with, and what the script says at the end."""
        with tempfile.TemporaryDirectory() as place:
            fill(place, {"build/release/bin/muster": 'printf "GIVEN"; printf " <%s>" "$@"; echo'})
            environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
            done = subprocess.run([Path(place, "script/quickstart"), *given], capture_output=True, text=True,
                                  check=False, env=environment | variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        called = next(line for line in done.stdout.splitlines() if line.startswith("GIVEN"))
        prefix = "GIVEN <train> <jobs/fashion.yaml>"
        self.assertTrue(called.startswith(prefix), called)
        return called[len(prefix):].replace("<", "").replace(">", "").split(), done.stdout

    def test_are_two(self):
        self.assertEqual(self.words()[0], ["--workers", "2"])
        words, said = self.words("--quick", "--set", "seed=7", "--dry-run")
        self.assertEqual(words, ["--workers", "2", "--quick", "--set", "seed=7", "--dry-run"])
        self.assertIn("jobs/fashion.yaml --workers 1 --quick --set seed=7 --dry-run ", said)
        said = self.words("--set", "data.path=/my data")[1]
        self.assertIn(r"--workers 1 --set data.path=/my\ data ", said)

    def test_are_as_many_as_the_person_says(self):
        for given in (["--workers", "4"], ["--workers=4"], ["-w", "4"], ["-w4"], ["-n", "4"], ["-n4"], ["-np", "4"],
                      ["--np", "4"], ["--nproc-per-node", "4"], ["--nproc-per-node=4"], ["--nproc_per_node", "4"],
                      ["--nproc_per_node=auto"], ["-H", "localhost:4"], ["--hosts=localhost:4"], ["--hostfile", "hosts"],
                      ["--set", "workers.count=4"],
                      ["--set=workers.count=4"]):
            words, said = self.words("--quick", *given)
            self.assertEqual(words, [*given, "--quick"])
            self.assertIn("jobs/fashion.yaml --workers 1 --quick ", said)
        self.assertEqual(self.words("--workers")[0], ["--workers"])  # muster says what is missing
        self.assertEqual(self.words("--nnodes", "1")[0], ["--workers", "2", "--nnodes", "1"])
        self.assertEqual(self.words("--quick", MUSTER_WORKERS_COUNT="4")[0], ["--quick"])


class Test(unittest.TestCase):
    def test_refuses_what_it_would_pass_over(self):
        for given in (["--fast", "--full"], ["--sanitize", "--fast"], ["--full", "-R", "x"], ["-h"]):
            done = subprocess.run([ROOT / "script/test", *given], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn("usage: script/test", done.stderr)

    def test_ends_on_what_was_left_out_and_why(self):
        """Of a test that was skipped, and of one that passed without a part."""
        log = ["1/3 Testing: base.one", "1/3 Test: base.one", "Output:", "it says left out: nothing", "<end of output>", "Test Passed.",
               "2/3 Testing: ranks.links", "2/3 Test: ranks.links", "Output:", "left out: no namespaces here", "<end of output>",
               "3/3 Testing: seen.trace", "3/3 Test: seen.trace", "Output:", "ok  by_one", "left out: no other clock: none at all",
               "ok  by_three", "<end of output>", "Test Passed."]
        with tempfile.TemporaryDirectory() as place:
            fill(place, {"bin/ctest": 'mkdir -p build/core/Testing/Temporary\n'
                                      'cp log build/core/Testing/Temporary/LastTest.log\necho CTest'})
            Path(place, "log").write_text("\n".join(log) + "\n")
            done = subprocess.run([Path(place, "script/test"), "--fast"], capture_output=True, text=True, check=False,
                                  env=os.environ | {"PATH": f"{place}/bin:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.splitlines()[-3:], ["CTest", "left out of build/core: ranks.links: no namespaces here",
                                                         "left out of build/core: seen.trace: no other clock: none at all"])


class Dependencies(unittest.TestCase):
    def missing(self, *flags):
        """What is said where some packages are missing, and nobody may install them."""
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o755)
            shutil.copytree(ROOT / "script", Path(place, "script"))
            packages = Path(place, "packages.txt")
            packages.write_text("# build: a comment\n"
                                "build  muster-none-b  # what for\n"
                                "build  dpkg           # is there\n"
                                "data   muster-none-a  # what for\n"
                                "test   muster-none-c  # what for\n")
            done = run_as_somebody([Path(place, "script/dependencies"), "--without-libtorch",
                                    "--packages", packages, *flags])
            self.assertFalse(Path(place, ".deps").exists())
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_says_what_to_install(self):
        said = ("missing Debian packages: {0}\n"
                "install them as root, then run this again:\n"
                "  apt-get install --no-install-recommends {0}\n")
        self.assertEqual(self.missing(), said.format("muster-none-a muster-none-b"))
        self.assertEqual(self.missing("--for", "build test"), said.format("muster-none-b muster-none-c"))


if __name__ == "__main__":
    unittest.main()
