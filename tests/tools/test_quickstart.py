"""script/quickstart and script/dependencies say what to do where they cannot begin."""

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
