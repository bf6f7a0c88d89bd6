# SPDX-License-Identifier: Apache-2.0
"""attach(node_group=): four ranks as two nodes of two."""

import contextlib
import socket
import warnings

import torch
import torch.distributed as dist
from cases import gathered, main, rank, refuses, same_bits_everywhere, size
from ddp_cases import FEATURES, backward, batch, flat, flat_grad, network, train
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import topknot
from topknot import _session


class Odd(nn.Module):
    """No tensor has a number of coordinates that the ranks of a node divide."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.ones(()))
        self.body = nn.Sequential(nn.Linear(FEATURES, 37), nn.ReLU(), nn.LayerNorm(37))
        self.middle = nn.Linear(37, 11)
        self.head = nn.Linear(11, 10, bias=False)

    def forward(self, x):
        return self.head(self.middle(self.body(x))) * self.one


def odd(**options) -> DDP:
    torch.manual_seed(7)
    return DDP(Odd(), **{"bucket_cap_mb": 0.002, **options})


@contextlib.contextmanager
def hosts(names: str):
    """As if rank i were on the host of this letter."""
    before, socket.gethostname = socket.gethostname, lambda: names[rank()]
    try:
        yield
    finally:
        socket.gethostname = before


def density_one_is_plain_ddp():
    for make in (network, odd):
        plain = make()
        train(plain, 10)
        for node_group in (1, 2, 4):
            hooked = make()
            topknot.attach(hooked, density=1, node_group=node_group)
            levels = _session.session_of(hooked).levels
            assert (levels.ranks_per_node if levels else 1) == node_group
            train(hooked, 10)
            torch.testing.assert_close(flat(hooked), flat(plain), rtol=1e-5, atol=1e-6)
            assert same_bits_everywhere(flat(hooked))


def nodes_are_hosts_or_as_told():
    """By the group in which this rank sums whole gradients."""

    def mates(node_group) -> list[int]:
        model = network()
        topknot.attach(model, density=0.05, node_group=node_group)
        train(model, 3)
        assert same_bits_everywhere(flat(model))
        levels = _session.session_of(model).levels
        return dist.get_process_group_ranks(levels.node) if levels else [rank()]

    other = {0: 2, 1: 3, 2: 0, 3: 1}[rank()]
    with hosts("abab"):
        assert mates("auto") == sorted([rank(), other])
        assert mates(2) == [rank() // 2 * 2, rank() // 2 * 2 + 1]
    with hosts("abcd"):
        assert mates("auto") == [rank()]
    with hosts("aaab"):
        assert mates("auto") == [rank()]  # no larger groups fit both hosts
    group, _ = dist.new_subgroups_by_enumeration([[0, 3], [1, 2]])
    assert rank() in mates(group) and len(mates(group)) == 2
    uneven = dist.new_group([0, 1, 2] if rank() < 3 else [3], use_local_synchronization=True)
    refuses(topknot.ConfigError, "all nodes equally large", lambda: mates(uneven))
    for wrong in (3, 0, "node"):
        refuses(topknot.ConfigError, f"node_group={wrong!r} is neither", lambda: mates(wrong))  # noqa: B023
    refuses(
        topknot.ConfigError,
        "name a scheme with node_group",
        lambda: topknot.attach(network(), "auto", node_group=2),
    )


def one_node_sends_nothing():
    plain, model = network(), network()
    topknot.attach(model, density=0.01, rules=["*=0.01"], node_group="auto")
    train(plain, 5)
    train(model, 5)
    torch.testing.assert_close(flat(model), flat(plain), rtol=1e-5, atol=1e-6)
    assert topknot.stats(model)["sent_bytes"] == 0


def a_rank_sends_for_its_shard_alone():
    sent = {}
    for node_group in (None, 2):
        model = network()
        topknot.attach(model, "topka", density=0.05, node_group=node_group, dense_vectors=False)
        train(model, 6)
        sent[node_group] = topknot.stats(model)["sent_bytes"]
        assert topknot.stats(model)["steps"] == 6
    # topka sends its selection to all others: to three of n, or to one of n / 2.
    assert sent[2] < sent[None] / 4, sent


def one_percent_is_the_same_bits_everywhere():
    for scheme in ("knot", "oktopk", "topka", "dgc"):
        for make in (network, odd):
            model = make()
            topknot.attach(model, scheme, density=0.01, schedule="constant", node_group=2)
            train(model, 12, momentum=0)
            assert same_bits_everywhere(flat(model)), scheme
            assert not torch.equal(flat(model), flat(make())), f"{scheme} has trained nothing"


def residual(model) -> torch.Tensor:
    """This rank's, as a state has it: as long as the model."""
    values = topknot.state_dict(model)["values"]
    return torch.cat(
        [
            values.get(f"{name}/memory.residual", torch.zeros(p.numel()))
            for name, p in model.module.named_parameters()
        ]
    )


def nothing_is_lost_from_the_first_step_on():
    """DDP makes its buckets anew after the first."""
    model, twin = odd(), Odd()
    twin.load_state_dict(model.module.state_dict())
    topknot.attach(model, density=0.02, node_group=2)
    produced, returned = 0, 0
    for step in range(5):
        model.zero_grad()
        twin.zero_grad()
        backward(model, step)
        x, y = batch(step)
        nn.functional.cross_entropy(twin(x), y).backward()
        produced = produced + flat_grad(twin)
        returned = returned + flat_grad(model)
    mine = residual(model)
    assert mine.abs().sum() > 0
    # A rank has a half of each parameter.
    assert 0 < (mine != 0).sum() <= mine.numel() / 2 + 10
    total, left = sum(gathered(produced)), sum(gathered(mine))
    torch.testing.assert_close(returned * size() + left, total, rtol=1e-4, atol=1e-5)


