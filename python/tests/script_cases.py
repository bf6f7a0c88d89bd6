# SPDX-License-Identifier: Apache-2.0
"""What scripts do besides: closures, compiled models, loggers."""

import io
import warnings

import torch
from cases import main, rank, refuses, same_bits_everywhere, size
from ddp_cases import Network, backward, batch, flat, train
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import topknot
from topknot._adapter import Adapter


class Twice(torch.optim.SGD):
    """Runs its closure twice in a step."""

    def step(self, closure=None):
        closure()
        return super().step(closure)


def a_closure_runs_before_the_exchange():
    def made(kind=torch.optim.AdamW, **options):
        torch.manual_seed(7)
        model = Network()
        return model, topknot.DistributedOptimizer(
            kind(model.parameters(), lr=0.01), model.named_parameters(), **options
        )

    for options in ({}, {"density": 0.05}, {"exchange": "gradients"}):
        weights = []
        for way in ("plain", "positional", "by name"):
            model, optimizer = made(**options)
            for step in range(5):
                x, y = batch(step)

                def closure():
                    optimizer.zero_grad()
                    loss = nn.functional.cross_entropy(model(x), y)
                    loss.backward()
                    return loss

                if way == "plain":
                    closure()
                    optimizer.step()
                else:
                    given = {"closure": closure} if way == "by name" else {}
                    loss = optimizer.step(*(() if given else (closure,)), **given)
                    assert loss.item() > 0
            weights.append(flat(model))
        assert torch.equal(weights[0], weights[1]) and torch.equal(weights[0], weights[2])
    _, optimizer = made(torch.optim.LBFGS)
    refuses(topknot.ConfigError, "LBFGS runs its closure", lambda: optimizer.step(lambda: 0.0))
    model, optimizer = made(Twice)
    backward(model, 0)
    refuses(topknot.ConfigError, "closure several times", lambda: optimizer.step(lambda: 0.0))


def compiled_models_are_the_models_they_were_made_of():
    names = []
    for wrap in (
        lambda model: DDP(model, bucket_cap_mb=0.01),
        lambda model: torch.compile(DDP(model), backend="aot_eager"),
        lambda model: DDP(torch.compile(model, backend="aot_eager"), bucket_cap_mb=0.01),
    ):
        torch.manual_seed(7)
        model = wrap(Network())
        topknot.attach(model, density=0.05)
        train(model, 4)
        assert topknot.stats(model)["steps"] == 4
        assert same_bits_everywhere(flat(model))
        names.append(set(topknot.state_dict(model)["values"]))
    assert {n for n in names[0] if "residual" in n} == {n for n in names[1] if "residual" in n}
    assert {n for n in names[0] if "residual" in n} == {n for n in names[2] if "residual" in n}
    torch.manual_seed(7)
    model = torch.compile(Network(), backend="aot_eager")
    optimizer = topknot.LocalSteps(torch.optim.AdamW(model.parameters()), model, every=2)
    for step in range(4):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()
    assert same_bits_everywhere(flat(model))
    assert "head.weight/memory.residual" in topknot.state_dict(optimizer)["values"]


class Heard:
    """A logger that has one of the names of a logger's."""

    def __init__(self, name: str) -> None:
        self.said: list = []
        setattr(self, name, lambda *what, **also: self.said.append((what, also)))


def stats_are_logged_in_one_line():
    reduce = topknot.SparseAllreduce(density=0.1)
    reduce(torch.randn(1000))
    numbers = topknot.scalars(reduce)
    assert numbers["topknot/exchanges"] == 1 and numbers["topknot/sent_bytes"] > 0
    assert all(type(value) is float for value in numbers.values())
    board, run, logger = (Heard(name) for name in ("add_scalar", "log", "log_metrics"))
    for to in (board, run, logger):
        topknot.log_stats(to, reduce, 7)
    assert {what[0]: what[1] for what, _ in board.said} == numbers
    assert all(what[2] == 7 for what, _ in board.said)
    assert run.said == [((numbers,), {"step": 7})]
    assert logger.said == [((numbers, 7), {})]
    refuses(topknot.ConfigError, "add_scalar", lambda: topknot.log_stats(object(), reduce, 7))


def an_adapter_goes_on_with_another_number_of_ranks():
    """From twice as many, all of which had the state of this rank."""
    torch.manual_seed(7)
    model = DDP(Network(), bucket_cap_mb=0.01)
    optimizer = torch.optim.AdamW(model.parameters())
    adapter = Adapter("updates", None, {"density": 0.05})
    adapter.start(model, optimizer)
    for step in range(3):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()
    mine = adapter.state()
    assert len(adapter.gather()) == (size() if rank() == 0 else 0)
    packed = []
    for one in range(2 * size()):
        buffer = io.BytesIO()
        own = {**mine["topknot"], "rank": one, "world_size": 2 * size()}
        torch.save({**mine, "topknot": own}, buffer)
        packed.append(torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8))
    optimizer.state.clear()
    adapter.load_gathered(packed)
    now = adapter.state()
    for key, value in mine["topknot"]["values"].items():
        if key.endswith("/memory.residual"):
            torch.testing.assert_close(now["topknot"]["values"][key], value)
    for index, state in mine["optimizer"].items():
        assert torch.equal(now["optimizer"][index]["exp_avg"], state["exp_avg"])


def an_adapter_does_nothing_without_ddp():
    model = Network()
    adapter = Adapter("gradients", None, {})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        adapter.start(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert "nothing to do" in str(said[0].message) and adapter.owner is None
    adapter.end_round()
    refuses(topknot.ConfigError, "neither", lambda: Adapter("weights", None, {}))


if __name__ == "__main__":
    main(globals())
