# SPDX-License-Identifier: Apache-2.0
"""scheme="auto" ends in the bits of what it took, and advice follows the network."""

import contextlib
import warnings

import torch
from cases import main, rank, refuses, same_bits_everywhere
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import topknot
from topknot import _core, _session


def network() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 10))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 6) -> torch.Tensor:
    for step in range(steps):
        torch.manual_seed(1000 * step + rank())
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(16, 24)), torch.randint(0, 10, (16,))).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def attached(**options) -> tuple[DDP, torch.Tensor]:
    model = DDP(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        topknot.attach(model, **options)
    return model, train(model, optimizer)


@contextlib.contextmanager
def choosing(sparse: bool, whole: list[str]):
    """Whatever would be measured."""
    measured = _core.Session.choose
    _core.Session.choose = lambda *_: (sparse, whole, "so it was told")
    try:
        yield
    finally:
        _core.Session.choose = measured


def attach_takes_what_can_be_named() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = DDP(network())
        topknot.attach(model, scheme="auto")
        assert rank() != 0 or any("auto takes" in str(one.message) for one in said), said
    taken = _session.session_of(model).options
    weights = train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert same_bits_everywhere(weights)
    named = {"scheme": taken.scheme, "whole": taken.whole}
    assert torch.equal(weights, attached(**named)[1]), taken


def an_optimizer_takes_what_can_be_named() -> None:
    def run(scheme: str, **options):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            topknot.DistributedOptimizer(
                optimizer, model.named_parameters(), scheme=scheme, **options
            )
        weights = train(model, optimizer, steps=8)
        return weights, _session.session_of(optimizer).options

    for sparse in (False, True):
        with choosing(sparse, []):
            weights, taken = run("auto")
        assert taken.scheme == ("knot" if sparse else "dense")
        assert same_bits_everywhere(weights)
        assert torch.equal(weights, run(taken.scheme)[0])


def a_bucket_may_be_sent_whole_beside_sparse_ones() -> None:
    with choosing(True, ["0.weight"]):
        model, weights = attached(scheme="auto", density=0.05)
    core = _session.session_of(model).core
    assert core.sent_whole([("0.weight", [64, 24]), ("2.weight", [10, 64])]) == [True, False]
    assert torch.equal(weights, attached(scheme="knot", density=0.05, whole=["0.weight"])[1])
    assert not torch.equal(weights, attached(scheme="knot", density=0.05)[1])


def a_state_of_another_decision_is_refused() -> None:
    with choosing(True, ["0.weight"]):
        model, _ = attached(scheme="auto")
        state = topknot.state_dict(model)
        again, _ = attached(scheme="auto")
        topknot.load_state_dict(again, state)
    with choosing(False, []):
        other, _ = attached(scheme="auto")
    refuses(
        topknot.ConfigError,
        "scheme='knot', whole=['0.weight']",
        lambda: topknot.load_state_dict(other, state),
    )
    named, _ = attached(scheme="knot", whole=["0.weight"])
    topknot.load_state_dict(named, state)


def a_rank_that_names_a_scheme_is_told() -> None:
    model = DDP(network())
    scheme = "auto" if rank() == 0 else "knot"
    refuses(
        topknot.DisagreementError,
        "rank 1 has scheme = knot, rank 0 has auto",
        lambda: topknot.attach(model, scheme=scheme),
    )


def refuses_what_leaves_no_choice() -> None:
    model = DDP(network())
    refuses(
        topknot.ConfigError,
        "leaves no choice",
        lambda: topknot.attach(model, scheme="auto", collective="dense"),
    )
    refuses(
        topknot.ConfigError, "decided where a run starts", lambda: topknot.SparseAllreduce("auto")
    )


def advice_is_by_the_network() -> None:
    slow = topknot.advise(14_700_000, workers=16, gbps=1, compute=0.1)
    assert slow.choice != "dense" and slow.break_even_gbps > 1, slow
    assert {"scheme", "step_seconds", "speedup_vs_dense"} <= set(slow.table[0])
    fast = topknot.advise(14_700_000, workers=2, gbps=400, latency=1e-6, compute=1)
    assert fast.choice == "dense", fast.reason
    model = network()
    few = topknot.advise(model, schemes=["dense", "knot"], simulated=True)
    assert [row["method"] for row in few.table] == ["simulated"] * 2
    assert few.table[0]["ranks"] == 2, "those of torch.distributed"
    refuses(topknot.ConfigError, "density=2", lambda: topknot.advise(model, density=2))
    refuses(topknot.ConfigError, "not str", lambda: topknot.advise("vgg16"))
    refuses(topknot.ConfigError, "knott", lambda: topknot.advise(model, schemes=["knott"]))


if __name__ == "__main__":
    main(globals())
