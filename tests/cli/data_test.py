#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`topknot data` on archives made here: nothing is fetched from anywhere."""

import gzip
import hashlib
import io
import json
import os
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

COMMAND = sys.argv.pop(1)
CIFAR10 = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]


def run(*words, path=None):
    env = dict(os.environ)
    if path:
        env["PATH"] = f"{path}:{env['PATH']}"
    return subprocess.run([COMMAND, "data", *map(str, words)], env=env, capture_output=True,
                          text=True, timeout=120, check=False)


def record(label):
    return bytes([label]) + bytes(range(256)) * 12


def cifar_files(label=3):
    return {f"cifar-10-batches-bin/{name}": record(label) * 2 for name in CIFAR10}


def write_tar(path, files, links=()):
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for name, target in links:
            info = tarfile.TarInfo(name)
            info.type = tarfile.SYMTYPE
            info.linkname = target
            tar.addfile(info)
    return path


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.into = self.folder / "sets"

    def refused(self, *words, code=65, said, path=None):
        out = run(*words, path=path)
        self.assertEqual(out.returncode, code, out.stdout + out.stderr)
        self.assertIn(said, out.stderr)
        self.assertEqual(out.stderr.count("topknot: "), 1, out.stderr)
        left = list(self.into.rglob("*")) if self.into.exists() else []
        self.assertEqual(left, [], "something was left behind")

    def program(self, name, script):
        """A program of that name, found before the real one."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        file = folder / name
        file.write_text("#!/bin/sh\n" + script)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return folder


class Listing(Case):
    def test_every_set_is_listed_with_licence_and_size(self):
        out = run("--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        by_name = {one["name"]: one for one in json.loads(out.stdout)["sets"]}
        for name in ("mnist", "fashion-mnist", "cifar10", "cifar100", "imagenet", "wikitext2",
                     "wikipedia-en", "bert-vocab", "an4", "ml-1m", "ml-20m"):
            self.assertTrue(by_name[name]["licence"])
            self.assertGreater(by_name[name]["megabytes"], 0)
        self.assertFalse(by_name["imagenet"]["fetched"])
        plain = run()
        self.assertEqual(plain.returncode, 0)
        for name in by_name:
            self.assertIn(name, plain.stdout)

    def test_an_unknown_name_is_refused_with_the_nearest(self):
        self.refused("cifar11", self.into, code=2, said="nearest is cifar10")

    def test_flags_without_their_company_are_refused(self):
        self.refused("cifar10", self.into, "--unchecked", code=2, said="--from")
        self.refused("--from", "x", code=2, said="name")


class FromAnArchive(Case):
    def archive(self, files=None, links=()):
        files = cifar_files() if files is None else files
        return write_tar(self.folder / "mine.tar.gz", files, links)

    def test_another_hash_is_refused_unless_unchecked(self):
        archive = self.archive()
        digest = hashlib.md5(archive.read_bytes()).hexdigest()
        self.refused("cifar10", self.into, "--from", archive, said=digest)
        self.refused("cifar10", self.into, "--from", archive,
                     said="c32a1d4ab5d03f1284b67883e8d87530; --unchecked takes it")

    def test_a_good_one_is_put_into_its_folder_and_counted(self):
        out = run("cifar10", self.into, "--from", self.archive(), "--unchecked", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        said = json.loads(out.stdout)
        self.assertEqual(said["contents"],
                         {"training images": 10, "test images": 2, "classes": 10})
        self.assertFalse(said["was_there"])
        self.assertEqual(sorted(p.name for p in self.into.iterdir()), ["cifar-10-batches-bin"])
        again = run("cifar10", self.into)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("already in", again.stdout)
        self.assertIn("Licence: ", again.stdout)

    def test_what_is_there_but_broken_is_said_and_left_alone(self):
        run("cifar10", self.into, "--from", self.archive(), "--unchecked")
        file = self.into / "cifar-10-batches-bin/data_batch_3.bin"
        file.write_bytes(b"short")
        out = run("cifar10", self.into)
        self.assertEqual(out.returncode, 65)
        self.assertIn("data_batch_3.bin", out.stderr)
        self.assertIn("to prepare it anew", out.stderr)
        self.assertEqual(file.read_bytes(), b"short")

    def test_an_archive_that_climbs_out_is_not_unpacked(self):
        for name in ("cifar-10-batches-bin/../../evil", "/tmp/evil", "evil"):
            archive = self.archive({**cifar_files(), name: b"x"})
            self.refused("cifar10", self.into, "--from", archive, "--unchecked",
                         said="nothing was unpacked")

    def test_a_link_in_an_archive_is_refused(self):
        archive = self.archive(links=[("cifar-10-batches-bin/link", "/etc")])
        self.refused("cifar10", self.into, "--from", archive, "--unchecked",
                     said="neither file nor folder")

    def test_an_archive_that_lacks_a_file_is_refused(self):
        files = cifar_files()
        del files["cifar-10-batches-bin/data_batch_4.bin"]
        self.refused("cifar10", self.into, "--from", self.archive(files), "--unchecked",
                     said="lacks cifar-10-batches-bin/data_batch_4.bin")

    def test_a_label_out_of_range_is_found_before_anything_is_put_in_place(self):
        self.refused("cifar10", self.into, "--from", self.archive(cifar_files(label=10)),
                     "--unchecked", said="label 10")

    def test_the_python_version_is_refused_with_the_cure(self):
        archive = self.archive({"cifar-10-batches-py/data_batch_1": b"\x80\x02"})
        self.refused("cifar10", self.into, "--from", archive, "--unchecked",
                     said="take the binary version")

    def test_what_is_no_archive_is_refused(self):
        file = self.folder / "mine.tar.gz"
        file.write_bytes(b"not gzip at all")
        self.refused("cifar10", self.into, "--from", file, "--unchecked",
                     said="tar cannot unpack it")
        self.refused("cifar10", self.into, "--from", self.folder / "none", said="no such file")
        self.refused("cifar10", self.into, "--from", self.folder, said="is a folder")

    def test_a_folder_that_cannot_be_made_is_the_disks_fault(self):
        blocked = self.folder / "file"
        blocked.write_text("")
        self.refused("cifar10", blocked / "below", "--from", self.archive(), "--unchecked",
                     code=74, said="cannot be made")


class FromFiles(Case):
    def write_idx(self):
        folder = self.folder / "mine"
        folder.mkdir()
        for half, count in (("train", 4), ("t10k", 2)):
            images = struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28) + bytes(784 * count)
            labels = struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(range(count))
            (folder / f"{half}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
            (folder / f"{half}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
        return folder

    def test_a_set_of_several_files_is_taken_from_a_folder(self):
        folder = self.write_idx()
        out = run("mnist", self.into, "--from", folder, "--unchecked", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(json.loads(out.stdout)["contents"]["training images"], 4)

    def test_a_file_of_several_or_a_missing_one_is_refused(self):
        folder = self.write_idx()
        self.refused("mnist", self.into, "--from", folder / "train-images-idx3-ubyte.gz",
                     said="is 4 files")
        (folder / "t10k-labels-idx1-ubyte.gz").unlink()
        self.refused("mnist", self.into, "--from", folder, "--unchecked",
                     said="t10k-labels-idx1-ubyte.gz: there is no such file")


class OtherDomains(Case):
    def zipped(self, files):
        archive = self.folder / "mine.zip"
        with zipfile.ZipFile(archive, "w") as out:
            for name, text in files.items():
                out.writestr(name, text)
        return archive

    def contents(self, name, archive):
        out = run(name, self.into, "--from", archive, "--unchecked", "--json")
        self.assertEqual(out.returncode, 0, out.stderr)
        return json.loads(out.stdout)["contents"]

    def test_words_from_a_zip(self):
        archive = self.zipped({f"wikitext-2/wiki.{part}.tokens": " a b \n c \n"
                               for part in ("train", "valid", "test")})
        self.assertEqual(self.contents("wikitext2", archive),
                         {"training words": 5, "validation words": 5, "test words": 5,
                          "different words": 4})

    def test_a_word_outside_the_vocabulary(self):
        texts = {"train": "a\n", "valid": "a\n", "test": "b\n"}
        archive = self.zipped({f"wikitext-2/wiki.{part}.tokens": text
                               for part, text in texts.items()})
        self.refused("wikitext2", self.into, "--from", archive, "--unchecked",
                     said='"b", which is not in the vocabulary')

    def test_ratings_from_a_zip(self):
        lines = [f"{user}::{user + 200 * when}::5::{when}\n"
                 for user in range(1, 121) for when in (0, 1)]
        files = {"ml-1m/README": "", "ml-1m/ratings.dat": "".join(lines)}
        self.assertEqual(self.contents("ml-1m", self.zipped(files)),
                         {"training ratings": 120, "users": 120, "items": 240})
        files["ml-1m/movies.dat"] = "1::Film::Drama\n"
        out = run("ml-1m", self.folder / "more", "--from", self.zipped(files), "--unchecked")
        self.assertEqual(out.returncode, 65)
        self.assertIn("which movies.dat has not", out.stderr)

    def test_a_zip_that_climbs_out_or_has_a_link_is_refused(self):
        good = {"ml-1m/ratings.dat": "1::2::3::4\n"}
        self.refused("ml-1m", self.into, "--from", self.zipped({**good, "../evil": "x"}),
                     "--unchecked", said="nothing was unpacked")
        archive = self.zipped(good)
        with zipfile.ZipFile(archive, "a") as out:
            link = zipfile.ZipInfo("ml-1m/link")
            link.create_system = 3
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            out.writestr(link, "/etc")
        self.refused("ml-1m", self.into, "--from", archive, "--unchecked",
                     said="neither file nor folder")

    def test_speech_from_a_tar(self):
        samples = struct.pack("<1600h", *range(1600))
        wave = (b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt " +
                struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16) + b"data" +
                struct.pack("<I", len(samples)) + samples)
        files = {}
        for half in ("train", "test"):
            files[f"an4/etc/an4_{half}.fileids"] = f"{half}/one\n".encode()
            files[f"an4/etc/an4_{half}.transcription"] = b"<s> ONE </s> (one)\n"
            files[f"an4/wav/{half}/one.wav"] = wave
        archive = write_tar(self.folder / "mine.tar.gz", files)
        self.assertEqual(self.contents("an4", archive),
                         {"training utterances": 1, "test utterances": 1, "seconds": 0})
        files["an4/wav/test/one.wav"] = wave[:-10]
        archive = write_tar(self.folder / "mine.tar.gz", files)
        out = run("an4", self.folder / "more", "--from", archive, "--unchecked")
        self.assertEqual(out.returncode, 65)
        self.assertIn("cut short", out.stderr)

    def test_a_vocabulary_is_a_file_of_its_own(self):
        file = self.folder / "words"
        file.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
        self.assertEqual(self.contents("bert-vocab", file), {"word pieces": 6})


class Fetching(Case):
    def test_curl_is_asked_for_the_official_address_and_what_comes_is_hashed(self):
        path = self.program("curl", f'echo "$@" >{self.folder}/asked\n'
                            'while [ "$1" != --output ]; do shift; done; echo junk >"$2"\n')
        self.refused("cifar10", self.into, path=path, said="damaged on the way")
        asked = (self.folder / "asked").read_text()
        self.assertIn("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", asked)

    def test_a_failed_fetch_says_what_to_do(self):
        path = self.program("curl", "exit 6\n")
        self.refused("cifar100", self.into, path=path, said="--from FILE")

    def test_what_cannot_be_fetched_says_how_to_get_it(self):
        self.refused("wikipedia-en", self.into, said="run WikiExtractor")
        self.refused("imagenet", self.into, said="register at https://image-net.org")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # with the reasons of what is skipped
