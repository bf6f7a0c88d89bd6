# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer that exchanges updates."""

import copy
import math

import torch
from cases import gathered, main, rank, refuses, same_bits_everywhere, size
from clusters import last_loss
from ddp_cases import Network, batch, residuals, flat, flat_grad, network
from torch import nn

import topknot

SMALL = {"density": 0.02, "bucket_mb": 0.01}  # several buckets
RULES = ["head.weight=0.08", "body.0.weight=0.05"]  # several densities


class Lion(torch.optim.Optimizer):
    """Moves by the sign of a mean, whose name in the state is known."""

    def __init__(self, parameters, lr=0.01):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                mean = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.sub_(torch.sign(0.9 * mean + 0.1 * p.grad), alpha=group["lr"])
                mean.mul_(0.99).add_(p.grad, alpha=0.01)


class Plain(torch.optim.Optimizer):
    """Subtracts gradients times `lr`, after a call of `meddle`; has no state."""

    def __init__(self, parameters, lr=1.0, meddle=lambda optimizer: None):
        super().__init__(parameters, {"lr": lr})
        self.meddle = meddle

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad, alpha=group["lr"])
        self.meddle(self)


def sgd(parameters, **options):
    return torch.optim.SGD(parameters, **{"lr": 0.1, "momentum": 0.9, **options})


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)


def made(optimizer=sgd, **options):
    """A model and its optimizer."""
    torch.manual_seed(7)
    model = Network()
    options = {**SMALL, **options}
    return model, topknot.DistributedOptimizer(
        optimizer(model.parameters()), model.named_parameters(), **options
    )


def backward(model, optimizer, step: int, **forward) -> None:
    optimizer.zero_grad()
    x, y = batch(step)
    nn.functional.cross_entropy(model(x, **forward), y).backward()


def train(model, optimizer, steps: int, first: int = 0, **forward) -> None:
    for step in range(first, first + steps):
        backward(model, optimizer, step, **forward)
        optimizer.step()


def trained(steps: int, optimizer=sgd, **options) -> torch.Tensor:
    model, optimizer = made(optimizer, **options)
    train(model, optimizer, steps)
    return flat(model)


def density_one_is_an_exchange_of_gradients():
    for options in ({"density": 1}, {"scheme": "dense"}, {"scheme": "dense-bf16"}):
        gradients = trained(10, adamw, exchange="gradients", **options)
        assert torch.equal(trained(10, adamw, **options), gradients)


def a_schedule_that_begins_dense_is_the_dense_optimizer():
    for optimizer in (sgd, adamw):
        dense = trained(6, optimizer, exchange="gradients", density=1)
        warm = trained(6, optimizer, schedule="dense:steps=6")
        torch.testing.assert_close(warm, dense, rtol=1e-5, atol=1e-6)
        assert not torch.equal(trained(7, optimizer, schedule="dense:steps=6"), dense)


def a_rule_is_sparse_where_all_else_is_sent_whole():
    rule = "body.0.weight=0.05"
    model, optimizer = made(sgd, density=1, rules=rule)
    train(model, optimizer, 3)
    assert residual(model, optimizer).count_nonzero() > 0
    assert same_bits_everywhere(flat(model))


def ranks_keep_the_same_bits():
    for optimizer in (
        sgd,
        lambda p: sgd(p, nesterov=True, weight_decay=0.01),
        lambda p: torch.optim.Adam(p, lr=0.01),
        adamw,
        torch.optim.RMSprop,
        Lion,
        lambda p: Plain(p, lr=0.1),
    ):
        model, wrapped = made(optimizer)
        torch.optim.lr_scheduler.StepLR(wrapped, 2, 0.5)
        before = flat(model)
        for step in range(6):
            use_all = step % 2 == 0 or rank() == 0  # some have no gradient on some ranks
            train(model, wrapped, 1, step, use_all=use_all)
            assert same_bits_everywhere(flat(model))
        assert not torch.equal(flat(model), before), "nothing was trained"
        said = topknot.stats(wrapped)
        assert said["steps"] == 6 and 0 < said["sent_bytes"] < said["dense_bytes"]


