# SPDX-License-Identifier: Apache-2.0
"""topknot.attach() on models small enough for a test, with many small buckets."""

import argparse
import copy
import os
import pathlib
import re
import signal
import sys
import time
import warnings

import torch
import torch.distributed as dist
from cases import gathered, main, rank, refuses, same_bits_everywhere, size
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import topknot
from topknot import _session

FEATURES = 24


class Network(nn.Module):
    """With weights, biases and norms, about 30 kB in buckets of 10 kB."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(FEATURES, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.ReLU()
        )
        self.unused = nn.Linear(64, 8)
        self.head = nn.Linear(64, 10)

    def forward(self, x, use_all=True):
        x = self.body(x)
        return self.head(x) + (self.unused(x).sum() * 0.01 if use_all else 0)


def network(**options) -> DDP:
    torch.manual_seed(7)
    return DDP(Network(), **{"bucket_cap_mb": 0.01, **options})


def batch(step: int, owner: int | None = None):
    torch.manual_seed(1000 * step + (rank() if owner is None else owner))
    return torch.randn(16, FEATURES), torch.randint(0, 10, (16,))


def backward(model, step: int, **forward) -> None:
    x, y = batch(step)
    nn.functional.cross_entropy(model(x, **forward), y).backward()


def train(model, steps: int, first: int = 0, lr: float = 0.1, momentum: float = 0.9, **forward):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    for step in range(first, first + steps):
        optimizer.zero_grad()
        backward(model, step, **forward)
        optimizer.step()


def flat(model) -> torch.Tensor:
    return torch.cat([p.detach().float().reshape(-1) for p in model.parameters()])


def flat_grad(model) -> torch.Tensor:
    return torch.cat([p.grad.detach().float().reshape(-1) for p in model.parameters()])


def residuals(model) -> dict[str, torch.Tensor]:
    values = topknot.state_dict(model)["values"]
    return {k: v for k, v in values.items() if k.endswith("/memory.residual")}


def density_one_is_plain_ddp():
    for options in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}):
        plain, hooked = network(**options), network(**options)
        topknot.attach(hooked, density=1)
        train(plain, 20)
        train(hooked, 20)
        torch.testing.assert_close(flat(hooked), flat(plain), rtol=1e-5, atol=1e-6)
        assert same_bits_everywhere(flat(hooked))


# The keys that help(topknot.stats) tells of.
STATS = {
    key
    for keys in re.findall(r"(?m)^    (\w+(?:, \w+)?) {2,}\w", topknot.stats.__doc__)
    for key in keys.split(", ")
}


def one_percent_is_the_same_bits_everywhere():
    for scheme in ("knot", "oktopk", "topka"):
        model = network()
        topknot.attach(model, scheme, density=0.01, schedule="constant")
        steps = 50 if scheme == "knot" else 10
        train(model, steps)
        assert same_bits_everywhere(flat(model)), scheme
        said = topknot.stats(model)
        assert said["steps"] == steps
        assert 0 < said["sent_bytes"] < said["dense_bytes"]
        assert set(said) == STATS, set(said) ^ STATS
        assert not torch.equal(flat(model), flat(network())), f"{scheme} has trained nothing"


def dgc_that_sends_all_is_plain_momentum():
    """In what is sparsified and in what is sent whole, biases and norms."""
    for options in ({"density": 1}, {"density": 0.1, "schedule": "dense:steps=20"}):
        plain, hooked = network(), network()
        topknot.attach(hooked, "dgc", **options)
        train(plain, 10)
        train(hooked, 10, momentum=0)
        torch.testing.assert_close(flat(hooked), flat(plain), rtol=1e-4, atol=1e-5)


def density_of(**options) -> list[float]:
    """Of each of 4 steps."""
    model = network()
    topknot.attach(model, "dgc", density=0.01, **options)
    agreed = [0.0]
    for step in range(4):
        train(model, 1, first=step, momentum=0)
        agreed.append(topknot.stats(model)["density"] * (step + 1))
    return [after - before for before, after in zip(agreed, agreed[1:])]


def a_scheme_warms_up_unless_it_is_told_otherwise():
    assert max(density_of(schedule="constant")) < 0.15
    assert min(density_of()) > 0.2  # 100 steps of 25 %
    by_epoch = density_of(steps_per_epoch=1)
    assert by_epoch[0] > 0.2 and by_epoch[0] > by_epoch[1] > by_epoch[2] > by_epoch[3]


def dgc_clips_each_ranks_own_gradient():
    model = network()
    topknot.attach(model, "dgc", density=1, clip=1e-3)
    backward(model, 0)
    assert 0 < flat_grad(model).norm() <= 1e-3 / size() ** 0.5 + 1e-9


def nothing_is_lost_from_the_first_step_on():
    """All gradients are in the means that came back or still in the residuals."""
    model, twin = network(), Network()
    twin.load_state_dict(model.module.state_dict())
    topknot.attach(model, density=0.02)
    produced, returned = 0, 0
    for step in range(4):  # DDP makes its buckets anew after the first
        model.zero_grad()
        twin.zero_grad()
        backward(model, step)
        x, y = batch(step)
        nn.functional.cross_entropy(twin(x), y).backward()
        produced = produced + flat_grad(twin)
        returned = returned + flat_grad(model)
    kept = residuals(model)
    mine = torch.cat(
        [
            kept.get(f"{name}/memory.residual", torch.zeros(p.numel())).reshape(-1)
            for name, p in model.module.named_parameters()
        ]
    )
    assert mine.abs().sum() > 0
    total, left = sum(gathered(produced)), sum(gathered(mine))
    torch.testing.assert_close(returned * size() + left, total, rtol=1e-4, atol=1e-5)
    retired, *in_use = _session.session_of(model).core.totals()
    assert retired["steps"] == 1 and all(plan["steps"] == 3 for plan in in_use)
    sizes = [len(b["parameters"]) for b in topknot.stats(model)["buckets"]]
    assert sum(sizes) == len(list(model.parameters())) and len(sizes) > 1


def unused_parameters_are_zeros():
    plain = network(find_unused_parameters=True)
    hooked = network(find_unused_parameters=True)
    topknot.attach(hooked, density=1)
    for step in range(6):
        for model in (plain, hooked):
            train(model, 1, first=step, use_all=step % 2 == 0)
    torch.testing.assert_close(flat(hooked), flat(plain), rtol=1e-5, atol=1e-6)


def accumulation_reduces_once():
    plain, hooked = network(), network()
    topknot.attach(hooked, density=1)
    for model in (plain, hooked):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            with model.no_sync():
                backward(model, 10 * step)
            backward(model, 10 * step + 1)
            optimizer.step()
    torch.testing.assert_close(flat(hooked), flat(plain), rtol=1e-5, atol=1e-6)
    assert topknot.stats(hooked)["steps"] == 4


def bf16_parameters_are_reduced_in_f32():
    torch.manual_seed(7)
    model = DDP(Network().to(torch.bfloat16))
    topknot.attach(model, density=0.05)
    before = flat(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(10):
        optimizer.zero_grad()
        x, y = batch(step)
        nn.functional.cross_entropy(model(x.bfloat16()).float(), y).backward()
        optimizer.step()
    assert same_bits_everywhere(flat(model)) and flat(model).isfinite().all()
    assert not torch.equal(flat(model), before), "nothing was trained"


def a_step_that_is_not_finite_is_undone():
    model = network()
    topknot.attach(model, density=0.02)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    local: dict[str, torch.Tensor] = {}  # this rank's own gradients, before the exchange
    for name, parameter in model.module.named_parameters():
        parameter.register_hook(lambda g, name=name: local.update({name: g.reshape(-1).clone()}))
    for step in range(6):
        before, parameters = residuals(model), flat(model)
        optimizer.zero_grad()
        x, y = batch(step)
        loss = nn.functional.cross_entropy(model(x), y)
        if step == 3 and rank() == 1:  # in the last bucket alone, on one rank alone
            poison = model.module.body[0].weight.register_hook(lambda g: g * float("inf"))
        scaler.scale(loss).backward()
        if step == 3:
            assert not flat_grad(model).isfinite().all()
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if step == 3:
            if rank() == 1:
                poison.remove()
            assert torch.equal(flat(model), parameters)
            assert scaler.get_scale() < scale
            nothing_is_lost_by_undoing(before, residuals(model), local)
    assert topknot.stats(model)["not_finite"] >= 1
    assert same_bits_everywhere(flat(model)) and flat(model).isfinite().all()


def nothing_is_lost_by_undoing(before, after, local) -> None:
    """The bucket that was not finite, and those behind it, have dropped the step's gradient;
    those before it have it in their residuals, all ranks together."""
    kept = 0
    for key, was in before.items():
        total, now = sum(gathered(was)), sum(gathered(after[key]))
        gradient = sum(gathered(local[key.split("/")[0]]))
        if not torch.equal(now, total):
            torch.testing.assert_close(now, total + gradient, rtol=1e-4, atol=1e-2)
            kept += 1
    poisoned = "body.0.weight/memory.residual"
    assert torch.equal(after[poisoned], before[poisoned])
    assert kept > 0, "no bucket came before the one that was not finite"


def resumes_to_the_same_bits_with_several_buckets():
    for options in (
        {},
        {"gradient_as_bucket_view": True},
        {"find_unused_parameters": True},
        {"bucket_cap_mb": 25},
    ):
        whole, second = network(**options), network(**options)
        topknot.attach(whole, density=0.02)
        train(whole, 4, momentum=0)
        saved = copy.deepcopy((whole.module.state_dict(), topknot.state_dict(whole)))
        train(whole, 4, first=4, momentum=0)
        topknot.attach(second, density=0.02)
        second.module.load_state_dict(saved[0])
        topknot.load_state_dict(second, saved[1])
        assert all(p.grad is None for p in second.parameters())
        train(second, 4, first=4, momentum=0)
        buckets = len(topknot.stats(second)["buckets"])
        assert buckets == (1 if "bucket_cap_mb" in options else 2)
        assert torch.equal(flat(second), flat(whole)), options
        assert topknot.stats(second)["steps"] == 8


def another_number_of_ranks_goes_on():
    first = network()
    topknot.attach(first, density=0.02)
    train(first, 4, momentum=0)
    saved = topknot.state_dict(first)
    gathered_states = topknot.gather_state_dict(first)
    assert (gathered_states is not None) == (rank() == 0)
    box = [gathered_states]
    dist.broadcast_object_list(box)
    half = dist.new_group(list(range(size() // 2)))
    if rank() < size() // 2:
        torch.manual_seed(7)
        third = DDP(Network(), process_group=half)
        topknot.attach(third, density=0.02)
        topknot.load_state_dict(third, box[0])
        for key, residual in residuals(third).items():
            parts = [box[0]["ranks"][w]["values"][key] for w in range(rank(), size(), size() // 2)]
            torch.testing.assert_close(residual, sum(parts) / 2)
        refuses(
            topknot.ConfigError,
            "needs its own, or those of all ranks",
            lambda: topknot.load_state_dict(third, saved),
        )


def refuses_what_it_cannot_do():
    model = network()
    unknown = "no scheme named knott; nearest is knot"
    refuses(topknot.ConfigError, unknown, lambda: topknot.attach(model, "knott"))
    nothing = "is not in (0, 1]; 0.01 sends one coordinate in a hundred"
    refuses(topknot.ConfigError, nothing, lambda: topknot.attach(model, density=0))
    alone = "selects by itself"
    refuses(
        topknot.ConfigError, alone, lambda: topknot.attach(model, "exdyna", compressor="gaussiank")
    )
    refuses(topknot.ConfigError, "takes a Distributed", lambda: topknot.attach(Network()))
    topknot.attach(model)
    refuses(topknot.ConfigError, "attached to this model already", lambda: topknot.attach(model))
    hooked = network()
    hooked.register_comm_hook(None, lambda state, bucket: None)
    refuses(topknot.ConfigError, "hook already", lambda: topknot.attach(hooked))
    builtin = network()
    builtin._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    refuses(topknot.ConfigError, "hook already", lambda: topknot.attach(builtin))
    mixed, compiled = network(), network()
    mixed.mixed_precision = object()  # as DDP keeps what it was built with
    refuses(topknot.ConfigError, "mixed_precision=", lambda: topknot.attach(mixed))
    compiled._use_python_reducer = True
    refuses(topknot.ConfigError, "python_reducer", lambda: topknot.attach(compiled))
    embedding = DDP(nn.Embedding(10, 4, sparse=True))
    refuses(topknot.ConfigError, "sparse=True", lambda: topknot.attach(embedding))
    other = network()
    refuses(
        topknot.DisagreementError,
        "has density = ",
        lambda: topknot.attach(other, density=0.1 + 0.1 * rank()),
    )
    refuses(topknot.ConfigError, "has nothing to do with topknot", lambda: topknot.stats(other))


def empty_selections_do_not_hang():
    model = network()
    topknot.attach(model, collective="topka", compressor="threshold:value=1e30", density=0.01)
    train(model, 3)
    assert topknot.stats(model)["steps"] == 3
    assert torch.equal(model.module.body[0].weight, network().module.body[0].weight)
    assert sum(one.abs().sum() for one in residuals(model).values()) > 0
    model = network()
    topknot.attach(model, density=0.01)
    for step in range(3):
        model.zero_grad()
        x, y = batch(step)
        (nn.functional.cross_entropy(model(x), y) * (0.0 if rank() else 1.0)).backward()
    assert same_bits_everywhere(flat_grad(model))


def vgg16_has_default_buckets():
    """The model of bench/ddp_step.py, which DDP cuts into several buckets by itself."""
    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
    import ddp_step

    args = argparse.Namespace(
        model="vgg16", batch=2, scheme="knot", density=0.01, compressor=None, collective=None
    )
    said = ddp_step.check(args, sparse_steps=10)
    assert said["density_1_relative_difference"] < 1e-4, said
    assert said["same_bits_on_all_ranks"], said


def nothing_is_unpickled():
    """attach(), training and gather_state_dict() read no pickle of a peer."""

    def refuse(*_):
        raise AssertionError("a pickle of a peer's was read")

    kept = dist.distributed_c10d._unpickler
    dist.distributed_c10d._unpickler = refuse
    try:
        model = network()
        topknot.attach(model, density=0.02)
        train(model, 3)
        for dst in (0, size() - 1):
            states = topknot.gather_state_dict(model, dst)
            if rank() == dst:
                mine = topknot.state_dict(model)
                assert [one["rank"] for one in states["ranks"]] == list(range(size()))
                assert all(list(one) == list(mine) for one in states["ranks"])
                for key, value in mine["values"].items():
                    same = states["ranks"][dst]["values"][key]
                    assert torch.equal(torch.as_tensor(same), torch.as_tensor(value)), key
            else:
                assert states is None
            # Of another rank's, too: it arrives as it was there.
            residual = flat_residuals(topknot.state_dict(model)["values"])
            there = gathered(residual)
            if rank() == dst:
                for other, one in zip(there, states["ranks"], strict=True):
                    assert torch.equal(flat_residuals(one["values"]), other)
    finally:
        dist.distributed_c10d._unpickler = kept


def flat_residuals(values) -> torch.Tensor:
    return torch.cat([values[key].reshape(-1) for key in sorted(values) if "residual" in key])


def momentum_sgd(parameters, **options):
    return torch.optim.SGD(parameters, **{"lr": 0.1, "momentum": 0.9, **options})


def attach_takes_the_momentum_over():
    for nesterov in (False, True):
        plain, hooked = network(), network()
        outside = momentum_sgd(plain.parameters(), nesterov=nesterov)
        inside = momentum_sgd(hooked.parameters(), nesterov=nesterov)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            topknot.attach(hooked, density=1, optimizer=inside)
        assert_told_once(said, "momentum of 0.9 into its memory")
        assert inside.param_groups[0]["momentum"] == 0
        for model, optimizer in ((plain, outside), (hooked, inside)):
            for step in range(10):
                optimizer.zero_grad()
                backward(model, step)
                optimizer.step()
        torch.testing.assert_close(flat(hooked), flat(plain), rtol=1e-4, atol=1e-5)
    refuses(
        topknot.ConfigError,
        "do not go together",
        lambda: topknot.attach(network(), memory="residual", optimizer=momentum_sgd(plain.parameters())),
    )
    refuses(
        topknot.ConfigError,
        "before its first step",
        lambda: topknot.attach(network(), optimizer=outside),
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        topknot.attach(network(), "dgc")
        topknot.attach(network(), optimizer=momentum_sgd(plain.parameters(), momentum=0))
        topknot.attach(network(), density=1)
        assert said == []
        topknot.attach(network())
        topknot.attach(network())
    assert_told_once(said, "topknot.DistributedOptimizer(")


def assert_told_once(said, words: str) -> None:
    """By rank 0 alone."""
    found = [words in str(one.message) for one in said]
    assert found == ([True] if rank() == 0 else []), said


def the_learning_rate_reaches_the_memory():
    def trained(**options) -> torch.Tensor:
        torch.manual_seed(7)
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        topknot.attach(model, density=0.02, optimizer=optimizer, **options)
        for step in range(12):
            optimizer.param_groups[0]["lr"] = 0.1 if step < 6 else 0.01
            optimizer.zero_grad()
            backward(model, step)
            optimizer.step()
        return flat(model)

    inside = "residual:lr=inside"
    assert not torch.equal(trained(memory=inside), trained(memory="residual"))
    refuses(
        topknot.ConfigError, "needs the learning rate", lambda: topknot.attach(network(), memory=inside)
    )


def a_killed_rank_is_named():
    """Prints, on all others, the sentence, in one write so that no two lines mix."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's answer to the loss
    model = network()
    topknot.attach(model, density=0.01, timeout=20)
    train(model, 2)
    dist.barrier()
    if rank() == 1:
        os.kill(os.getpid(), 9)
    start = time.monotonic()
    try:
        train(model, 5)
    except RuntimeError as error:
        took = time.monotonic() - start
        os.write(1, f"rank {rank()} after {took:.1f} s: {error}\n".encode())
        time.sleep(1)  # the others must not depend on our leaving
    os._exit(0)


if __name__ == "__main__":
    main(globals())
