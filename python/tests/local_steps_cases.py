# SPDX-License-Identifier: Apache-2.0
"""topknot.LocalSteps: DiLoCo and SparseLoCo."""

import copy
import math
import os
import pathlib

import torch
from cases import gathered, main, rank, refuses, same_bits_everywhere, size
from ddp_cases import Network, batch, flat, flat_grad
from engine_cases import gradient
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from updates_cases import (
    Lion,
    Plain,
    adamw,
    integers,
    residual,
    round_weights,
    sgd,
    train,
)

import topknot


def made(optimizer=sgd, kind=torch.float32, **options):
    """A model and its optimizer, in several buckets."""
    torch.manual_seed(7)
    model = Network().to(kind)
    options = {"bucket_mb": 0.01, "every": 3, **options}
    return model, topknot.LocalSteps(optimizer(model.parameters()), model, **options)


def local_steps_have_the_bits_of_the_trainer():
    """Behind tests/train/local_steps_weights.cc, which writes shapes and weights."""
    folder = pathlib.Path(os.environ["LOCAL_STEPS"])
    for name, options in {
        "diloco": {"scheme": "diloco"},
        "sparseloco": {"scheme": "sparseloco"},
        "nesterov": {"scheme": "topkdsa", "density": 0.1, "outer_momentum": 0.9, "outer_lr": 0.7},
    }.items():
        model = nn.Module()
        for line in (folder / f"{name}.shapes").read_text().splitlines():
            parameter, *shape = line.split()
            value = nn.Parameter(torch.empty([int(one) for one in shape]))
            model.register_parameter(parameter.replace(".", "_"), value)
        for p, parameter in enumerate(model.parameters()):
            parameter.data = gradient(parameter.shape, 99, p, owner=0)
        optimizer = topknot.LocalSteps(
            torch.optim.SGD(model.parameters(), lr=0.25), model, every=3, bucket_mb=0.01, **options
        )
        given = []
        for step in range(12):
            for p, parameter in enumerate(model.parameters()):
                parameter.grad = gradient(parameter.shape, step, p)
            optimizer.step()
            if step % 3 == 2:
                given.append(flat(model))
        expected = torch.frombuffer(
            bytearray((folder / f"{name}.weights").read_bytes()), dtype=torch.float32
        )
        same = torch.cat(given).view(torch.int32) == expected.view(torch.int32)
        assert same.all(), f"{name}: {int((~same).sum())} of {same.numel()} differ"


