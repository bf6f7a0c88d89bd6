# SPDX-License-Identifier: Apache-2.0
"""scripts/setup on machines of our making: every tool that it calls is a stand-in."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ["bash", "env", "dirname", "readlink", "awk", "sleep", "cat"]

DPKG_QUERY = """\
for package; do
  case $package in -*|*Status*) continue ;; esac
  case " $ABSENT " in *" $package "*) ;; *) echo "installed $package" ;; esac
done
"""
APT_CACHE = """\
shift
for package; do
  echo "$package:"
  echo "  Installed: (none)"
  case " $UNKNOWN " in *" $package "*) echo "  Candidate: (none)" ;; *) echo "  Candidate: 1" ;; esac
done
"""
PYTHON = """\
if [[ $1 == -c ]]; then exec %s "$@"; fi
case " $* " in *" --dry-run "*) cat "$REPORT" ;; *) exit "${PIP_STATUS:-0}" ;; esac
"""


class SetupTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/setup", self.root / "scripts/setup")
        self.bin = self.root / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.stand_in(self.bin / "dpkg-query", DPKG_QUERY, logged=False)
        self.stand_in(self.bin / "apt-cache", APT_CACHE, logged=False)
        self.stand_in(self.bin / "apt-get", 'exit "${APT_STATUS:-0}"\n')
        self.be_user(0)
        self.stand_in(self.root / ".venv/bin/python", PYTHON % sys.executable)
        for package in ["torch-2.13.0+cpu", "numpy-2.4.6", "pytest-9.2.0",
                        "scikit_build_core-1.1.1", "build-1.3.0", "matplotlib-3.11.2",
                        "lightning-2.6.1", "accelerate-1.12.0", "transformers-5.1.0",
                        "triton-3.9.0"]:
            self.install(package)
        self.offer_wheels(torch=200)

    def stand_in(self, path: Path, body: str, logged: bool = True) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        log = f'[[ $1 == -c ]] || echo "{path.name} $*" >>"$LOG"\n' if logged else ""
        path.write_text(f"#!{shutil.which('bash')}\n{log}{body}")
        path.chmod(0o755)

    def be_user(self, number: int) -> None:
        self.stand_in(self.bin / "id", f"echo {number}\n", logged=False)

    def dist_info(self, package: str) -> Path:
        return self.root / f".venv/lib/python3.11/site-packages/{package}.dist-info"

    def install(self, package: str) -> None:
        self.dist_info(package).mkdir(parents=True)
        (self.dist_info(package) / "INSTALLER").touch()

    def remove(self, package: str) -> None:
        (self.dist_info(package) / "INSTALLER").unlink()

    def offer_wheels(self, **megabytes: int) -> None:
        """What pip would install: packages and their sizes."""
        wheels = []
        for name, size in megabytes.items():
            wheel = self.root / f"{name}.whl"
            with wheel.open("wb") as file:
                file.truncate(size * 10**6)  # sparse: takes no room
            wheels.append({"metadata": {"name": name.replace("_", "-")},
                           "download_info": {"url": wheel.as_uri()}})
        (self.root / "report.json").write_text(json.dumps({"install": wheels}))

    def setup(self, **environment: str) -> tuple[int, str, list[str]]:
        """Exit code, what it said, and the commands that it ran."""
        log = self.root / "log"
        log.write_text("")
        done = subprocess.run(
            [self.root / "scripts/setup"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, cwd="/",
            env={"PATH": str(self.bin), "LOG": str(log), "REPORT": str(self.root / "report.json"),
                 "ABSENT": "", "UNKNOWN": "", **environment})
        return done.returncode, done.stdout, log.read_text().splitlines()

    # ---- packages of the system

    def test_says_and_does_nothing_when_all_is_there(self):
        self.assertEqual(self.setup(), (0, "", []))

    def test_installs_the_packages_that_are_missing(self):
        status, said, ran = self.setup(ABSENT="cmake libhwy-dev")
        self.assertEqual(status, 0)
        self.assertEqual(said, "setup: installing by apt: cmake libhwy-dev\n")
        self.assertEqual(ran, ["apt-get -qq update",
                               "apt-get -qq -y --no-install-recommends install cmake libhwy-dev"])

    def test_uses_sudo_where_not_root(self):
        self.be_user(1000)
        self.stand_in(self.bin / "sudo", 'exec "$@"\n')
        status, _, ran = self.setup(ABSENT="cmake")
        self.assertEqual(status, 0)
        self.assertEqual(ran[0], "sudo apt-get -qq update")
        self.assertIn("sudo env DEBIAN_FRONTEND=noninteractive apt-get", ran[2])

    def test_without_root_and_sudo_says_whom_to_ask(self):
        self.be_user(1000)
        status, said, ran = self.setup(ABSENT="cmake")
        self.assertEqual((status, ran), (1, []))
        self.assertIn('"apt-get install cmake"', said)
        self.assertEqual(said.count("\n"), 1)

    def test_without_apt_says_how_to_go_on(self):
        (self.bin / "apt-get").unlink()
        status, said, _ = self.setup()
        self.assertEqual(status, 1)
        self.assertIn("TOPKNOT_SETUP=OFF", said)
        self.assertIn("libhwy-dev", said)
        self.assertEqual(said.count("\n"), 1)
        self.assertEqual(self.setup(TOPKNOT_SETUP="OFF"), (0, "", []))

    def test_says_what_to_do_when_apt_fails(self):
        status, said, _ = self.setup(ABSENT="cmake", APT_STATUS="100")
        self.assertEqual(status, 1)
        self.assertIn("check the network", said)

    def test_takes_the_optional_packages_that_apt_knows(self):
        _, said, ran = self.setup(ABSENT="clang-16 clang-format-16", UNKNOWN="clang-16")
        self.assertIn("clang-format-16", said)
        self.assertEqual(ran, ["apt-get -qq -y --no-install-recommends install clang-format-16"])
        self.assertEqual(self.setup(ABSENT="clang-16", UNKNOWN="clang-16"), (0, "", []))

    def test_goes_on_without_the_optional_packages_where_it_may_not_install(self):
        self.be_user(1000)
        self.assertEqual(self.setup(ABSENT="clang-16"), (0, "", []))

    # ---- Python packages

    def test_installs_the_python_packages_that_are_missing(self):
        self.remove("numpy-2.4.6")
        status, said, ran = self.setup()
        self.assertEqual((status, ran), (0, ["python -m pip install -qq numpy"]))
        self.assertIn("numpy", said)

    def test_asks_for_one_version_of_torch(self):
        self.remove("torch-2.13.0+cpu")
        self.install("torch-2.12.1")
        status, said, ran = self.setup()
        self.assertEqual(status, 0)
        self.assertEqual(ran[-1], "python -m pip install -qq torch==2.13.0")
        self.assertNotIn("CUDA", said)

    def test_tells_the_size_of_the_cuda_build_before_it_is_fetched(self):
        self.remove("torch-2.13.0+cpu")
        self.offer_wheels(torch=900, nvidia_cublas=1800)
        status, said, ran = self.setup()
        self.assertEqual(status, 0)
        for words in ["CUDA", "2.7 GB", "download.pytorch.org/whl/cpu", "TOPKNOT_TORCH=OFF"]:
            self.assertIn(words, said)
        self.assertEqual(ran[-1], "python -m pip install torch==2.13.0")

    def test_takes_the_frameworks_of_the_adapters_and_no_other_torch(self):
        self.remove("lightning-2.6.1")
        status, said, ran = self.setup()
        self.assertEqual(status, 0)
        self.assertEqual(ran, ["python -m pip install -qq --no-compile torch==2.13.0 lightning"])
        self.assertEqual(said, "setup: installing by pip into .venv, for tests: lightning\n")

    def test_goes_on_without_the_frameworks_that_pip_cannot_get(self):
        self.remove("lightning-2.6.1")
        status, said, _ = self.setup(PIP_STATUS="1")
        self.assertEqual(status, 0)
        self.assertIn("could not install lightning", said)

    def test_goes_on_without_triton_where_pip_cannot_get_it(self):
        self.remove("triton-3.9.0")
        status, said, ran = self.setup(PIP_STATUS="1")
        self.assertEqual(status, 0)
        self.assertEqual(ran, ["python -m pip install -qq --no-compile torch==2.13.0 triton"])
        self.assertIn("could not install triton (see above): the tests of the device kernels", said)

    def test_goes_on_without_torch_when_told_to(self):
        shutil.rmtree(self.root / ".venv")
        self.assertEqual(self.setup(TOPKNOT_TORCH="OFF"), (0, "", []))

    def test_says_what_to_do_when_pip_fails(self):
        self.remove("torch-2.13.0+cpu")
        status, said, _ = self.setup(PIP_STATUS="1")
        self.assertEqual(status, 1)
        self.assertIn("TOPKNOT_TORCH=OFF", said)
        status, said, _ = self.setup(REPORT="/nonexistent")
        self.assertEqual(status, 1)
        self.assertIn("TOPKNOT_TORCH=OFF", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # with the reasons of what is skipped
