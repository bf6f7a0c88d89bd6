# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer, SparseAllreduce and FSDP, without DDP."""

import inspect
import itertools
import time

import torch
import torch.distributed as dist
from cases import gathered, main, rank, refuses, same_bits_everywhere, size
from ddp_cases import Network, batch, flat, network, train
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

import topknot
from topknot import _session


def optimizer_step(model, optimizer, step: int, **forward) -> None:
    optimizer.zero_grad()
    x, y = batch(step)
    nn.functional.cross_entropy(model(x, **forward), y).backward()
    optimizer.step()


def optimizer_at_density_one_is_ddp():
    plain = network()
    train(plain, 10)
    torch.manual_seed(7 + rank())  # rank 0's parameters are broadcast
    model = Network()
    optimizer = topknot.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        model.named_parameters(),
        density=1,
        bucket_mb=0.01,
    )
    torch.optim.lr_scheduler.StepLR(optimizer, 100)
    for step in range(10):
        optimizer_step(model, optimizer, step)
    torch.testing.assert_close(flat(model), flat(plain), rtol=1e-5, atol=1e-6)
    assert topknot.stats(optimizer)["steps"] == 10


def optimizer_keeps_ranks_together():
    torch.manual_seed(7)
    model = Network()
    optimizer = topknot.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        model.named_parameters(),
        density=0.02,
        exchange="gradients",
        bucket_mb=0.01,
        backward_passes_per_step=2,
    )
    before = flat(model)
    for step in range(8):
        optimizer.zero_grad()
        for half in range(2):
            x, y = batch(2 * step + half)
            use_all = step % 2 == 0 or rank() == 0
            nn.functional.cross_entropy(model(x, use_all=use_all), y).backward()
        topknot.synchronize(optimizer)
        optimizer.step()
    assert same_bits_everywhere(flat(model))
    assert not torch.equal(flat(model), before), "nothing was trained"
    assert "body.0.weight/memory.residual" in topknot.state_dict(optimizer)["values"]
    x, y = batch(0)

    def once_too_often():
        for _ in range(3):
            nn.functional.cross_entropy(model(x), y).backward()

    refuses(RuntimeError, "backward_passes_per_step is 2", once_too_often)


def sparse_allreduce_loses_nothing():
    reduce = topknot.SparseAllreduce(density=0.05)
    torch.manual_seed(rank())
    produced, returned = torch.zeros(5000), torch.zeros(5000)
    for _ in range(5):
        x = torch.randint(-50, 50, (5000,)).float()
        produced += x
        mean = reduce(x)
        assert mean is x and same_bits_everywhere(mean)
        assert 0 < (mean != 0).sum() <= 5000 * 0.05
        returned += mean
    before = topknot.state_dict(reduce)["values"]["tensor/memory.residual"]
    assert torch.equal(returned * size() + sum(gathered(before)), sum(gathered(produced)))
    nonfinite = torch.full((5000,), 1e9)  # adding it would round the residual off
    nonfinite[3] = float("nan") if rank() == 0 else 1.0
    assert reduce(nonfinite).isnan().all()
    after = topknot.state_dict(reduce)["values"]["tensor/memory.residual"]
    assert torch.equal(after.view(torch.int32), before.view(torch.int32))
    refuses(topknot.ConfigError, "had the shape", lambda: reduce(torch.zeros(7)))
    long = torch.zeros(1).expand(1 << 32)  # which takes no memory
    refuses(topknot.ConfigError, "at most 4294967295", lambda: reduce(long, name="long"))


def every_scheme_takes_a_tensor():
    for scheme in topknot.schemes():
        x = torch.full((300,), float(rank()))
        x[rank()] = 50
        topknot.SparseAllreduce(scheme, density=0.1)(x)
        assert same_bits_everywhere(x), scheme
        assert x.abs().sum() > 0, f"{scheme} has agreed on nothing"


def closed_sessions_cost_no_time():
    for number in range(3):
        reduce = topknot.SparseAllreduce(density=0.05)
        reduce(torch.ones(1000))
        if number % size() == rank():
            time.sleep(0.2)  # so that the others say goodbye to this rank first
        del reduce
        dist.barrier()
    before = time.process_time()
    time.sleep(1)
    assert time.process_time() - before < 0.5, "a thread of Gloo's does not rest"
    dist.barrier()