def diloco_is_its_definition():
    """With torch's SGD outside and AdamW inside, in f64 so that no rounding hides anything."""
    model, optimizer = made(adamw, torch.float64, scheme="diloco")
    agreed = copy.deepcopy(model)
    outer = torch.optim.SGD(agreed.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    twin = copy.deepcopy(model)
    inner = adamw(twin.parameters())
    for step in range(9):
        for one, its in ((model, optimizer), (twin, inner)):
            x, y = batch(step)
            its.zero_grad()
            nn.functional.cross_entropy(one(x.double()), y).backward()
            its.step()
        if step % 3 == 2:
            with torch.no_grad():
                for p, own in zip(agreed.parameters(), twin.parameters(), strict=True):
                    p.grad = sum(gathered(p - own)) / size()
                outer.step()
                twin.load_state_dict(agreed.state_dict())
            torch.testing.assert_close(flat(model), flat(agreed), rtol=1e-4, atol=1e-6)
            assert same_bits_everywhere(flat(model))


def every_kind_keeps_ranks_together_and_trains():
    for optimizer in (sgd, adamw, Lion):
        for options in ({}, {"scheme": "diloco"}, {"scheme": "knot"}, {"delay": 1}):
            model, wrapped = made(optimizer, **options)
            before = flat(model)
            train(model, wrapped, 7)
            assert not same_bits_everywhere(flat(model))
            topknot.end_round(wrapped)
            assert same_bits_everywhere(flat(model)), options
            assert not torch.equal(flat(model), before)
            said = topknot.stats(wrapped)
            assert (said["steps"], said["exchanges"], said["local_steps"]) == (7, 3, 3)
    model, wrapped = made(every=1, scheme="diloco")
    train(model, wrapped, 2)
    assert same_bits_everywhere(flat(model))


def sparseloco_sends_two_bits_of_one_in_64():
    torch.manual_seed(7)
    model = nn.Linear(512, 512, bias=False)
    optimizer = topknot.LocalSteps(sgd(model.parameters()), model, every=2)
    for step in range(8):
        torch.manual_seed(step * size() + rank())
        model.weight.grad = torch.randn(512, 512)
        optimizer.step()
    said = topknot.stats(optimizer)
    assert (said["asked_density"], said["values"]) == (1 / 64, "i2")
    pairs = said["wanted"]
    assert pairs == 4 * 512 * 512 // 64
    assert 8 * said["sent_bytes"] / pairs / (size() - 1) < 12, "bits of a pair"
    assert said["sent_share"] < 1 / 200


def nothing_is_lost_with_or_without_delay():
    """sum of all changes of all ranks = moves applied * P + sum of the residuals."""
    for options in (
        {"scheme": "topka", "density": 0.02},
        {"scheme": "topka", "density": 0.02, "delay": 1},
        {"scheme": "knot", "delay": 1},
        {"memory": "residual", "delay": 1},
        {"scheme": "dense", "delay": 1},
    ):
        model, optimizer = made(lambda p: Plain(p, lr=0.5), **options)
        round_weights(model)
        before = flat(model)
        changes = torch.zeros_like(before)
        for step in range(11):
            integers(model, step)
            changes += 0.5 * flat_grad(model)
            optimizer.step()
            if step == 4:
                topknot.end_round(optimizer)
                assert same_bits_everywhere(flat(model))
        topknot.end_round(optimizer)
        left = sum(gathered(residual(model, optimizer)))
        if options["scheme" if "scheme" in options else "memory"] != "dense":
            assert left.count_nonzero() > left.numel() / 4, "there is little to be lost"
        assert torch.equal((before - flat(model)) * size() + left, sum(gathered(changes)))
        topknot.settle(optimizer)
        assert torch.equal((before - flat(model)) * size(), sum(gathered(changes)))


def a_delayed_mean_comes_a_round_later():
    model, optimizer = made(lambda p: Plain(p, lr=0.5), scheme="dense", density=1, delay=1)
    round_weights(model)
    start, own, all_of_it = flat(model), [], []
    for step in range(9):
        before = flat(model)
        integers(model, step)
        optimizer.step()
        if step % 3 == 0:
            own.append(torch.zeros_like(before))
        own[-1] += 0.5 * flat_grad(model)
        if step % 3 == 2:
            means = [sum(gathered(one)) / size() for one in own[:-1]]
            expected = start - sum(means, torch.zeros_like(start)) - own[-1]
            assert torch.equal(flat(model), expected), f"step {step}"
    topknot.end_round(optimizer)
    assert torch.equal(flat(model), start - sum(sum(gathered(one)) / size() for one in own))


def resumes_to_the_same_bits():
    for optimizer, options in (
        (adamw, {}),
        (sgd, {"scheme": "diloco"}),
        (adamw, {"scheme": "diloco", "delay": 1}),
        (sgd, {"delay": 1}),
    ):
        model, wrapped = made(optimizer, **options)
        train(model, wrapped, 7)
        refuses(topknot.ConfigError, "middle of a round", lambda: topknot.state_dict(wrapped))
        topknot.end_round(wrapped)
        saved = copy.deepcopy(
            (model.state_dict(), wrapped.state_dict(), topknot.state_dict(wrapped))
        )
        assert bool(saved[2]["outer"]) == (options.get("scheme") == "diloco")
        train(model, wrapped, 8, first=7)
        topknot.end_round(wrapped)
        again, other = made(optimizer, **options)
        train(again, other, 4)  # a round under way, and an exchange, are dropped
        again.load_state_dict(saved[0])
        other.load_state_dict(saved[1])
        topknot.load_state_dict(other, saved[2])
        train(again, other, 8, first=7)
        topknot.end_round(other)
        assert torch.equal(flat(again), flat(model)), options
        assert torch.equal(residual(again, other), residual(model, wrapped))
        assert topknot.stats(other)["steps"] == topknot.stats(wrapped)["steps"] == 15


def another_number_of_ranks_goes_on():
    """From twice as many, all of which had the residuals of this rank."""
    model, optimizer = made(sgd, scheme="topka", density=0.02, outer_momentum=0.9, outer_lr=0.5)
    train(model, optimizer, 6)
    mine = topknot.state_dict(optimizer)
    together = topknot.gather_state_dict(optimizer)
    if rank() == 0:
        assert all(torch.equal(one["outer"]["head.weight"], mine["outer"]["head.weight"])
                   for one in together["ranks"])  # fmt: skip
    states = [{**mine, "rank": one, "world_size": 2 * size()} for one in range(2 * size())]
    topknot.load_state_dict(optimizer, states)
    now = topknot.state_dict(optimizer)
    for name, momentum in mine["outer"].items():
        assert torch.equal(now["outer"][name], momentum)
    for key, value in mine["values"].items():
        if key.endswith("/memory.residual"):
            torch.testing.assert_close(now["values"][key], value)
    train(model, optimizer, 3, first=6)
    assert same_bits_everywhere(flat(model))


def a_round_that_is_not_finite_is_dropped():
    for delay in (0, 1):
        model, optimizer = made(sgd, scheme="diloco", delay=delay)
        train(model, optimizer, 3)
        topknot.end_round(optimizer)
        before, outer = flat(model), topknot.state_dict(optimizer)["outer"]
        train(model, optimizer, 2, first=3)
        if rank() == size() - 1:
            with torch.no_grad():
                model.head.weight[0, 0] = math.inf
        train(model, optimizer, 4, first=5)  # the second round is dropped with the first
        topknot.end_round(optimizer)
        if delay == 1:
            assert torch.equal(flat(model), before)
            for name, momentum in topknot.state_dict(optimizer)["outer"].items():
                assert torch.equal(momentum, outer[name])
        assert flat(model).isfinite().all() and same_bits_everywhere(flat(model))
        train(model, optimizer, 3, first=9)
        topknot.end_round(optimizer)
        assert not torch.equal(flat(model), before) and flat(model).isfinite().all()


def bf16_weights_are_the_same_bits():
    for delay in (0, 1):
        model, optimizer = made(adamw, torch.bfloat16, scheme="diloco", delay=delay)
        before = model.head.weight.detach().clone()
        for step in range(8):
            optimizer.zero_grad()
            x, y = batch(step)
            nn.functional.cross_entropy(model(x.bfloat16()).float(), y).backward()
            optimizer.step()
        topknot.end_round(optimizer)
        assert all(same_bits_everywhere(p.detach()) for p in model.parameters())
        assert not torch.equal(model.head.weight, before), "nothing was trained"


def refuses_what_cannot_be():
    model = Network()
    for words, options in (
        ("say every= instead", {"local_steps": 4}),
        ("clip it in the script", {"clip": 1.0}),
        ("outer_lr=0", {"outer_lr": 0}),
        ("outer_momentum=1", {"outer_momentum": 1}),
        ("delay=2", {"delay": 2}),
        ("local_steps=0", {"every": 0}),
        ("There is no scheme", {"scheme": "dilocco"}),
        ("is for gradients", {"memory": "dgc"}),
    ):
        refuses(
            topknot.ConfigError, words,
            lambda o=options: topknot.LocalSteps(sgd(model.parameters()), model, **o),
        )  # fmt: skip
    refuses(topknot.ConfigError, "without DistributedDataParallel",
            lambda: topknot.LocalSteps(sgd(model.parameters()), DDP(model)))  # fmt: skip
    unlike = {"outer_lr": 1 + rank()}
    refuses(topknot.DisagreementError, "outer_lr",
            lambda: topknot.LocalSteps(sgd(model.parameters()), model, **unlike))  # fmt: skip
    _, optimizer = made(scheme="diloco")
    refuses(topknot.ConfigError, "outer optimizer moves", lambda: topknot.settle(optimizer))


if __name__ == "__main__":
    main(globals())
