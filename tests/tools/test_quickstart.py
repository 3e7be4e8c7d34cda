"""script/quickstart says what to do where it cannot begin."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534


class Quickstart(unittest.TestCase):
    def test_in_a_folder_of_somebody_else(self):
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o755)
            project = Path(place, "muster")
            shutil.copytree(ROOT / "script", project / "script")
            os.chmod(project, 0o555)
            other = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
            done = subprocess.run([project / "script/quickstart"], capture_output=True, text=True, check=False,
                                  env=os.environ | {"MUSTER_SCRIPT_STARTED": "0"}, **other)
            os.chmod(project, 0o755)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn(f"{project} cannot be written by", done.stderr)
        self.assertIn("sudo chown", done.stderr)


if __name__ == "__main__":
    unittest.main()
