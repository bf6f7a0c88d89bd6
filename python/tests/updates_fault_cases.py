# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer that exchanges updates, where something goes wrong."""

import math
import warnings

import torch
from cases import main, rank, refuses, same_bits_everywhere
from ddp_cases import batch, flat, nothing_is_lost_by_undoing, residuals
from torch import nn
from updates_cases import RULES, Plain, backward, integers, made, moments, residual, sgd, train

import topknot


def a_step_that_is_not_finite_is_undone():
    def poison_gradient(model):
        if rank() == 1:
            model.body[0].weight.grad[3, 4] = math.inf

    def poison_change(optimizer):  # which no rank can know before the exchange
        if rank() == 1:
            optimizer.param_groups[0]["params"][0][3, 4] = math.inf

    for rules in ((), ("*=0.02",)):  # biases whole, and not
        model, optimizer = made(sgd, rules=rules)
        train(model, optimizer, 3)
        before, left = flat(model), residual(model, optimizer)
        moment = moments(model, optimizer, "momentum_buffer")
        backward(model, optimizer, 3)
        poison_gradient(model)
        gradients = [p.grad for p in model.parameters()]
        optimizer.step()
        unchanged(model, optimizer, before, left)
        assert all(p.grad is g for p, g in zip(model.parameters(), gradients, strict=True))
        if rank() == 1 or not rules:  # a rank that knew of it took no step
            assert torch.equal(moments(model, optimizer, "momentum_buffer"), moment)
        train(model, optimizer, 2, first=4)
        assert flat(model).isfinite().all() and not torch.equal(flat(model), before)

        model, optimizer = made(Plain, rules=rules)
        train(model, optimizer, 3)
        before, left = flat(model), residuals(optimizer)
        optimizer.meddle = poison_change
        train(model, optimizer, 1, first=3)
        assert torch.equal(flat(model), before)
        nothing_is_lost_by_undoing(left, residuals(optimizer), own_gradients(model))
        optimizer.meddle = lambda _: None
        train(model, optimizer, 1, first=4)
        assert same_bits_everywhere(flat(model)) and flat(model).isfinite().all()
        assert topknot.stats(optimizer)["steps"] == 5


def own_gradients(model) -> dict[str, torch.Tensor]:
    return {name: p.grad.reshape(-1) for name, p in model.named_parameters()}


def unchanged(model, optimizer, before, left) -> None:
    assert torch.equal(flat(model), before)
    now = residual(model, optimizer)
    assert torch.equal(now.view(torch.int32), left.view(torch.int32))
    assert topknot.stats(optimizer)["not_finite"] > 0


def a_grad_scaler_skips_on_all_ranks():
    model, optimizer = made()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(4):
        optimizer.zero_grad()
        x, y = batch(step)
        scaler.scale(nn.functional.cross_entropy(model(x), y)).backward()
        if step == 2 and rank() == 1:
            model.head.weight.grad[0, 0] = math.nan
        before, scale = flat(model), scaler.get_scale()
        topknot.synchronize(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(flat(model), before) == (step == 2)
        assert (scaler.get_scale() < scale) == (step == 2)
        assert same_bits_everywhere(flat(model))


def a_step_that_raises_leaves_the_agreed_weights():
    def fail(_):
        raise KeyError("out of sorts")

    class Failing(Plain):
        def __init__(self, parameters):
            super().__init__(parameters)
            for group in self.param_groups:
                group.update(weight_decay=0.5, decoupled_weight_decay=True)

    model, optimizer = made(Failing)
    twin, other = made(Failing)
    optimizer.meddle = fail
    refuses(KeyError, "out of sorts", lambda: train(model, optimizer, 1))
    optimizer.meddle = lambda _: None
    for one, its in ((model, optimizer), (twin, other)):
        integers(one, 1)
        its.step()
    assert torch.equal(flat(model), flat(twin))
    assert optimizer.param_groups[0]["weight_decay"] == 0.5
    optimizer.meddle = fail
    refuses(KeyError, "out of sorts", lambda: train(model, optimizer, 1))
    for its in (optimizer, other):
        topknot.settle(its)
    assert torch.equal(flat(model), flat(twin))


def weights_that_drift_apart_are_told():
    def normalise(optimizer):  # by a norm that is another on each rank
        with torch.no_grad():
            norm = sum(p.grad.norm() for g in optimizer.param_groups for p in g["params"])
            for group in optimizer.param_groups:
                for p in group["params"]:
                    p.sub_(p.grad / norm)

    model, optimizer = made(lambda p: Plain(p, lr=0.0, meddle=normalise))
    said = "rank 1 has other weights than rank 0 after 1 steps"
    refuses(topknot.DisagreementError, said, lambda: train(model, optimizer, 1))
    model, optimizer = made(lambda p: Plain(p, lr=0.0, meddle=normalise), rules=["*=0.02"])
    train(model, optimizer, 3)
    assert same_bits_everywhere(flat(model))


def refuses_what_cannot_be():
    for options, words in (
        ({"exchange": "weights"}, "is neither \"updates\" nor \"gradients\""),
        ({"memory": "dgc"}, "the memory is residual"),
        ({"gain": "sqrt"}, "gain='sqrt' is neither"),
        ({"gain": 0.0}, "gain=0.0 is neither"),
        ({"clip": -1.0}, "clip=-1.0 is no length"),
        ({"memory": "residual:lr=inside"}, "have the rate inside already"),
    ):
        refuses(topknot.ConfigError, words, lambda: made(**options))  # noqa: B023
    refuses(TypeError, "'densty'; nearest is 'density'", lambda: made(densty=0.1))
    for options, words in (
        ({"dense_vectors": "False"}, "dense_vectors='False' is not True or False."),
        ({"steps_per_epoch": 1.5}, "steps_per_epoch=1.5 is not a whole number."),
        ({"density": "low"}, "density='low' is not a number."),
        ({"rules": [1]}, "is not a list of texts."),
    ):
        refuses(topknot.ConfigError, words, lambda: made(**options))  # noqa: B023
    model, optimizer = made()
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    refuses(topknot.ConfigError, "not given by name", lambda: train(model, optimizer, 1))
    _, gradients = made(exchange="gradients")
    refuses(topknot.ConfigError, "cannot be settled", lambda: topknot.settle(gradients))
    _, dense = made(density=1)
    topknot.settle(dense)


def residuals_that_overflow_are_left():
    model, optimizer = made(sgd, rules=RULES, bucket_mb=25)
    train(model, optimizer, 3)
    state = topknot.state_dict(optimizer)
    state["values"]["head.weight/memory.residual"][0] = 3e38  # on all ranks: their sum is infinite
    topknot.load_state_dict(optimizer, state)
    before, left = flat(model), residual(model, optimizer)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        topknot.settle(optimizer)
    assert len(said) == 1 and "not finite" in str(said[0].message)
    assert torch.equal(flat(model), before)
    now = residual(model, optimizer)
    assert torch.equal(now.view(torch.int32), left.view(torch.int32))


if __name__ == "__main__":
    main(globals())