def disagreeing_ranks_are_told():
    reduce = topknot.SparseAllreduce(density=0.05, timeout=20)
    refuses(
        topknot.DisagreementError,
        "disagree: n is 1",
        lambda: reduce(torch.ones(1000 + 100 * rank())),
    )


def another_k_is_a_disagreement_on_all_ranks():
    compare, _session._agree = _session._agree, lambda *_: [0] * size()
    for number, scheme in enumerate(topknot.schemes()):
        odd = number % size()
        density = 0.2 if rank() == odd else 0.05
        reduce = topknot.SparseAllreduce(
            scheme, density=density, schedule="constant", timeout=20
        )
        if reduces_by_k(scheme):
            refuses(
                topknot.DisagreementError,
                " disagree: k is ",
                lambda: reduce(torch.randn(1000, generator=generator())),  # noqa: B023
            )
    _session._agree = compare


def reduces_by_k(scheme: str) -> bool:
    return not scheme.startswith("dense")


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(rank())


def a_stopped_rank_is_named_in_every_scheme():
    cases = [(scheme, i % size()) for i, scheme in enumerate(topknot.schemes())]
    cases += [("topka", stopped) for stopped in range(size())]
    for scheme, stopped in cases:
        reduce = topknot.SparseAllreduce(scheme, density=0.05, timeout=0.6)
        if rank() != stopped:
            refuses(
                topknot.LinkError,
                f"rank {stopped} has been silent",
                lambda: reduce(torch.randn(1000, generator=generator())),  # noqa: B023
            )
        dist.barrier()


ANOTHER = {
    "scheme": "topka",
    "density": 0.25,
    "budget": 0.1,
    "local_steps": 2,
    "exchange": "gradients",
    "first_moments": ["exp_avg"],
    "gain": 2.0,
    "memory": "none",
    "compressor": "gaussiank",
    "collective": "oktopk",
    "schedule": "dense:steps=2",
    "select_on": "host",
    "steps_per_epoch": 10,
    "clip": 1.0,
    "rules": ["first*=dense"],
    "whole": ["first.weight"],
    "timeout": 55.0,
    "node_group": 1,
    "flight": "elsewhere",
    "dense_vectors": False,
    "backward_passes_per_step": 2,
    "bucket_mb": 1.0,
    "broadcast": False,
}


def every_option_is_compared():
    """The options are those of the signatures and the engine's; one that is not here is a
    KeyError."""

    def with_optimizer(model=None, **options):
        model = model or torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        topknot.DistributedOptimizer(optimizer, model.named_parameters(), **options)

    def with_ddp(**options):
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
        topknot.attach(model, **options)

    made_of = {"self", "model", "optimizer", "named_parameters", "process_group", "options"}
    for function, start in (
        (topknot.SparseAllreduce.__init__, topknot.SparseAllreduce),
        (topknot.DistributedOptimizer, with_optimizer),
        (topknot.attach, with_ddp),
    ):
        own = set(inspect.signature(function).parameters) | set(topknot.options())
        if function is not topknot.DistributedOptimizer:
            own.remove("exchange")
        for name in sorted(own - made_of):
            options = {name: ANOTHER[name]} if rank() == 1 else {}
            said = f"rank 1 has {name} = "
            refuses(topknot.DisagreementError, said, lambda: start(**options))
    model = torch.nn.Linear(3, 2 + rank())
    said = "rank 1 has shape of weight = 3x3, rank 0 has 2x3."
    refuses(topknot.DisagreementError, said, lambda: with_optimizer(model, broadcast=False))


def a_scheme_that_one_rank_alone_misspells_leaves_none_waiting():
    start = time.monotonic()
    scheme = "knott" if rank() == 1 else "knot"
    refuses(
        topknot.DisagreementError,
        "rank 1 has scheme = knott, rank 0 has knot.",
        lambda: topknot.SparseAllreduce(scheme),
    )
    refuses(topknot.ConfigError, "knott", lambda: topknot.SparseAllreduce("knott"))
    assert time.monotonic() - start < 30


