# SPDX-License-Identifier: Apache-2.0
"""What there is for those without DDP."""

import torch
import torch.distributed as dist
from cases import gathered, main, rank, refuses, same_bits_everywhere, size
from ddp_cases import Network, batch, flat, network, train
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

import topknot


def optimizer_step(model, optimizer, step: int, **forward) -> None:
    optimizer.zero_grad()
    x, y = batch(step)
    nn.functional.cross_entropy(model(x, **forward), y).backward()
    optimizer.step()


def optimizer_at_density_one_is_ddp():
    plain = network()
    train(plain, 10)
    torch.manual_seed(7 + rank())  # rank 0's parameters are handed out
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
    assert "body.0.weight/memory.debt" in topknot.state_dict(optimizer)["values"]
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
    owed = topknot.state_dict(reduce)["values"]["tensor/memory.debt"]
    assert torch.equal(returned * size() + sum(gathered(owed)), sum(gathered(produced)))
    sick = torch.full((5000,), 1e9)  # beside which what is owed would be rounded off
    sick[3] = float("nan") if rank() == 0 else 1.0
    assert reduce(sick).isnan().all()
    after = topknot.state_dict(reduce)["values"]["tensor/memory.debt"]
    assert torch.equal(after.view(torch.int32), owed.view(torch.int32))
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


def disagreeing_ranks_are_told():
    reduce = topknot.SparseAllreduce(density=0.05, timeout=5)
    refuses(topknot.LinkError, "rank", lambda: reduce(torch.ones(1000 + 100 * rank())))


def fsdp_replicas_stay_together():
    mesh = init_device_mesh("cpu", (size() // 2, 2), mesh_dim_names=("replica", "shard"))
    torch.manual_seed(7)
    model = Network()
    fully_shard(model.body, mesh=mesh["shard"])
    fully_shard(model, mesh=mesh["shard"])
    across = topknot.SparseAllreduce(density=0.05, process_group=mesh.get_group("replica"))
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_all_reduce_hook(topknot.fsdp_all_reduce_hook(across))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer_step(model, optimizer, step)
    mine = torch.cat([p.to_local().detach().reshape(-1) for p in model.parameters()])
    both = [torch.empty_like(mine) for _ in range(size() // 2)]
    dist.all_gather(both, mine, group=mesh.get_group("replica"))
    assert all(torch.equal(mine, other) for other in both)
    assert topknot.stats(across)["sent_bytes"] > 0


if __name__ == "__main__":
    main(globals())
