# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer with local steps, where something goes wrong."""

import math

import torch
from cases import gathered, main, rank, refuses, same_bits_everywhere, size
from ddp_cases import Network, batch, flat, flat_grad, network
from rounds_cases import adam, made
from torch import nn
from updates_cases import Plain, backward, integers, moments, residual, round_weights, sgd, train

import topknot


def a_rank_skips_a_step_whose_gradient_is_not_finite():
    model, optimizer = made(lambda p: sgd(p, lr=0.5), local_steps=4)
    for step in range(4):
        before = flat(model)
        backward(model, optimizer, step)
        skips = rank() == 1 and step == 1
        if skips:
            model.body[0].weight.grad[3, 4] = math.inf
        gradients = [p.grad for p in model.parameters()]
        moment = None if step == 0 else moments(model, optimizer, "momentum_buffer")
        optimizer.step()
        assert all(p.grad is g for p, g in zip(model.parameters(), gradients, strict=True))
        assert torch.equal(flat(model), before) == skips
        if skips:
            assert torch.equal(moments(model, optimizer, "momentum_buffer"), moment)
    assert same_bits_everywhere(flat(model)) and flat(model).isfinite().all()
    said = topknot.stats(optimizer)
    assert (said["steps"], said["not_finite"]) == (4, 0)
    assert said["skipped_steps"] == (1 if rank() == 1 else 0)


def a_gradient_whose_norm_overflows_is_finite():
    for options in ({}, {"density": 0.25}):
        model, optimizer = made(lambda p: Plain(p, lr=1e-30), **options)
        before = flat(model)
        for p in model.parameters():
            p.grad = torch.full_like(p, 1e30)
        optimizer.step()
        topknot.end_round(optimizer)
        assert not torch.equal(flat(model), before)
        said = topknot.stats(optimizer)
        assert (said["skipped_steps"], said["not_finite"]) == (0, 0)


def a_skipped_step_is_all_that_is_missing():
    model, optimizer = made(lambda p: Plain(p, lr=0.5))
    round_weights(model)
    before = flat(model)
    changes = torch.zeros_like(before)
    for step in range(8):
        integers(model, step)
        if step in (1, 3) and rank() == 1:  # in the middle, and at the end of a round
            model.head.bias.grad[2] = math.nan
        else:
            changes += 0.5 * flat_grad(model)
        optimizer.step()
    left = sum(gathered(residual(model, optimizer)))
    assert torch.equal((before - flat(model)) * size() + left, sum(gathered(changes)))


def a_change_that_is_not_finite_drops_the_round():
    def overflow(optimizer):
        if rank() == 1:
            optimizer.param_groups[0]["params"][0][3, 4] = math.inf

    for optimizer, moment in ((sgd, "momentum_buffer"), (adam, "exp_avg")):
        model, wrapped = made(optimizer, bucket_mb=25, dense_vectors=False)
        train(model, wrapped, 4)
        before, left = flat(model), residual(model, wrapped)
        train(model, wrapped, 2, first=4)
        with torch.no_grad():
            overflow(wrapped)
        with_inf = flat(model)
        assert not torch.equal(with_inf, before)
        for step in (6, 7):  # the gradients are finite
            integers(model, step)
            wrapped.step()
        assert torch.equal(flat(model), before)
        now = residual(model, wrapped)  # there is one bucket
        assert torch.equal(now.view(torch.int32), left.view(torch.int32))
        assert moments(model, wrapped, moment).count_nonzero() == 0
        said = topknot.stats(wrapped)
        assert (said["steps"], said["exchanges"], said["not_finite"]) == (8, 2, 1)
        train(model, wrapped, 4, first=8)
        assert same_bits_everywhere(flat(model)) and flat(model).isfinite().all()
        assert not torch.equal(flat(model), before)


def a_grad_scaler_skips_alone_but_for_the_last_step():
    """A rank that skips a step does not call optimizer.step(), and still counts it."""
    model, optimizer = made(sgd)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(9):
        optimizer.zero_grad()
        x, y = batch(step)
        scaler.scale(nn.functional.cross_entropy(model(x), y)).backward()
        alone = rank() == 1 and step in (0, 2)
        together = step == 3  # the last step of the first round
        if alone or (together and rank() == 0):
            model.head.weight.grad[0, 0] = math.nan
        before, scale = flat(model), scaler.get_scale()
        sent = topknot.stats(optimizer)["sent_bytes"]
        topknot.synchronize(optimizer)
        scaler.step(optimizer)
        scaler.update()
        skips = alone or together
        assert torch.equal(flat(model), before) == skips
        assert (scaler.get_scale() < scale) == skips
        ends = step in (4, 8)  # the first round is longer by the step that all have skipped
        assert (topknot.stats(optimizer)["sent_bytes"] > sent) == ends
        assert same_bits_everywhere(flat(model)) == ends
    assert topknot.stats(optimizer)["steps"] == 8


