# SPDX-License-Identifier: Apache-2.0
"""What the tables of ./run bench have in common: how they measure, what they keep, and where it goes.

A table measures by commands, keeps a record in bench/results/, and is made from the record alone: a page
that shows it has a part between `<!-- NAME -->` and `<!-- end -->` for it.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
from typing import Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
RUNS = 5  # of everything that has a spread
RANKS = 4
PAYLOAD = 0.94  # of a line's rate, as TCP over Ethernet leaves it
RATES = {"1gbit": 1e9, "100mbit": 1e8}  # bits a second of scripts/cluster
IDLE = 0.5  # load below which a machine counts as doing nothing else


class Missing(Exception):
    """Something that a table needs is not here; the text says what, and how to get it."""


@dataclasses.dataclass(frozen=True)
class Table:
    name: str
    question: str
    page: str  # in docs/
    minutes: float  # on two idle cores, about
    needs: tuple[str, ...]  # for people, in the list
    measure: Callable[["Bench"], dict]
    parts: Callable[[dict], dict[str, str]]  # "": the part marked NAME; "x": the one marked NAME: x
    pictures: Callable[[dict], dict[str, str]] = lambda results: {}  # file in docs/pictures/: SVG
    timed: bool = True  # whether the machine matters
    records: Callable[[], dict] | None = None  # where there are many, and `parts` gives whole marks


def environment() -> dict[str, str]:
    """Open MPI refuses root otherwise, as in containers."""
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.getuid() == 0 else {}
    return {**os.environ, **as_root}


class Bench:
    """Runs the commands of a table and notes them. `quick` wants sizes that only show that it works."""

    def __init__(self, quick: bool, data: pathlib.Path | None, topknot: pathlib.Path, runs: int = RUNS):
        self.quick = quick
        self.runs = 2 if quick else runs
        self.data = data
        self.program = topknot
        self.commands: list[str] = []

    def run(self, *words) -> str:
        words = [str(word) for word in words]
        command = shlex.join(words).replace(f"{ROOT}/", "")
        if command not in self.commands:
            self.commands.append(command)
        print(f"bench: {command}", file=sys.stderr, flush=True)
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment())
        if done.returncode:
            raise Missing(f"{command} ended with {done.returncode}.")
        return done.stdout

    def json(self, *words):
        text = self.run(*words)
        return json.loads(text[text.index("{"):])  # mpirun may warn on the first lines

    @property
    def topknot(self) -> pathlib.Path:
        if not self.program.exists():
            raise Missing(f"{self.program} is not built: ./run build builds it.")
        return self.program

    @property
    def python(self) -> pathlib.Path:
        """An interpreter that has the package: that of ./run python, or that of its tests."""
        for path in (ROOT / ".venv" / "bin" / "python", ROOT / "build" / "python" / "venv" / "bin" / "python"):
            if path.exists() and not subprocess.run(
                    [path, "-c", "import topknot"], capture_output=True, cwd="/").returncode:
                return path
        raise Missing("no interpreter here can import topknot: ./run python builds the package.")

    @property
    def torch(self) -> pathlib.Path:
        path = ROOT / ".venv" / "bin" / "python"
        if not path.exists():
            raise Missing("there is no torch in .venv: ./run build installs it.")
        return path

    def data_folder(self) -> pathlib.Path:
        if self.data is None:
            raise Missing("it trains on real data: --data DIR names the folder of the data sets, as `topknot data` "
                          "prepares them.")
        return self.data

    @contextlib.contextmanager
    def cluster(self, rate: str, hosts: int = RANKS) -> Iterator[list]:
        """Hosts for as long as the block lasts; gives the words that run a command on all of them."""
        script = ROOT / "scripts" / "cluster"
        root = [] if os.getuid() == 0 else ["sudo"]
        if root and shutil.which("sudo") is None:
            raise Missing("hosts with slow links need root, and there is no sudo.")
        self.run(*root, script, "up", hosts, rate)
        try:
            yield [*root, script, "run"]
        finally:
            self.run(*root, script, "down")

    @contextlib.contextmanager
    def network(self, name: str) -> Iterator[list]:
        """As cluster(), and `loopback`: shared memory of one host."""
        if name == "loopback":
            yield ["mpirun", "-n", RANKS, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", 1]
        else:
            with self.cluster(name) as words:
                yield words


# ---- records


def machine() -> str:
    cpu = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.machine())
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    vectors = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "no AVX2"
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores of {cpu} ({vectors}), {gib:.0f} GiB"


SOURCES = ("src", "include", "python", "bench/*.py", "CMakeLists.txt", "cmake")


def commit() -> str:
    """With a + where what is measured has been changed since; pages and records do not count."""

    def git(*words) -> subprocess.CompletedProcess:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)

    found = git("rev-parse", "--short=7", "HEAD")
    if found.returncode:
        return "unknown"
    return found.stdout.strip() + ("+" if git("diff", "--quiet", "HEAD", "--", *SOURCES).returncode else "")


def measured(table: Table, bench: Bench) -> dict:
    about = {"table": table.name, "commit": commit(), "machine": machine(), "load": round(os.getloadavg()[0], 1)}
    results = table.measure(bench)
    return {**about, "runs": bench.runs, "commands": bench.commands, "results": results}


def record_path(name: str, folder: pathlib.Path) -> pathlib.Path:
    return folder / f"{name}.json"


def write_record(record: dict, folder: pathlib.Path) -> None:
    path = record_path(record["table"], folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(part, path)


def caption(table: Table, record: dict) -> str:
    if not table.timed:
        return f"`./run bench {table.name}`: commit {record['commit']}, the same on every machine.\n"
    idle = "idle" if record["load"] <= IDLE else f"load {record['load']:g}, so not idle"
    runs = record.get("runs", RUNS)
    fewer = "" if runs == RUNS else f" --runs {runs}"
    return f"`./run bench{fewer} {table.name}`: commit {record['commit']}, {record['machine']}, {idle}.\n"


# ---- pages


def put(page: pathlib.Path, text: str, mark: str, part: str) -> str:
    """The text of a page with another part between `<!-- MARK -->` and `<!-- end -->`."""
    place = re.compile(rf"(<!-- {re.escape(mark)} -->\n).*?(<!-- end -->)", re.DOTALL)
    text, count = place.subn(lambda found: f"{found[1]}{part}{found[2]}", text)
    if count != 1:
        raise SystemExit(f"bench: {page} has {count} places for {mark}, marked by <!-- {mark} --> and "
                         "<!-- end -->: it must have one.")
    return text


# ---- how figures are written


def spread(values: list[float], digits: int = 2) -> str:
    """The median, and the range behind it where there are several."""
    text = f"{statistics.median(values):,.{digits}f}"
    if len(values) < 2:
        return text
    return f"{text} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def line_seconds(sent: float, rate: str) -> float:
    """What no exchange of so many bytes a rank can beat on such a link."""
    return 8 * sent / (PAYLOAD * RATES[rate])
