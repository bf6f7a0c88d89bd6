# SPDX-License-Identifier: Apache-2.0
"""What ./run says without building anything."""

import os
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class RunTest(unittest.TestCase):
    def run_script(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([ROOT / "run", *arguments], capture_output=True, text=True, cwd="/",
                              env={**os.environ, "TOPKNOT_SETUP": "OFF"})

    def test_help_names_every_command(self):
        done = self.run_script("help")
        self.assertEqual(done.returncode, 0)
        for command in ["build", "test", "bench", "train", "format", "tidy", "help"]:
            self.assertRegex(done.stdout, rf"(?m)^  {command}\b")
        self.assertEqual(self.run_script().stdout, done.stdout)

    def test_an_unknown_command_is_refused(self):
        done = self.run_script("bild")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'bild'", done.stderr)


if __name__ == "__main__":
    unittest.main()