def weights_of_any_type_keep_the_same_bits():
    for kind in (torch.bfloat16, torch.float64):
        torch.manual_seed(7)
        model = Network().to(kind)
        optimizer = topknot.DistributedOptimizer(
            torch.optim.AdamW(model.parameters(), lr=0.01), model.named_parameters(), **SMALL
        )
        before = model.head.weight.detach().clone()
        for step in range(4):
            optimizer.zero_grad()
            x, y = batch(step)
            nn.functional.cross_entropy(model(x.to(kind)).float(), y).backward()
            optimizer.step()
        for p in model.parameters():
            assert same_bits_everywhere(p.detach())
        assert not torch.equal(model.head.weight, before), "nothing was trained"


def integers(model, step: int, owner: int | None = None) -> None:
    """Whole numbers for gradients."""
    torch.manual_seed(100 * step + (rank() if owner is None else owner))
    for p in model.parameters():
        p.grad = torch.randint(-50, 50, p.shape).float()


def round_weights(model) -> None:
    with torch.no_grad():
        for p in model.parameters():
            p.copy_((p * 100).round())


def nothing_is_lost():
    """sum of all local changes = moves applied * P + sum of the residuals."""
    for options in ({}, {"bucket_mb": 25}, {"rules": RULES}, {"scheme": "topka"}):
        model, optimizer = made(Plain, **options)
        round_weights(model)
        before = flat(model)
        changes = torch.zeros_like(before)
        for step in range(5):
            integers(model, step)
            changes += flat_grad(model)
            optimizer.step()
        applied = before - flat(model)
        left = sum(gathered(residual(model, optimizer)))
        assert left.count_nonzero() > left.numel() / 3, "there is little to be lost"
        assert torch.equal(applied * size() + left, sum(gathered(changes)))
        sent = topknot.stats(optimizer)["sent_bytes"]
        topknot.settle(optimizer)
        assert residual(model, optimizer).count_nonzero() == 0
        assert torch.equal((before - flat(model)) * size(), sum(gathered(changes)))
        assert same_bits_everywhere(flat(model))
        assert topknot.stats(optimizer)["sent_bytes"] > sent + 2 * left.numel()
        train(model, optimizer, 1)


def residual(model, optimizer) -> torch.Tensor:
    """Of all parameters in their order; zeros where there can be none."""
    kept = residuals(optimizer)
    return torch.cat([
        kept.get(f"{name}/memory.residual", torch.zeros(p.numel()))
        for name, p in model.named_parameters()
    ])  # fmt: skip


def moments(model, optimizer, name: str) -> torch.Tensor:
    return torch.cat([optimizer.state[p][name].reshape(-1) for p in model.parameters()])


def matrices(model) -> torch.Tensor:
    """Which coordinates are of parameters that are sparsified."""
    return torch.cat([torch.full((p.numel(),), p.dim() > 1) for p in model.parameters()])


def first_moments_are_masked_where_this_rank_was_settled():
    for optimizer, name in ((sgd, "momentum_buffer"), (adamw, "exp_avg"), (Lion, "exp_avg")):
        for options in ({}, {"rules": RULES}, {"scheme": "topka"}):
            model, wrapped = made(optimizer, **options)
            integers(model, 0)
            for p in model.parameters():
                p.grad += 60  # no zeros, so that a residual of zero is one that was settled
            wrapped.step()
            settled = (residual(model, wrapped) == 0) & matrices(model)
            masked = moments(model, wrapped, name) == 0
            assert 0 < settled.sum() < matrices(model).sum() / 2
            assert torch.equal(masked, settled)
    model, unmasked = made(sgd, first_moments=())
    integers(model, 0)
    for p in model.parameters():
        p.grad += 60
    unmasked.step()
    assert (moments(model, unmasked, "momentum_buffer") != 0).all()
    model, rounded = made(sgd, collective="knot:values=bf16")  # which leaves residuals
    integers(model, 0)
    for p in model.parameters():
        p.grad = (p.grad + 60) / 3
    rounded.step()
    masked = moments(model, rounded, "momentum_buffer") == 0
    assert masked.sum() > 0 and (residual(model, rounded)[masked] != 0).any()


