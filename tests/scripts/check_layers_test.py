# SPDX-License-Identifier: Apache-2.0
"""Every kind of violation is caught, where it is; and what is allowed is let through."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_layers  # noqa: E402

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
HEADERS = [
    "include/topknot/sparse.h",
    "src/core/select.h",
    "src/collectives/primitives/exchange.h",
    "src/memory/moment.h",
    "src/transports/network.h",
    "src/engine/bucket.h",
    "src/data/idx.h",
    "src/job/keys.h",
    "src/sim/replay.h",
    "src/train/loop.h",
    "src/cli/print.h",
]


class LayersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        for header in HEADERS:
            cls.write(header, SPDX + "#pragma once\n")
        cls.write("src/catalog.def", SPDX)

    @classmethod
    def write(cls, path: str, text: str) -> None:
        (cls.root / path).parent.mkdir(parents=True, exist_ok=True)
        (cls.root / path).write_text(text, encoding="utf-8")

    def findings(self, path: str, text: str) -> list[str]:
        """What is found in a tree of the headers above and one more file, without its path."""
        self.write(path, text)
        found, self.warnings = check_layers.check(self.root)
        (self.root / path).unlink()
        for finding in found:
            self.assertEqual(finding.path, path)
        return [f"{finding.line}: {finding.sentence}" for finding in found]

    def findings_in_body(self, path: str, body: str) -> list[str]:
        once = "#pragma once\n" if path.endswith(".h") else ""
        return self.findings(path, SPDX + once + body)

    def assert_allowed(self, path: str, body: str) -> None:
        self.assertEqual(self.findings_in_body(path, body), [])

    def assert_caught(self, path: str, body: str, *words: str) -> None:
        found = self.findings_in_body(path, body)
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    # ---- the direction of includes

    def test_downward_includes_are_allowed(self):
        for path, header in [
            ("src/core/a.cc", "topknot/sparse.h"),
            ("src/collectives/a.cc", "collectives/primitives/exchange.h"),
            ("src/collectives/primitives/a.cc", "collectives/primitives/exchange.h"),
            ("src/collectives/a.cc", "core/select.h"),
            ("src/core/wire/a.cc", "core/select.h"),
            ("src/catalog.cc", "catalog.def"),
            ("src/catalog.cc", "collectives/primitives/exchange.h"),
            ("src/engine/a.cc", "core/select.h"),
            ("src/sim/a.cc", "transports/network.h"),
            ("src/job/a.cc", "engine/bucket.h"),
            ("src/job/a.cc", "core/select.h"),
            ("src/train/a.cc", "data/idx.h"),
            ("src/train/tasks/a.cc", "job/keys.h"),
            ("src/cli/a.cc", "job/keys.h"),
            ("src/cli/command/a.cc", "train/loop.h"),
            ("src/cli/a.cc", "sim/replay.h"),
            ("src/cli/a.cc", "train/loop.h"),
        ]:
            with self.subTest(path=path, header=header):
                self.assert_allowed(path, f'#include "{header}"\n')

    def test_upward_includes_are_caught(self):
        for path, header in [
            ("include/topknot/a.h", "core/select.h"),
            ("src/core/a.cc", "collectives/primitives/exchange.h"),
            ("src/core/wire/a.cc", "collectives/primitives/exchange.h"),
            ("src/collectives/primitives/a.cc", "engine/bucket.h"),
            ("src/memory/a.cc", "catalog.def"),
            ("src/collectives/a.cc", "engine/bucket.h"),
            ("src/catalog.cc", "engine/bucket.h"),
            ("src/params.cc", "data/idx.h"),
            ("src/engine/a.cc", "sim/replay.h"),
            ("src/store/a.cc", "train/loop.h"),
            ("src/engine/a.cc", "job/keys.h"),
            ("src/job/a.cc", "train/loop.h"),
            ("src/sim/a.cc", "train/loop.h"),
            ("src/train/a.cc", "cli/print.h"),
        ]:
            with self.subTest(path=path, header=header):
                self.assert_caught(path, f'#include "{header}"\n', header, "downward")

    def test_siblings_are_blind_to_each_other(self):
        for path, header in [
            ("src/collectives/a.cc", "memory/moment.h"),
            ("src/compressors/a.cc", "collectives/primitives/exchange.h"),
            ("src/memory/a.cc", "transports/network.h"),
            ("src/engine/a.cc", "data/idx.h"),
            ("src/store/a.cc", "engine/bucket.h"),
            ("src/sim/a.cc", "job/keys.h"),
        ]:
            with self.subTest(path=path, header=header):
                self.assert_caught(path, f'#include "{header}"\n', header, "blind")

    def test_includes_are_rooted_and_plain(self):
        self.assert_caught("src/core/a.cc", '#include "select.h"\n', "neither in src/ nor")
        self.assert_caught("src/core/a.cc", '#include "../core/select.h"\n', "start at src/")
        self.assert_caught("src/core/a.cc", "#include SOME_HEADER\n", "SOME_HEADER")

    def test_a_source_file_is_not_included(self):
        self.assert_caught("src/catalog.cc", '#include "catalog.cc"\n', "nobody's business")

    def test_angle_brackets_are_no_way_around(self):
        self.assert_caught("src/core/a.cc", "#include <collectives/primitives/exchange.h>\n", "downward")

    def test_a_new_folder_needs_a_place(self):
        self.assert_caught("src/util/a.cc", "", "util/ has no place")
        self.assert_caught("include/other/a.h", "", "other/ has no place")

    def test_an_algorithm_is_one_file_without_a_header(self):
        self.assert_allowed("src/collectives/a.cc", "")
        self.assert_allowed("src/collectives/primitives/a.h", "")
        self.assert_caught("src/collectives/a.h", "", "one .cc for each algorithm")
        self.assert_caught("src/compressors/a.h", "", "one .cc for each algorithm")

    def test_the_line_is_named(self):
        body = '/* two\nlines */\n#include <vector>\n  #  include "engine/bucket.h"\n'
        self.assert_caught("src/core/a.cc", body, "5: ")

    # ---- outside libraries

    def test_each_outside_library_has_one_home(self):
        for header, home, elsewhere in [
            ("mpi.h", "src/transports/mpi/mpi.cc", "src/transports/metered.cc"),
            ("hwy/highway.h", "src/core/select.cc", "src/compressors/topk.cc"),
            ("xxhash.h", "src/core/hash.cc", "src/transports/mpi/mpi.cc"),
            ("CLI/CLI.hpp", "src/cli/command/main.cc", "src/engine/a.cc"),
            ("toml++/toml.h", "src/cli/command/main.cc", "src/params.cc"),
            ("nlohmann/json.hpp", "src/cli/command/main.cc", "src/sim/replay.cc"),
            ("nlohmann/json.hpp", "src/store/container.cc", "src/engine/a.cc"),
            ("fmt/format.h", "src/cli/command/main.cc", "src/train/loop.cc"),
            ("torch/torch.h", "src/train/loop.cc", "src/cli/command/main.cc"),
            ("torch/torch.h", "src/train/tasks/images.cc", "src/job/check.cc"),
            ("c10/util/intrusive_ptr.h", "src/transports/c10d/c10d.cc", "src/transports/mpi/mpi.cc"),
            ("zlib.h", "src/data/idx.cc", "src/store/a.cc"),
            ("sys/socket.h", "src/transports/a.cc", "src/collectives/a.cc"),
        ]:
            with self.subTest(header=header):
                self.assert_allowed(home, f"#include <{header}>\n")
                self.assert_caught(elsewhere, f"#include <{header}>\n", header, "home is")
                self.assert_caught(elsewhere, f'#include "{header}"\n', header, "home is")

    def test_an_unknown_library_needs_a_home(self):
        self.assert_caught("src/core/a.cc", "#include <boost/asio.hpp>\n", "without a home")
        self.assert_caught("src/core/a.cc", "#include <immintrin.h>\n", "without a home")

    def test_public_headers_know_the_standard_library_only(self):
        self.assert_allowed("include/topknot/a.h", '#include <span>\n#include "topknot/sparse.h"\n')
        for header in ["mpi.h", "unistd.h", "hwy/base.h", "stdint.h"]:
            with self.subTest(header=header):
                self.assert_caught("include/topknot/a.h", f"#include <{header}>\n", "public headers")

    # ---- what the library does not do

    def test_only_the_command_prints(self):
        for call in [
            'std::cout << "x";', "std::cerr << 1;", 'printf("x");', 'std::printf("x");',
            'fprintf(log, "x");', 'puts("x");', 'perror("x");', "fwrite(p, 1, n, stdout);",
        ]:
            with self.subTest(call=call):
                self.assert_caught("src/engine/a.cc", f"void f() {{ {call} }}\n", "only cli/ prints")
                self.assert_allowed("src/cli/a.cc", f"void f() {{ {call} }}\n")
        self.assert_caught("src/train/a.cc", "#include <iostream>\n", "only cli/ prints")
        self.assert_allowed("src/cli/a.cc", "#include <iostream>\n")
        self.assert_allowed("src/core/a.cc", 'void f() { std::snprintf(p, n, "x"); }\n')

    def test_only_the_command_reads_the_environment(self):
        for call in ['std::getenv("HOME")', 'getenv("HOME")', 'setenv("A", "b", 1)']:
            with self.subTest(call=call):
                self.assert_caught("src/sim/a.cc", f"auto x = {call};\n", "environment")
                self.assert_allowed("src/cli/a.cc", f"auto x = {call};\n")

    def test_the_library_never_ends_the_process(self):
        for call in ["abort()", "std::abort()", "exit(1)", "_exit(1)", "std::terminate()", "assert(x)"]:
            with self.subTest(call=call):
                self.assert_caught("include/topknot/a.h", f"inline void f() {{ {call}; }}\n",
                                   "never ends")
        self.assert_allowed("src/core/a.cc", "static_assert(true);\n")

    def test_only_transports_and_the_engine_start_threads(self):
        for call in ["std::thread t(f);", "std::jthread t(f);", "auto x = std::async(f);"]:
            with self.subTest(call=call):
                self.assert_caught("src/collectives/a.cc", call + "\n", "start threads")
                self.assert_allowed("src/transports/a.cc", call + "\n")
                self.assert_allowed("src/engine/a.cc", call + "\n")
        self.assert_allowed("src/core/a.cc", "auto x = std::this_thread::get_id();\n")

    def test_comments_and_strings_may_name_anything(self):
        self.assert_allowed("src/core/a.cc", """\
