#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What helps a person at the command line: help, lists, completion, versions, near names, colour.

    help_test.py COMMAND

Every command is found by the help of the one above it, so a new one is held to the same rules.
"""

import functools
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMMAND = sys.argv.pop(1)
CLEAN = {k: v for k, v in os.environ.items()
         if not k.startswith(("OMPI_", "PMI", "SLURM", "TOPKNOT_")) and k != "NO_COLOR"}
COLUMNS, LINES = 100, 50


def run(*words, **more):
    return subprocess.run([COMMAND, *words], env=CLEAN, capture_output=True, text=True,
                          timeout=60, check=False, **more)


def at_a_terminal(*words, env=None):
    """What the command prints where both outputs are a terminal."""
    master, slave = pty.openpty()
    done = subprocess.Popen([COMMAND, *words], env={**CLEAN, "TERM": "xterm", **(env or {})},
                            stdout=slave, stderr=slave, stdin=slave)
    os.close(slave)
    said = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        said += part
    done.wait(timeout=60)
    os.close(master)
    return said.decode()


@functools.cache
def page_of(words):
    return run(*words, "--help").stdout


@functools.cache
def subcommands(path=()):
    """The words of every command, by the pages that list them."""
    found = re.search(r"^Commands:\n((?:  .*\n)+)", page_of(path), re.MULTILINE)
    names = re.findall(r"^  (\S+)", found.group(1), re.MULTILINE) if found else []
    return [words for name in names
            for words in ((*path, name), *subcommands((*path, name)))]


class Help(unittest.TestCase):
    def test_every_page_fits_a_screen_and_ends_with_two_examples(self):
        commands = [(), *subcommands()]
        self.assertIn(("bench", "allreduce"), commands)
        self.assertGreaterEqual(len(commands), 11)
        for words in commands:
            name = " ".join(("topknot", *words))
            with self.subTest(name):
                out = run(*words, "--help")
                self.assertEqual((out.returncode, out.stderr), (0, ""))
                lines = out.stdout.splitlines()
                self.assertLessEqual(
                    len(lines), LINES, f"`{name} --help` has {len(lines)} lines and a screen {LINES}:"
                    " shorten meanings, or put options that are seldom needed into the group kAlso.")
                wide = [line for line in lines if len(line) > COLUMNS]
                self.assertEqual(wide, [], f"`{name} --help` is wider than {COLUMNS} columns.")
                self.assertEqual(
                    lines[-3:-2], ["Examples:"], f"`{name} --help` does not end with two examples:"
                    " call add_examples(command, \"first\", \"second\") of cli/help.h.")
                for example in lines[-2:]:
                    self.assertRegex(example, r"^  topknot( |$)")
                self.assertRegex(out.stdout, rf"(?m)^Usage: {name}\b")

    def test_examples_name_options_that_there_are(self):
        for words in [(), *subcommands()]:
            for example in page_of(words).splitlines()[-2:]:
                given = example.split(">")[0].split()[1:]
                path = tuple(given[:2])
                page = page_of(path if path in subcommands() else path[:1])
                for option in (word for word in given if word.startswith("--")):
                    self.assertIn(option, page, example)

    def test_there_are_several_ways_to_ask(self):
        self.assertEqual(run().stdout, run("--help").stdout)
        self.assertEqual(run("help").stdout, run("--help").stdout)
        self.assertEqual(run("-h").stdout, run("--help").stdout)
        self.assertEqual(run("help", "train").stdout, run("train", "--help").stdout)
        self.assertEqual(run("help", "bench", "wire").stdout, run("bench", "wire", "--help").stdout)
        self.assertEqual(run("bench").stdout, run("bench", "--help").stdout)
        out = run("help", "trian")
        self.assertEqual(out.returncode, 2)
        self.assertIn("nearest is train", out.stderr)


class Version(unittest.TestCase):
    def test_is_said_short_and_long(self):
        short = run("-V").stdout.strip()
        self.assertRegex(short, r"^\d+\.\d+\.\d+$")
        self.assertEqual(run("--version").stdout.strip(), short)
        self.assertRegex(run("version").stdout, rf"(?m)^topknot +{re.escape(short)}$")
        versions = json.loads(run("version", "--json").stdout)
        self.assertLessEqual({"topknot", "commit", "compiler"}, set(versions))


class NearNames(unittest.TestCase):
    def said(self, *words):
        out = run(*words)
        self.assertEqual(out.returncode, 2, out.stdout)
        self.assertEqual(len(out.stderr.splitlines()), 1, out.stderr)
        return out.stderr

    def test_only_what_is_near_is_suggested(self):
        self.assertIn("; nearest is list (", self.said("lsit"))
        self.assertIn("; there are train, ", self.said("frobnicate"))
        self.assertIn("; nearest is --workers (", self.said("bench", "allreduce", "--worker", "3"))
        self.assertIn("; there are --help, --n,", self.said("bench", "wire", "--zzz", "3"))
        self.assertIn("; nearest are vgg16-cifar10 and vgg16-cifar100 (", self.said("train", "vgg16"))
        self.assertIn("; there are bert-wikipedia", self.said("train", "zzzzzz"))

    def test_a_key_is_found_by_what_it_means(self):
        self.assertIn("; it is called lr (", self.said("train", "--set", "learning_rate=1"))
        self.assertIn("; nearest is batch (", self.said("train", "--set", "batch_size=1"))
        self.assertNotIn("rotate", self.said("train", "--set", "learning_rate=1"))

    def test_hyphen_and_underscore_are_one_letter(self):
        for name in ("adtopk_threshold", "adtopk-threshold"):
            out = run("bench", "select", "--n", "10k", "--steps", "1", "--compressor", name, "--json")
            self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("adtopk-threshold, a scheme", run("list", "adtopk_threshold").stdout)
        self.assertIn("adtopk_threshold, a compressor", run("list", "adtopk-threshold").stdout)


class Words(unittest.TestCase):
    def test_counts_take_units(self):
        for text, count in (("20k", 20000), ("16Ki", 16384), ("0.02M", 20000), ("2e4", 20000)):
            said = json.loads(run("bench", "wire", "--n", text, "--steps", "1", "--json").stdout)
            self.assertEqual(said["n"], count)
        out = run("bench", "wire", "--n", "many")
        self.assertEqual(out.returncode, 2)
        self.assertEqual(out.stderr, "topknot: --n many is not a count; 4096, 64k, 14.7M and 4Mi "
                                     "(4 x 1048576) would be.\n")

    def test_names_take_commas(self):
        out = run("bench", "allreduce", "--workers", "2", "--n", "10k", "--steps", "1", "--collective",
                  "knot:values=bf16,coding=plain,topka,oktopk:tau=3", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        rows = json.loads(out.stdout)["results"]
        self.assertEqual([(row["collective"], row["parameters"]) for row in rows],
                         [("knot", "coding=plain,values=bf16"), ("topka", ""), ("oktopk", "tau=3")])


class List(unittest.TestCase):
    def test_is_a_short_table_of_the_schemes(self):
        lines = run("list").stdout.splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertLessEqual(len(lines), 24)
        names = [line.split()[0] for line in lines if line.startswith("  ")]
        self.assertEqual(names, [one["name"] for one in json.loads(run("list", "--json").stdout)["schemes"]])

    def test_has_every_kind_in_80_columns(self):
        for kind in ("schemes", "collectives", "compressors", "memories", "models", "optimizers",
                     "schedules", "jobs", "data", "keys"):
            lines = run("list", kind).stdout.splitlines()
            self.assertLessEqual(max(map(len, lines)), 80, kind)
            whole = json.loads(run("list", kind, "--json").stdout)[kind]
            names = [line.split()[0] for line in lines[1:] if not line.startswith("   ")]
            self.assertEqual(names, [one["name"] for one in whole])
            said = " ".join(" ".join(lines).split())
            for one in whole:  # wrapped, not cut
                self.assertIn(" ".join(one["summary"].split()), said)

    def test_tells_of_one_with_parameters_cost_and_paper(self):
        said = run("list", "oktopk").stdout
        for part in ("oktopk, a scheme", "oktopk, a collective", "PPoPP 2022", "tau=64", "messages",
                     "6k(P-1)/P"):
            self.assertIn(part, said)
        self.assertLessEqual(max(map(len, said.splitlines())), 80)
        self.assertIn("quickstart, a job", run("list", "quickstart").stdout)
        self.assertIn("momentum=0", run("list", "sgd").stdout)
        out = run("list", "oktopc")
        self.assertEqual((out.returncode, out.stdout), (2, ""))
        self.assertIn("nearest is oktopk.", out.stderr)


class Completion(unittest.TestCase):
    def complete(self, *words):
        return run("complete", *words).stdout.split()

    def test_knows_commands_options_and_values(self):
        self.assertEqual(self.complete("tra"), ["train"])
        self.assertIn("allreduce", self.complete("bench", ""))
        self.assertEqual(self.complete("bench", "allreduce", "--coll"), ["--collective"])
        self.assertEqual(self.complete("train", "--scheme", "okt"), ["oktopk"])
        self.assertEqual(self.complete("train", "quick"), ["quickstart"])
        self.assertEqual(self.complete("train", "quickstart", "--nonfinite", ""), ["abort", "skip"])
        self.assertEqual(self.complete("train", "--set", "lr=1", "bat"), ["batch="])
        self.assertEqual(self.complete("completion", "f"), ["fish"])
        self.assertEqual(self.complete("train", "--out", ""), [])  # the shell's own files

    def test_knows_every_option_of_every_page(self):
        for words in [(), *subcommands()]:
            offered = set(self.complete(*words, "--"))
            for option in re.findall(r"(?<!\S)--[a-z-]+", page_of(words).split("Examples:")[0]):
                if option in ("--from", "--out", "--set", "--record-gradients", "--measure", "--save"):
                    continue  # may be spoken of on another's page
                self.assertIn(option, offered, words)

    def test_bash_and_fish_and_zsh_take_the_scripts(self):
        scripts = {shell: run("completion", shell).stdout for shell in ("bash", "zsh", "fish")}
        with tempfile.TemporaryDirectory() as scratch:
            (Path(scratch) / "topknot").symlink_to(Path(COMMAND).resolve())
            path = {"PATH": scratch + ":" + CLEAN["PATH"]}
            asked = scripts["bash"] + """
