# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer with local steps: rounds that end in an exchange."""

import copy
import math

import torch
from cases import gathered, main, rank, same_bits_everywhere, size
from clusters import last_loss
from ddp_cases import Network, batch, flat, flat_grad
from torch import nn
from updates_cases import (
    Lion,
    Plain,
    adamw,
    integers,
    matrices,
    moments,
    residual,
    round_weights,
    sgd,
    train,
)

import topknot


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


class OwnAdamW(torch.optim.AdamW):
    """One of which nobody knows how it uses its rate."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.01, weight_decay=0.1)


def made(optimizer=sgd, kind=torch.float32, **options):
    """A model and its optimizer, with several buckets and nothing set."""
    torch.manual_seed(7)
    model = Network().to(kind)
    options = {"bucket_mb": 0.01, **options}
    return model, topknot.DistributedOptimizer(
        optimizer(model.parameters()), model.named_parameters(), **options
    )


def spends(optimizer) -> tuple[int, float, str]:
    said = topknot.stats(optimizer)
    return said["local_steps"], said["asked_density"], said["values"]


def one_local_step_is_an_exchange_on_every_step():
    for optimizer in (sgd, adamw, Lion):
        weights = []
        for options in ({}, {"local_steps": 1}):
            model, wrapped = made(optimizer, density=0.02, **options)
            train(model, wrapped, 5)
            assert spends(wrapped) == (1, 0.02, "f32")
            weights.append(flat(model))
        assert torch.equal(*weights)


def what_is_set_decides_the_rest():
    for options, expected in (
        ({}, (4, 0.25, "i2")),
        ({"density": 0.01}, (1, 0.01, "f32")),
        ({"local_steps": 2}, (2, 0.25, "i2")),
        ({"local_steps": 2, "density": 0.1}, (2, 0.1, "f32")),
        ({"budget": 1 / 160}, (10, 0.25, "i2")),
        ({"budget": 0.5}, (1, 0.25, "i8")),
        ({"collective": "knot:values=bf16"}, (4, 0.25, "bf16")),
        ({"collective": "topka"}, (4, 0.25, "i2")),
        ({"scheme": "topka"}, (1, 0.01, "f32")),
        ({"scheme": "topka", "local_steps": 2}, (2, 0.25, "i2")),
        ({"scheme": "topka", "budget": 0.01}, (7, 0.25, "i2")),
        ({"scheme": "dense", "local_steps": 3}, (3, 0.25, "f32")),
        ({"exchange": "gradients"}, (1, 0.01, "f32")),
    ):
        _, optimizer = made(**options)
        assert spends(optimizer) == expected, f"{options}: {spends(optimizer)}"


def dense_rounds_are_the_mean_of_local_sgd():
    for options in ({"scheme": "dense"}, {"density": 1}):
        model, optimizer = made(sgd, **{"density": 1, **options}, local_steps=3)
        torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        twin = copy.deepcopy(model)
        own = sgd(twin.parameters())
        for step in range(9):
            for group in own.param_groups:
                group["lr"] = optimizer.param_groups[0]["lr"]
            for one, its in ((model, optimizer), (twin, own)):
                for half in range(2):  # gradients are accumulated
                    x, y = batch(2 * step + half)
                    nn.functional.cross_entropy(one(x), y).backward()
                its.step()
                its.zero_grad()
            if step % 3 == 2:
                assert same_bits_everywhere(flat(model))
                with torch.no_grad():
                    for p in twin.parameters():
                        p.copy_(sum(gathered(p.detach())) / size())
            torch.testing.assert_close(flat(model), flat(twin), rtol=1e-5, atol=1e-7)


def nothing_set_exchanges_on_every_fourth_step():
    for optimizer in (sgd, adam, adamw, torch.optim.RMSprop, Lion):
        model, wrapped = made(optimizer)
        before, sent = flat(model), 0
        for step in range(12):
            use_all = step % 2 == 0 or rank() == 0  # some have no gradient on some ranks
            train(model, wrapped, 1, step, use_all=use_all)
            now = topknot.stats(wrapped)["sent_bytes"]
            ends = step % 4 == 3
            assert (now > sent) == ends, "something was sent in the middle of a round"
            assert same_bits_everywhere(flat(model)) == ends
            sent = now
        assert not torch.equal(flat(model), before), "nothing was trained"
        said = topknot.stats(wrapped)
        assert (said["steps"], said["exchanges"], said["not_finite"]) == (12, 3, 0)
        dense = 12 * 8 * before.numel() * (size() - 1) / size()
        assert abs(said["dense_bytes"] - dense) <= 8
        assert sum(one["dense_bytes"] for one in said["buckets"]) <= said["dense_bytes"]
        assert said["sent_share"] == said["sent_bytes"] / said["dense_bytes"] < 1 / 10
        assert residual(model, wrapped).count_nonzero() > 0


def weights_of_any_type_are_the_same_bits_after_a_round():
    for kind in (torch.bfloat16, torch.float64):
        model, optimizer = made(adamw, kind)
        before = model.head.weight.detach().clone()
        for step in range(8):
            optimizer.zero_grad()
            x, y = batch(step)
            nn.functional.cross_entropy(model(x.to(kind)).float(), y).backward()
            optimizer.step()
        for p in model.parameters():
            assert same_bits_everywhere(p.detach())
        assert not torch.equal(model.head.weight, before), "nothing was trained"


def nothing_is_lost():
    """sum of all changes of all ranks = moves applied * P + sum of the residuals."""
    for options in (
        {"local_steps": 4, "density": 0.25},
        {"local_steps": 4},
        {"local_steps": 3, "density": 0.02, "rules": ["head.weight=0.08"]},
        {"local_steps": 2, "scheme": "topka"},
        {"budget": 0.02, "bucket_mb": 25},
    ):
        model, optimizer = made(lambda p: Plain(p, lr=0.5), **options)
        round_weights(model)
        before = flat(model)
        changes = torch.zeros_like(before)
        for step in range(11):  # the last round is ended early
            integers(model, step)
            changes += 0.5 * flat_grad(model)
            optimizer.step()
        topknot.end_round(optimizer)
        applied = before - flat(model)
        left = sum(gathered(residual(model, optimizer)))
        assert left.count_nonzero() > left.numel() / 3, "there is little to be lost"
        assert left[~matrices(model)].count_nonzero() == 0
        assert torch.equal(applied * size() + left, sum(gathered(changes)))
        assert same_bits_everywhere(flat(model))
        integers(model, 11)
        changes += 0.5 * flat_grad(model)
        optimizer.step()
        topknot.settle(optimizer)  # which ends the round first
        assert residual(model, optimizer).count_nonzero() == 0
        assert torch.equal((before - flat(model)) * size(), sum(gathered(changes)))
        assert same_bits_everywhere(flat(model))
        assert topknot.stats(optimizer)["steps"] == 12


def a_round_is_ended_early():
    model, optimizer = made(sgd)
    topknot.end_round(optimizer)  # there is none
    assert topknot.stats(optimizer)["exchanges"] == 0
    train(model, optimizer, 2)
    assert not same_bits_everywhere(flat(model))
    topknot.end_round(optimizer)
    assert same_bits_everywhere(flat(model))
    said = topknot.stats(optimizer)
    assert (said["steps"], said["exchanges"]) == (2, 1)
    topknot.end_round(optimizer)
    assert topknot.stats(optimizer)["sent_bytes"] == said["sent_bytes"]
    train(model, optimizer, 3, first=2)
    assert not same_bits_everywhere(flat(model)), "a round after it is as long as any"
    train(model, optimizer, 1, first=5)
    assert same_bits_everywhere(flat(model))
    for options in ({"density": 0.02}, {"density": 1}, {"exchange": "gradients"}):
        model, optimizer = made(sgd, **options)
        train(model, optimizer, 1)
        before = topknot.stats(optimizer)["sent_bytes"]
        topknot.end_round(optimizer)
        assert topknot.stats(optimizer)["sent_bytes"] == before


def resumes_to_the_same_bits():
    for optimizer in (sgd, adamw):
        model, wrapped = made(optimizer)
        train(model, wrapped, 6)
        topknot.end_round(wrapped)
        saved = copy.deepcopy(
            (model.state_dict(), wrapped.state_dict(), topknot.state_dict(wrapped))
        )
        together = topknot.gather_state_dict(wrapped)
        assert (together is not None) == (rank() == 0)
        train(model, wrapped, 8, first=6)
        again, other = made(optimizer)
        train(again, other, 1)  # a round under way is dropped
        again.load_state_dict(saved[0])
        other.load_state_dict(saved[1])
        topknot.load_state_dict(other, saved[2])
        assert topknot.stats(other)["steps"] == 6
        train(again, other, 8, first=6)
        assert torch.equal(flat(again), flat(model))
        assert torch.equal(residual(again, other), residual(model, wrapped))
        for key in ("steps", "exchanges"):
            assert topknot.stats(other)[key] == topknot.stats(wrapped)[key]
        assert topknot.stats(wrapped)["steps"] == 14


def gain_is_for_every_local_change_and_not_for_decay():
    """With a constant gradient Adam moves by `lr` on every step."""
    root = math.sqrt(size())
    for optimizer, options, gain, decay in (
        (adam, {}, root, 0),
        (adam, {"gain": 3}, 3, 0),
        (adamw, {}, root, 0.01 * 0.1),
        (OwnAdamW, {}, root, 0.01 * 0.1),
        (OwnAdamW, {"gain": 1}, 1, 0.01 * 0.1),
        (lambda p: Lion(p, lr=0.01), {}, 1, 0),
        (lambda p: sgd(p, momentum=0, lr=0.01), {"gain": 2}, 2, 0),
    ):
        model, wrapped = made(optimizer, **options)
        expected = flat(model)
        for step in range(4):
            for p in model.parameters():
                p.grad = torch.ones_like(p)
            wrapped.step()
            expected = expected * (1 - decay) - gain * 0.01
            now = flat(model)
            if step == 3:  # all ranks had the same change: what is not sent is in the residual
                now = now - residual(model, wrapped)
            torch.testing.assert_close(now, expected, rtol=1e-4, atol=1e-5)
            assert wrapped.param_groups[0]["lr"] == 0.01
        if decay:
            assert wrapped.param_groups[0]["weight_decay"] == 0.1


def clip_is_for_each_local_gradient():
    model, optimizer = made(Plain, clip=1e-2)
    for step in range(3):
        before = flat(model)
        integers(model, step)
        optimizer.step()
        expected = torch.tensor(1e-2 * math.sqrt(size()))
        torch.testing.assert_close((before - flat(model)).norm(), expected, rtol=1e-2, atol=0)


def first_moments_stay():
    model, optimizer = made(sgd, density=0.02, local_steps=2)
    for step in range(2):
        integers(model, step)
        for p in model.parameters():
            p.grad += 60
        optimizer.step()
    assert (moments(model, optimizer, "momentum_buffer") != 0).all()


def second_moments_are_averaged_every_64_rounds():
    model, optimizer = made(adam, local_steps=2)

    def squares() -> list[torch.Tensor]:
        return gathered(torch.cat([s["exp_avg_sq"].flatten() for s in optimizer.state.values()]))

    train(model, optimizer, 2 * 63)
    before, sent = squares(), topknot.stats(optimizer)["sent_bytes"]
    assert not torch.equal(before[0], before[1])
    train(model, optimizer, 1)
    topknot.end_round(optimizer)  # the round of an exchange may end early
    after = squares()
    assert torch.equal(after[0], after[1])
    assert (after[0] >= 0).all() and (after[0] > 0).any()
    count = sum(p.numel() for p in model.parameters())
    assert topknot.stats(optimizer)["sent_bytes"] - sent > 2 * count * (size() - 1) / size()


def rows_of_second_moments_have_the_mean_of_all_ranks():
    torch.manual_seed(1)
    model = torch.nn.Linear(600, 4)  # long rows: they are due after each round
    optimizer = topknot.DistributedOptimizer(
        torch.optim.Adam(model.parameters()), model.named_parameters(), local_steps=2
    )
    rank = torch.distributed.get_rank()
    for _ in range(2):
        for p in model.parameters():
            p.grad = torch.full_like(p, rank + 1.0)
        model.weight.grad[0] = 1.0 if rank == 0 else 0.0  # one rank alone sees the row
        optimizer.step()
    one = 1 - 0.999**2  # two gradients of 1
    mean = one * sum((r + 1) ** 2 for r in range(size())) / size()
    for squares in gathered(optimizer.state[model.weight]["exp_avg_sq"].flatten()):
        rows = squares.view(4, 600)
        torch.testing.assert_close(rows[0], torch.full((600,), one / size()), rtol=0.02, atol=0)
        torch.testing.assert_close(rows[1:], torch.full((3, 600), mean), rtol=0.02, atol=0)


def nothing_set_trains_as_well_as_dense():
    """With momentum of 0.9 and with Adam."""
    for optimizer in (lambda p: sgd(p, lr=0.2), lambda p: torch.optim.Adam(p, lr=0.002)):
        ours = last_loss(optimizer, 200, rate_ends_at=0.05)
        dense = last_loss(optimizer, 200, rate_ends_at=0.05, scheme="dense")
        assert ours < 1.1 * dense, f"{ours}, and {dense} with dense"


if __name__ == "__main__":
    main(globals())