def differences_are_named_once_and_briefly():
    say = topknot._agreement.differences
    assert say([{"a": "1"}] * 3) == []
    assert say([{"a": "1"}, {"a": "2"}]) == ["rank 1 has a = 2, rank 0 has 1."]
    assert say([{"a": "1"}, {"a": "2"}, {"a": "2"}]) == ["rank 0 has a = 1, ranks 1 and 2 have 2."]
    assert say([{"a": ""}, {"b": "x\n"}]) == [
        "rank 1 has a = (none), rank 0 has (empty).",
        "rank 1 has b = x?, rank 0 has (none).",
    ]
    assert len(say([{"a": str(i)} for i in range(1000)])[0]) < 300
    many = say([{str(i): "x" for i in range(100)}, {}])
    assert many[50:] == ["The ranks differ in 50 more fields."]


def sparse_allreduce_at_density_one_is_the_mean():
    reduce = topknot.SparseAllreduce(density=1)
    for shape in ((1,), (7, 3), (1001,)):
        x = torch.randint(-64, 64, shape, generator=generator()).float() * (rank() + 1)
        expected = sum(gathered(x)) / size()
        assert torch.equal(reduce(x.clone(), str(shape)), expected)


def sparse_allreduce_resumes_to_the_same_bits():
    names = ("a", "b", "c")

    def steps(reduce, first: int) -> torch.Tensor:
        results = []
        for step in range(first, first + 3):
            for name in names:
                torch.manual_seed(100 * step + 10 * rank() + names.index(name))
                results.append(reduce(torch.randn(700), name))
        return torch.cat(results)

    reduce = topknot.SparseAllreduce(density=0.05)
    steps(reduce, 0)
    saved = topknot.state_dict(reduce)
    expected = steps(reduce, 3)
    other = topknot.SparseAllreduce(density=0.05)
    topknot.load_state_dict(other, saved)
    assert torch.equal(steps(other, 3), expected)
    assert not torch.equal(steps(topknot.SparseAllreduce(density=0.05), 3), expected)


def trained_shards(steps: int, density: float, saved=None, first: int = 0, momentum=0.9):
    """A model in shards of two ranks, the mesh, and what goes between the replicas. `saved` is what
    it goes on from."""
    # As in a process that begins.
    topknot.allreduce._numbers = itertools.count()
    mesh = init_device_mesh("cpu", (size() // 2, 2), mesh_dim_names=("replica", "shard"))
    torch.manual_seed(7)
    model = Network()
    fully_shard(model.body, mesh=mesh["shard"])
    fully_shard(model, mesh=mesh["shard"])
    across = topknot.SparseAllreduce(density=density, process_group=mesh.get_group("replica"))
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_all_reduce_hook(topknot.fsdp_all_reduce_hook(across))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
    if saved is not None:
        model.load_state_dict(saved[0])
        topknot.load_state_dict(across, saved[1])
    for step in range(first, first + steps):
        optimizer_step(model, optimizer, step)
    return model, mesh, across


def fsdp_at_density_one_is_ddp():
    plain = network()
    train(plain, 6)
    model, _, _ = trained_shards(6, density=1)
    whole = torch.cat([p.full_tensor().detach().reshape(-1) for p in model.parameters()])
    torch.testing.assert_close(whole, flat(plain), rtol=1e-4, atol=1e-5)


def fsdp_resumes_to_the_same_bits():
    whole, _, _ = trained_shards(6, density=0.05, momentum=0)
    model, _, across = trained_shards(3, density=0.05, momentum=0)
    saved = model.state_dict(), topknot.state_dict(across)
    resumed, _, _ = trained_shards(3, density=0.05, saved=saved, first=3, momentum=0)
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one.to_local(), other.to_local())


def fsdp_replicas_stay_together():
    model, mesh, across = trained_shards(4, density=0.05)
    mine = torch.cat([p.to_local().detach().reshape(-1) for p in model.parameters()])
    both = [torch.empty_like(mine) for _ in range(size() // 2)]
    dist.all_gather(both, mine, group=mesh.get_group("replica"))
    assert all(torch.equal(mine, other) for other in both)
    assert topknot.stats(across)["sent_bytes"] > 0


if __name__ == "__main__":
    main(globals())
