#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the sources to the rules of the tree: one line per violation, exit code 1 if any.

    cli -> train -> job, sim -> engine, data, store -> catalog
        -> collectives, compressors, transports, memory -> core -> include/topknot

Includes point downward only, and the folders between two arrows are blind to each other.
Every outside library has one home. Below cli nothing prints, reads the environment or ends
the process; below engine only transports start threads. collectives/ and compressors/ hold
one .cc for each algorithm; what collectives share is in collectives/primitives/. Every source
opens with its licence and is ASCII. A file over 400 lines is worth a warning.

    check_layers.py [ROOT]
"""

import re
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

# Bottom first. The sources directly in src/ are the catalog, and params with it.
LAYERS = [
    ["topknot"],
    ["core"],
    ["collectives", "compressors", "transports", "memory"],
    ["catalog"],
    ["engine", "data", "store"],
    ["job", "sim"],
    ["train"],
    ["cli"],
]
LEVEL = {folder: level for level, folders in enumerate(LAYERS) for folder in folders}

# Where an outside header may be included: the beginnings of paths.
HOMES = {
    r"mpi\.h": ["src/transports/mpi/"],
    r"hwy/.*": ["src/core/"],
    r"xxhash\.h": ["src/core/"],
    r"(CLI|fmt|toml\+\+)/.*": ["src/cli/"],
    r"nlohmann/.*": ["src/cli/", "src/store/"],
    r"(torch|c10|ATen)/.*": ["src/train/", "src/transports/c10d/"],
    r"zlib\.h|jpeglib\.h|jerror\.h|turbojpeg\.h|sndfile\.h|utf8proc\.h": ["src/data/"],
    # The operating system is for whoever talks to networks, files or threads.
    r"(unistd|fcntl|dirent|spawn|signal|sched|pthread|semaphore|poll|netdb|ifaddrs|dlfcn)\.h"
    r"|(sys|net|netinet|arpa|linux)/.*": [
        "src/transports/", "src/engine/", "src/data/", "src/store/", "src/train/", "src/cli/",
    ],
}

# Folders whose own files are algorithms, one .cc each; headers stand in a folder below.
ALGORITHMS_IN = {"src/collectives", "src/compressors"}

NO_THREADS_IN = {"topknot", "core", "collectives", "compressors", "memory", "catalog"}
PRINTS = re.compile(
    r"\b(?:std::(?:cout|cerr|clog|wcout|wcerr|print|println)"
    r"|(?:v?f?printf|f?puts|f?putc|putchar|perror)\s*\(|std(?:out|err)\b)")
ENVIRONMENT = re.compile(r"\b(?:(?:secure_)?getenv|setenv|putenv|unsetenv|environ)\b")
ENDS = re.compile(r"\b(?:abort|assert|exit|_exit|_Exit|quick_exit|terminate)\s*\(")
THREADS = re.compile(r"\bstd::(?:j?thread\b(?!::)|async\b)|\bpthread_create\b")

SOURCES_IN = ["include", "src", "tests", "bench", "examples", "python", "cmake", "scripts"]
SOURCE_NAMES = {"CMakeLists.txt", "run", "setup"}
SOURCE_SUFFIXES = {".h", ".cc", ".def", ".py", ".pyi", ".cmake", ".sh"}
LONG = 400

CPP_TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)'
    r'|(?P<string>R"(?P<delimiter>[^()\\\s]*)\(.*?\)(?P=delimiter)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])')",
    re.DOTALL)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]*)"|<([^>\n]*)>|(\S+))', re.MULTILINE)


class Finding(NamedTuple):
    path: str
    line: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.sentence}"


def without_comments(text: str, strings: bool) -> str:
    """`text` with comments (and strings unless `strings`) blanked, line numbers unchanged."""

    def blank(match: re.Match) -> str:
        if match["string"] and strings:
            return match[0]
        return " " + "\n" * match[0].count("\n")

    return CPP_TOKEN.sub(blank, text)


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def folder_of(path: str) -> str:
    """The layer that a path below include/ or src/ belongs to."""
    parts = path.split("/")
    if parts[0] == "include":
        return parts[1]
    return parts[1] if len(parts) > 2 else "catalog"


def check_place(path: str) -> Iterator[Finding]:
    folder, _, name = path.rpartition("/")
    if folder in ALGORITHMS_IN and not name.endswith(".cc"):
        yield Finding(path, 1, f"{folder}/ holds one .cc for each algorithm and nothing else")


def check_own_include(folder: str, target: str) -> str | None:
    """What is wrong when a file of `folder` includes our file `target`, if anything."""
    if target.endswith(".cc"):
        return f'includes "{target}": a .cc file is nobody\'s business but its own'
    other = folder_of(target)
    if other not in LEVEL:
        return f'includes "{target}", which has no place among the layers'
    if other == folder or LEVEL[other] < LEVEL[folder]:
        return None
    if LEVEL[other] == LEVEL[folder]:
        return f'includes "{target}": {folder}/ and {other}/ are blind to each other'
    return f'includes "{target}": {folder}/ lies below {other}/, and includes point downward'


def check_outside_include(path: str, folder: str, name: str) -> str | None:
    """What is wrong when `path` includes <`name`>, if anything."""
    if name == "iostream" and folder != "cli":
        return "includes <iostream>: only cli/ prints"
    if "." not in name and "/" not in name:
        return None  # the standard library
    if folder == "topknot":
        return f"includes <{name}>: public headers include the standard library and topknot/ only"
    for pattern, homes in HOMES.items():
        if re.fullmatch(pattern, name):
            if any(path.startswith(home) for home in homes):
                return None
            return f"includes <{name}>: its home is {', '.join(homes)}"
    return f"includes <{name}>: an outside header without a home (HOMES in check_layers.py)"


def check_includes(root: Path, path: str, text: str) -> Iterator[Finding]:
    folder = folder_of(path)
    code = without_comments(text, strings=True)
    for match in INCLUDE.finditer(code):
        quoted, angled, computed = match.groups()
        name = quoted or angled
        line = line_of(code, match.start())
        if computed:
            sentence = f"includes {computed}: an include is a plain name"
        elif ".." in name.split("/"):
            sentence = f'includes "{name}": paths start at src/ or include/'
        else:
            own = [base + name for base in ("include/", "src/") if (root / (base + name)).is_file()]
            if own:
                sentence = check_own_include(folder, own[0])
            elif quoted and not any(re.fullmatch(pattern, name) for pattern in HOMES):
                sentence = f'includes "{name}", which is neither in src/ nor in include/'
            else:
                sentence = check_outside_include(path, folder, name)
        if sentence:
            yield Finding(path, line, sentence)


def check_calls(path: str, text: str) -> Iterator[Finding]:
    folder = folder_of(path)
    if folder == "cli":
        return
    code = without_comments(text, strings=False)
    rules = [
        (PRINTS, "only cli/ prints"),
        (ENVIRONMENT, "only cli/ reads the environment"),
        (ENDS, "the library never ends the process: throw ContractError"),
    ]
    if folder in NO_THREADS_IN:
        rules.append((THREADS, "below engine/ only transports start threads"))
    for pattern, why in rules:
        for match in pattern.finditer(code):
            yield Finding(path, line_of(code, match.start()), f"{match[0].rstrip(' (')}: {why}")


def check_head_and_letters(path: str, text: str) -> Iterator[Finding]:
    lines = text.split("\n")
    first = 1 if lines[0].startswith("#!") else 0
    if not re.fullmatch(r"(//|#) SPDX-License-Identifier: Apache-2\.0",
                        lines[first] if first < len(lines) else ""):
        yield Finding(path, first + 1, "does not open with the SPDX line of Apache-2.0")
    if path.endswith(".h") and "\n#pragma once\n" not in text:
        yield Finding(path, 1, "has no #pragma once")
    for number, line in enumerate(lines, 1):
        if not line.isascii():
            yield Finding(path, number, "is not ASCII")


def sources(root: Path) -> Iterator[str]:
    found = [root / name for name in ("CMakeLists.txt", "run") if (root / name).is_file()]
    for top in SOURCES_IN:
        found += (file for file in (root / top).rglob("*") if file.is_file())
    for file in sorted(found):
        if file.name in SOURCE_NAMES or file.suffix in SOURCE_SUFFIXES:
            yield file.relative_to(root).as_posix()


def check(root: Path) -> tuple[list[Finding], list[str]]:
    """All violations below `root`, and warnings."""
    findings: list[Finding] = []
    warnings: list[str] = []
    for path in sources(root):
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        findings += check_head_and_letters(path, text)
        if text.count("\n") > LONG:
            warnings.append(f"{path}: {text.count(chr(10))} lines; over {LONG} is hard to read")
        if not path.startswith(("include/", "src/")) or path.endswith(".txt"):
            continue
        if folder_of(path) not in LEVEL:
            findings.append(Finding(path, 1, f"{folder_of(path)}/ has no place among the layers"))
            continue
        findings += check_place(path)
        findings += check_includes(root, path, text)
        findings += check_calls(path, text)
    return findings, warnings


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    findings, warnings = check(root)
    for warning in warnings:
        print(f"warning: {warning}")
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