// std::cout << 1; abort();
/* #include "engine/bucket.h"
#include <mpi.h> */
const char* a = "call abort() or \\"exit(1)\\"";
const char* b = R"(getenv("x"))";
const char c = '"';
const int d = 1'000'000;
""")

    def test_code_after_a_string_is_still_seen(self):
        self.assert_caught("src/core/a.cc", "char c = '\"'; void f() { abort(); }\n", "abort")
        self.assert_caught("src/core/a.cc", 'auto s = "//"; void f() { abort(); }\n', "abort")

    # ---- the head of a file, and its letters

    def test_the_first_line_is_the_licence(self):
        for head in ["", "// Copyright\n", "\n" + SPDX, SPDX.replace("Apache-2.0", "MIT")]:
            for path in ["src/core/a.cc", "tests/a_test.cc"]:
                with self.subTest(path=path, head=head):
                    found = self.findings(path, head + "int x;\n")
                    self.assertEqual(len(found), 1, found)
                    self.assertIn("SPDX", found[0])
        spdx = SPDX.replace("//", "#")
        self.assertEqual(self.findings("scripts/a.py", "#!/usr/bin/env python3\n" + spdx), [])
        self.assertEqual(self.findings("tests/a.cmake", spdx), [])

    def test_headers_are_guarded(self):
        found = self.findings("src/core/a.h", SPDX + "int x;\n")
        self.assertEqual(found, ["1: has no #pragma once"])

    def test_sources_are_ascii(self):
        self.assert_caught("src/core/a.cc", "// caf\u00e9\n", "2: is not ASCII")
        self.assert_caught("tests/core/a_test.cc", "int x;\n// \u2192\n", "3: is not ASCII")

    def test_long_files_are_warned_about(self):
        self.assert_allowed("src/core/a.cc", "\n" * 399)
        self.assertEqual(self.warnings, [])
        self.assert_allowed("src/core/a.cc", "\n" * 400)
        self.assertEqual(len(self.warnings), 1)
        self.assertIn("401 lines", self.warnings[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)  # with the reasons of what is skipped