COMP_WORDS=(topknot train --scheme okt); COMP_CWORD=3; _topknot; printf '%s\\n' "${COMPREPLY[@]}"
"""
            out = subprocess.run(["bash", "-c", asked], env={**CLEAN, **path}, capture_output=True,
                                 text=True, timeout=60, check=False)
            self.assertEqual((out.stdout, out.stderr), ("oktopk\n", ""))
        for shell in ("zsh", "fish"):
            if shutil.which(shell) is None:
                self.assertIn("complete", scripts[shell])
                continue
            flag = "-n" if shell == "zsh" else "--no-execute"
            done = subprocess.run([shell, flag], input=scripts[shell], text=True, capture_output=True,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("there are bash, zsh and fish", run("completion", "csh").stderr)


class ColourOnATerminal(unittest.TestCase):
    def test_is_there_and_can_be_refused(self):
        self.assertIn("\033[", at_a_terminal("list"))
        self.assertIn("\033[", at_a_terminal("--help"))
        self.assertIn("\033[", at_a_terminal("lsit"))
        for refusal in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            for words in (("list",), ("--help",), ("lsit",)):
                self.assertNotIn("\033[", at_a_terminal(*words, env=refusal))
        self.assertNotIn("\033[", run("list").stdout + run("lsit").stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # with the reasons of what is skipped
