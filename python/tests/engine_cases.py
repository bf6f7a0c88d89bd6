# SPDX-License-Identifier: Apache-2.0
"""The package and the C++ engine give the same bits for the same gradients. Started by
test_engine.py, behind tests/engine/engine_means.cc, which writes the engine's means."""

import os
import pathlib

import torch
from cases import main, rank

from topknot import _core
from topknot._buckets import make_buckets
from topknot._options import make_options
from topknot._session import open_session

SHAPES = {  # as in tests/engine/small_model.h
    "conv1.weight": (8, 3, 3, 3),
    "conv1.bias": (8,),
    "conv2.weight": (16, 8, 3),
    "norm.weight": (16,),
    "fc.weight": (10, 40),
    "fc.bias": (10,),
}
STEPS = 5


def gradient(
    shape: tuple[int, ...], step: int, p: int, owner: int | None = None
) -> torch.Tensor:
    i = torch.arange(torch.Size(shape).numel(), dtype=torch.int64)
    owner = rank() if owner is None else owner
    mixed = i * 7919 + owner * 104729 + step * 1299709 + p * 15485863
    whole = (mixed % 1048573 - 524286).float()
    return torch.ldexp(whole, (i * 31 + p) % 24 - 30).view(shape)


def every_scheme_gives_the_bits_of_the_engine():
    folder = pathlib.Path(os.environ["ENGINE_MEANS"])
    for scheme in [entry["name"] for entry in _core.catalog()]:
        options = make_options("test", scheme=scheme, density=0.1, schedule="constant")
        parameters = [
            (name, torch.nn.Parameter(torch.zeros(shape))) for name, shape in SHAPES.items()
        ]
        session = open_session(None, options, sum(p.numel() for _, p in parameters))
        buckets = make_buckets(session.core, parameters, 1700)
        session.core.set_learning_rate(0.1)
        given = []
        for step in range(STEPS):
            for p, (_, parameter) in enumerate(parameters):
                parameter.grad = gradient(parameter.shape, step, p)
            for bucket in buckets:
                bucket.take_gradients()
                last = bucket is buckets[-1]
                bucket.ticket = session.core.reduce(bucket.slot, bucket.flat, last)
            for bucket in buckets:
                bucket.wait()
                bucket.give_gradients()
            given += [parameter.grad.reshape(-1) for _, parameter in parameters]
        expected = torch.frombuffer(
            bytearray((folder / scheme).read_bytes()), dtype=torch.float32
        )
        same = torch.cat(given).view(torch.int32) == expected.view(torch.int32)
        assert same.all(), f"{scheme}: {int((~same).sum())} of {same.numel()} differ"
        session.core.close()


if __name__ == "__main__":
    main(globals())