def a_round_that_a_scaler_has_skipped_is_ended_early():
    model, optimizer = made(sgd)
    before = flat(model)
    for step in range(2):
        backward(model, optimizer, step)
        topknot.synchronize(optimizer)
        if rank() == 0:
            optimizer.step()
    topknot.end_round(optimizer)
    assert same_bits_everywhere(flat(model)) and not torch.equal(flat(model), before)
    train(model, optimizer, 3, first=2)
    assert not same_bits_everywhere(flat(model))
    train(model, optimizer, 1, first=5)
    assert same_bits_everywhere(flat(model))


def a_step_that_raises_counts():
    def fail(_):
        raise KeyError("out of sorts")

    class Failing(Plain):
        def __init__(self, parameters):
            super().__init__(parameters, lr=0.5)
            for group in self.param_groups:
                group.update(weight_decay=0.5, decoupled_weight_decay=True)

    for failing in (1, 3):  # in the middle, and at the end of a round
        model, optimizer = made(Failing)
        for step in range(8):
            integers(model, step)
            raises = step == failing and rank() == 1
            optimizer.meddle = fail if raises else lambda _: None
            if raises:
                refuses(KeyError, "out of sorts", optimizer.step)
            else:
                optimizer.step()
        assert optimizer.param_groups[0]["weight_decay"] == 0.5
        assert same_bits_everywhere(flat(model))
        assert topknot.stats(optimizer)["exchanges"] == 2


def weights_that_drift_apart_are_told():
    model, optimizer = made(sgd, local_steps=2, broadcast=False)
    with torch.no_grad():
        model.head.bias[0] = rank()
    said = "rank 1 has other weights than rank 0 after 1 exchanges"
    train(model, optimizer, 1)
    refuses(topknot.DisagreementError, said, lambda: train(model, optimizer, 1))


def refuses_what_cannot_be():
    of_updates = "is for an exchange of updates"
    for options, words in (
        ({"exchange": "gradients", "budget": 0.02}, f"budget {of_updates}"),
        ({"exchange": "gradients", "local_steps": 4}, f"local_steps {of_updates}"),
        ({"budget": 0.02, "density": 0.01}, "A budget decides the density"),
        ({"budget": 0.02, "local_steps": 2}, "A budget decides the local steps"),
        ({"budget": 2.0}, "is no share of a dense exchange's bytes"),
        ({"budget": 0.0}, "budget=0.0 cannot be: it is a number above 0."),
        ({"budget": math.nan}, "budget=nan cannot be"),
        ({"density": 0}, "density=0.0 cannot be"),
        ({"density": 1.5}, "is no share of the coordinates"),
        ({"local_steps": 0}, "local_steps=0 cannot be"),
        ({"local_steps": -1}, "local_steps=-1 cannot be"),
        ({"local_steps": 2**70}, "cannot be"),
        ({"local_steps": 1.5}, "local_steps=1.5 is not a whole number."),
        ({"budget": "little"}, "budget='little' is not a number."),
        ({"scheme": "knott"}, "nearest is knot"),
    ):
        refuses(topknot.ConfigError, words, lambda: made(**options))  # noqa: B023
    attach = lambda: topknot.attach(network(), budget=0.02)  # noqa: E731
    refuses(topknot.ConfigError, f"budget {of_updates}", attach)
    reduce = lambda: topknot.SparseAllreduce(local_steps=2)  # noqa: E731
    refuses(topknot.ConfigError, f"local_steps {of_updates}", reduce)
    reduce = lambda: topknot.SparseAllreduce(exchange="updates", local_steps=2)  # noqa: E731
    refuses(topknot.ConfigError, "is for topknot.DistributedOptimizer()", reduce)
    refuses(topknot.ConfigError, "nothing to do with topknot",
            lambda: topknot.end_round(torch.optim.SGD(Network().parameters(), 0.1)))  # fmt: skip
    model, optimizer = made()
    train(model, optimizer, 1)
    for call in (topknot.state_dict, topknot.gather_state_dict):
        words = "call topknot.end_round(optimizer) on all ranks before"
        refuses(topknot.ConfigError, words, lambda: call(optimizer))  # noqa: B023
    topknot.end_round(optimizer)
    topknot.state_dict(optimizer)
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    refuses(topknot.ConfigError, "not given by name", lambda: train(model, optimizer, 1))


if __name__ == "__main__":
    main(globals())
