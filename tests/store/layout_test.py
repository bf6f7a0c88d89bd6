#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a container the way safetensors is documented, and no other.

    layout_test.py WRITE_CONTAINER
"""

import json
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

FORMATS = {"F64": "d", "F32": "f", "I64": "q", "U64": "Q", "U8": "B"}


def read(path: Path) -> tuple[dict, dict]:
    """Metadata, and (shape, values) by name."""
    file = path.read_bytes()
    (length,) = struct.unpack_from("<Q", file)
    header = json.loads(file[8:8 + length].decode("utf-8"))
    data = file[8 + length:]
    metadata = header.pop("__metadata__", {})
    arrays = {}
    end_before = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        assert begin == end_before, "arrays leave no gap"
        end_before = end
        code = FORMATS[entry["dtype"]]
        count = (end - begin) // struct.calcsize(code)
        arrays[name] = (entry["shape"], list(struct.unpack(f"<{count}{code}", data[begin:end])))
    assert end_before == len(data), "nothing is left over"
    assert length % 8 == 0, "the data is aligned"
    return metadata, arrays


class Layout(unittest.TestCase):
    def test_a_written_container_reads_as_safetensors(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.safetensors"
            subprocess.run([program, str(path)], check=True)
            metadata, arrays = read(path)
        self.assertEqual(metadata, {"format": "pt"})
        self.assertEqual(arrays, {
            "conv.weight": ([2, 3], [0, 0.5, 1, 1.5, 2, 2.5]),
            "bytes": ([3], [1, 2, 3]),
            "count": ([], [-5]),
            "seed": ([2], [1, 2**64 - 1]),
            'caf\u00e9 "quoted"\n': ([], [0.125]),
        })


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main(verbosity=2)  # with the reasons of what is skipped