def gain_is_for_second_moments():
    """With the same gradient on all ranks all move alike, by `lr` in the first step of Adam."""
    cases = [
        (lambda p: torch.optim.Adam(p, lr=0.01), {}, 0.01 * math.sqrt(size())),
        (lambda p: torch.optim.Adam(p, lr=0.01), {"gain": 3}, 0.03),
        (lambda p: Lion(p, lr=0.01), {}, 0.01),
    ]
    for optimizer, options, expected in cases:
        model, wrapped = made(optimizer, **options)
        before = flat(model)
        integers(model, 0, owner=0)
        for p in model.parameters():
            p.grad += 60
        wrapped.step()
        moved = (before - flat(model) + residual(model, wrapped))[matrices(model)]
        torch.testing.assert_close(moved, torch.full_like(moved, expected), rtol=1e-3, atol=0)
        moved = (before - flat(model))[~matrices(model)]  # one optimizer on the mean
        torch.testing.assert_close(moved, torch.full_like(moved, 0.01), rtol=1e-3, atol=0)


def decoupled_decay_is_of_the_agreed_weights():
    model, optimizer = made(adamw)
    before = flat(model)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    assert torch.equal(flat(model), before * (1 - 0.01 * 0.1))
    assert residual(model, optimizer).count_nonzero() == 0
    assert optimizer.param_groups[0]["weight_decay"] == 0.1


def clip_is_for_each_ranks_own_gradient():
    for density in (0.02, 1):
        model, optimizer = made(Plain, clip=1e-2, density=density)
        before = flat(model)
        integers(model, 0, owner=0)
        optimizer.step()
        moved = before - flat(model) + residual(model, optimizer)
        expected = torch.tensor(1e-2 * math.sqrt(size()))
        torch.testing.assert_close(moved.norm(), expected, rtol=1e-2, atol=0)


def updates_train_better_than_gradients():
    """With 1 % sent: with momentum of 0.9, and with Adam."""
    for optimizer in (lambda p: sgd(p, lr=0.2), lambda p: torch.optim.Adam(p, lr=0.003)):
        updates = last_loss(optimizer, 150, density=0.01)
        gradients = last_loss(optimizer, 150, density=0.01, exchange="gradients")
        assert updates < 0.6 * gradients, f"{updates} with updates, {gradients} with gradients"


def resumes_to_the_same_bits():
    for optimizer, options in ((sgd, {"exchange": "gradients"}), (sgd, {}), (adamw, {})):
        model, wrapped = made(optimizer, **options)
        train(model, wrapped, 4)
        saved = copy.deepcopy(
            (model.state_dict(), wrapped.state_dict(), topknot.state_dict(wrapped))
        )
        together = topknot.gather_state_dict(wrapped)
        train(model, wrapped, 4, first=4)
        again, other = made(optimizer, **options)
        again.load_state_dict(saved[0])
        other.load_state_dict(saved[1])
        topknot.load_state_dict(other, saved[2])
        train(again, other, 4, first=4)
        assert torch.equal(flat(again), flat(model))
        assert torch.equal(residual(again, other), residual(model, wrapped))
        assert (together is not None) == (rank() == 0)
    model, gradients = made(sgd, exchange="gradients")
    refuses(
        topknot.ConfigError,
        "is of an exchange of updates, and this is one of gradients",
        lambda: topknot.load_state_dict(gradients, saved[2]),
    )


if __name__ == "__main__":
    main(globals())