class Given(nn.Module):
    """Whose gradient is what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 50))

    def forward(self, gradient):
        return (self.weight * gradient).sum()


def given(node_group=2, **options) -> DDP:
    model = DDP(Given())
    topknot.attach(model, "topka", density=0.1, node_group=node_group, **options)
    return model


def reduced(model, gradient: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    model(gradient.view(2, 50)).backward()
    return model.module.weight.grad.clone().view(-1)


def a_step_that_is_not_finite_is_undone():
    """Where one rank's gradient is not finite; where a node's sum overflows, or only the sum over
    the nodes, in one of the two shards."""
    largest = torch.finfo(torch.float32).max
    for bad in ({0: torch.nan}, {3: torch.inf}, {2: largest, 3: largest}, {1: largest, 3: largest}):
        for place in (7, 93):  # in either shard
            model = given()
            produced, returned = torch.zeros(100), torch.zeros(100)
            for step in range(4):
                torch.manual_seed(10 * step + rank())
                gradient = torch.randint(-20, 21, (100,)).float()
                if step == 2:
                    gradient[place] = bad.get(rank(), 0.0)
                    before = sum(gathered(residual(model)))
                    assert reduced(model, gradient).isnan().all(), (bad, place)
                    # The shard that is not finite keeps its residual; in the other the gradient
                    # joins it, and with it what was agreed on.
                    after = sum(gathered(residual(model)))
                    shard = slice(0, 50) if place < 50 else slice(50, 100)
                    other = slice(50, 100) if place < 50 else slice(0, 50)
                    whole = sum(gathered(gradient))
                    assert torch.equal(after[shard], before[shard]), (bad, place)
                    torch.testing.assert_close(after[other], (before + whole)[other])
                    produced[other] += gradient[other]
                else:
                    produced += gradient
                    mean = reduced(model, gradient)
                    assert same_bits_everywhere(mean)
                    returned += mean
            left = sum(gathered(residual(model)))
            torch.testing.assert_close(returned * size() + left, sum(gathered(produced)))
            assert _session.session_of(model).core.nonfinite_steps() == 1


def resumes_to_the_same_bits():
    for options in ({}, {"scheme": "dgc", "schedule": "constant"}):
        torch.manual_seed(7)
        straight = odd()
        topknot.attach(straight, density=0.03, node_group=2, **options)
        train(straight, 6, momentum=0)
        state = topknot.state_dict(straight)
        weights = {key: value.clone() for key, value in straight.module.state_dict().items()}
        train(straight, 6, first=6, momentum=0)
        resumed = odd()
        topknot.attach(resumed, density=0.03, node_group=2, **options)
        resumed.module.load_state_dict(weights)
        topknot.load_state_dict(resumed, state)
        train(resumed, 6, first=6, momentum=0)
        assert torch.equal(flat(resumed), flat(straight)), options


def any_nodes_go_on_with_a_state():
    """The mean of the residuals stays the same."""
    for before, after in ((2, 1), (1, 2), (2, 4)):
        model = odd()
        topknot.attach(model, "topka", density=0.03, node_group=before)
        train(model, 4)
        mean = sum(gathered(residual(model)))
        assert mean.abs().sum() > 0
        next_one = odd()
        topknot.attach(next_one, "topka", density=0.03, node_group=after)
        topknot.load_state_dict(next_one, topknot.state_dict(model))
        torch.testing.assert_close(sum(gathered(residual(next_one))), mean)
        train(next_one, 2, first=4)
        assert same_bits_everywhere(flat(next_one))


def momentum_and_bf16_are_as_without_nodes():
    plain, hooked = odd(), odd()
    outside = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    inside = torch.optim.SGD(hooked.parameters(), lr=0.1, momentum=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        topknot.attach(hooked, density=1, optimizer=inside, node_group=2)
    for model, optimizer in ((plain, outside), (hooked, inside)):
        for step in range(8):
            optimizer.zero_grad()
            backward(model, step)
            optimizer.step()
    torch.testing.assert_close(flat(hooked), flat(plain), rtol=1e-4, atol=1e-5)

    model = DDP(Given().to(torch.bfloat16))
    topknot.attach(model, density=1, node_group=2)
    gradient = torch.full((100,), 1.0 if rank() == 0 else 2.0**-9).to(torch.bfloat16)
    mean = reduced(model, gradient).float()
    # In bf16 the small ones would be lost one after the other.
    assert torch.equal(mean, torch.tensor((1 + 3 * 2.0**-9) / 4).to(torch.bfloat16).float().expand(100))


def clipping_is_of_the_mean_of_a_node():
    model = DDP(Given())
    topknot.attach(model, "dgc", density=1, clip=1e-3, node_group=2)
    mean = reduced(model, torch.ones(100))
    torch.testing.assert_close(mean.norm(), torch.tensor(1e-3 / 2**0.5), rtol=1e-4, atol=0)


if __name__ == "__main__":
    main(globals())
