# SPDX-License-Identifier: Apache-2.0
"""Selection on a device, for which tests/stand_in.py stands in: the same bits as on the host."""

import contextlib
import threading

import torch
from cases import main, rank, refuses, same_bits_everywhere
from ddp_cases import backward, flat, flat_grad, network
from stand_in import Queue, StandIn

import topknot
from topknot import _session
from topknot._device_queue import HostBuffers

ON_DEVICES = {
    "topka": "topka", "topka:reselect=1": "topka", "allgather_fast": "topka", "topkdsa": "topkdsa",
    "ssar": "topka", "gtopk": "gtopk", "gtopk:schedule=tree": "gtopk", "spardl": "spardl",
    "oktopk": "topka", "knot": "knot", "cltk": "cltk",
}  # fmt: skip
ON_THE_HOST = ("dense", "hierarchical", "deft", "exdyna", "micro")


@contextlib.contextmanager
def device(late: bool = True):
    """Sessions that are opened inside take tensors to be on a device."""
    _session.stand_in = StandIn(late)
    try:
        yield _session.stand_in
    finally:
        _session.stand_in = None


def gradient(step: int, n: int, kind: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * step + rank())
    x = torch.randn(n, generator=generator) ** 3
    x[:: max(n // 50, 1)] = 0.25  # some tie
    return x.to(kind)


def spread_over_kernels(stand_in: StandIn, wanted: torch.Tensor) -> torch.Tensor:
    """A tensor that has these values only when its kernels have run."""
    x = torch.full_like(wanted, torch.nan)
    stand_in.kernels.run(lambda: x.copy_(wanted))
    return x


def reduced_on_both(steps: int, n: int, kind=torch.float32, **options) -> tuple[float, float]:
    """Holds a device to the host, step by step, and the state behind them. Returns how many bytes
    of a step went to the host, and how many to the device."""
    host = topknot.SparseAllreduce(select_on="host", **options)
    with device() as stand_in:
        other = topknot.SparseAllreduce(select_on="device", **options)
    for step in range(steps):
        expected = host(gradient(step, n, kind))
        found = other(spread_over_kernels(stand_in, gradient(step, n, kind)))
        assert stand_in.queue.pending() > 0, "the communication thread has waited for the mean"
        stand_in.queue.finish()
        assert torch.equal(found, expected), (options, n, step)
        assert same_bits_everywhere(expected.float())
    moved = stand_in.queue.host_bytes / steps, stand_in.queue.device_bytes / steps
    mine, theirs = (topknot.state_dict(one)["values"] for one in (other, host))
    kept = [key for key in theirs if "/memory." in key]
    assert kept, theirs.keys()
    for key in kept:
        same = mine[key] == theirs[key]
        assert same.all() if isinstance(same, torch.Tensor) else same, (options, n, key)
    host._session.core.close()
    other._session.core.close()
    return moved


def every_collective_has_the_bits_of_the_host():
    for collective, scheme in ON_DEVICES.items():
        for n, density in ((1, 1.0), (7, 0.5), (5003, 0.02)):
            reduced_on_both(
                4, n, scheme=scheme, compressor="topk", collective=collective, density=density,
                schedule="constant",
            )  # fmt: skip


def rounding_errors_go_back_to_the_device():
    for collective, scheme in ON_DEVICES.items():
        with_values = collective + ("," if ":" in collective else ":") + "values=bf16"
        reduced_on_both(
            4, 3001, scheme=scheme, compressor="topk", collective=with_values, density=0.02,
            schedule="constant",
        )  # fmt: skip


def memories_and_halves_have_the_bits_of_the_host():
    for memory in ("residual:decay=0.9", "dgc", "dgc:nesterov=1,momentum=0.8", "dgc:masking=0"):
        for scheme in ("knot", "gtopk", "cltk"):
            reduced_on_both(5, 3001, scheme=scheme, memory=memory, density=0.02)
    for kind in (torch.bfloat16, torch.float16, torch.float64):
        reduced_on_both(3, 3001, kind, scheme="knot", density=0.02)
    reduced_on_both(3, 3001, scheme="knot", density=1.0)


def a_hundredth_of_the_bytes_cross_the_bus():
    n, steps = 400_000, 3
    # gtopk puts back what it dropped of other ranks' values.
    for scheme, most in {"knot": 0.025, "gtopk": 0.045}.items():
        down, up = reduced_on_both(steps, n, scheme=scheme, density=0.01)
        if rank() == 0:
            print(f"{scheme}: {down / (4 * n):.3%} to the host, {up / (4 * n):.3%} to the device")
        for bytes_moved in (down, up):
            assert bytes_moved <= most * 4 * n + 1024, (scheme, bytes_moved / (4 * n))


def whoever_hands_in_a_gradient_waits_for_nothing():
    with device() as stand_in:
        reduce = topknot.SparseAllreduce(scheme="knot", density=0.1)
    core = reduce._session.core
    slot = core.add_slot([("x", [500])], torch.device("cpu"))
    stand_in.gate = threading.Event()
    tensors = [spread_over_kernels(stand_in, gradient(step, 500)) for step in range(3)]
    tickets = [core.reduce(slot, x) for x in tensors]  # no kernel has run
    assert all(x.isnan().all() for x in tensors)
    stand_in.gate.set()
    for ticket in tickets:
        ticket.wait()
    stand_in.queue.finish()
    assert all(x.isfinite().all() for x in tensors)


def a_buffer_is_taken_again_once_its_copy_is_done():
    queue = Queue(late=True)
    buffers = HostBuffers(queue)
    arrived = []
    for value in (1.0, 2.0):
        buffer = buffers.take("pairs", 3, torch.float32)
        buffer.fill_(value)
        queue.run(lambda buffer=buffer: arrived.append(queue.to_device(buffer)))
        buffers.used_until("pairs", queue.event())
    queue.finish()
    assert [one.tolist() for one in arrived] == [[1.0] * 3, [2.0] * 3]


def a_step_that_is_not_finite_changes_nothing():
    for spoiled in (0, 1):
        with device() as stand_in:
            reduce = topknot.SparseAllreduce(scheme="gtopk", memory="dgc", density=0.05)
        core = reduce._session.core
        slots = [core.add_slot([(name, [900])], torch.device("cpu")) for name in ("a", "b")]

        def step(number: int, spoil: int | None = None) -> list[torch.Tensor]:
            tensors = [gradient(10 * number + slot, 900) for slot in slots]
            if spoil is not None and rank() == 0:
                tensors[spoil][3] = torch.inf
            tickets = [
                core.reduce(slot, x, slot == slots[-1])
                for slot, x in zip(slots, tensors, strict=True)
            ]
            for ticket in tickets:
                ticket.wait()
            stand_in.queue.finish()
            return tensors

        step(0)
        before = core.save()
        tensors = step(1, spoiled)
        assert tensors[spoiled].isnan().all()
        after = core.save()
        keys = [key for key in before if "velocity" in key] + [f"{'ab'[spoiled]}/memory.residual"]
        if spoiled == 1:  # the mean of the one before it has joined the residual again
            assert not torch.equal(before["a/memory.residual"], after["a/memory.residual"])
        for key in keys:
            assert torch.equal(before[key], after[key]), key
        assert all(x.isfinite().all() for x in step(2))


def a_step_that_is_undone_has_the_bits_of_the_host():
    states = []
    for on in ("host", "device"):
        with device() if on == "device" else contextlib.nullcontext() as stand_in:
            reduce = topknot.SparseAllreduce(scheme="spardl", density=0.05, select_on=on)
        core = reduce._session.core
        slots = [core.add_slot([(name, [900])], torch.device("cpu")) for name in ("a", "b")]
        for number in range(4):
            tensors = [gradient(10 * number + slot, 900) for slot in slots]
            if number == 2 and rank() == 1:
                tensors[1][3] = torch.nan
            for slot, x in zip(slots, tensors, strict=True):
                core.reduce(slot, x, slot == slots[-1]).wait()
        if stand_in:
            stand_in.queue.finish()
        states.append(core.save())
    for key, value in states[0].items():
        if "/memory.residual" in key:
            assert torch.equal(value, states[1][key]), key


def train(model, optimizer, steps: int, first: int = 0) -> None:
    for step in range(first, first + steps):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()


def ddp_has_the_bits_of_the_host():
    for options in ({}, {"memory": "residual:lr=inside"}, {"rules": ["*head*=0.2"]}):
        models = []
        for on in ("host", "device"):
            model = network()
            momentum = 0 if "memory" in options else 0.9  # which becomes the memory dgc
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
            with device(late=False) if on == "device" else contextlib.nullcontext() as stand_in:
                topknot.attach(
                    model, density=0.03, optimizer=optimizer, select_on=on, **options
                )
            train(model, optimizer, 3)
            optimizer.param_groups[0]["lr"] = 0.05
            train(model, optimizer, 3, first=3)
            models.append(model)
        assert stand_in.recorded > 6  # several buckets a step
        assert torch.equal(flat(models[0]), flat(models[1])), options
        assert torch.equal(flat_grad(models[0]), flat_grad(models[1])), options


def a_state_goes_from_device_to_host_and_back():
    def run(places: list[str]) -> torch.Tensor:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        state = None
        for number, on in enumerate(places):
            if number > 0:
                fresh = network()
                fresh.load_state_dict(model.state_dict())
                model, optimizer = fresh, torch.optim.SGD(fresh.parameters(), lr=0.1)
            with device(late=False) if on == "device" else contextlib.nullcontext():
                topknot.attach(model, density=0.03, select_on=on)
            if state is not None:
                topknot.load_state_dict(model, state)
            train(model, optimizer, 3, first=3 * number)
            state = topknot.state_dict(model)
        return flat(model)

    expected = run(["host", "host", "host"])
    assert torch.equal(run(["device", "host", "device"]), expected)
    assert torch.equal(run(["device", "device", "device"]), expected)


def backward_is_not_held_up():
    model = network()
    with device(late=False) as stand_in:
        topknot.attach(model, density=0.03)
    backward(model, 0)  # DDP makes its buckets anew behind its first step
    backward(model, 1)
    before = stand_in.recorded
    backward(model, 2)
    buckets = stand_in.recorded - before
    assert buckets > 1
    # Open only when every bucket was handed in: a hook that waited for an exchange would never end.
    stand_in.gate = threading.Event()
    target = stand_in.recorded + buckets
    record = stand_in.record

    def counting(x):
        event = record(x)
        if stand_in.recorded == target:
            stand_in.gate.set()
        return event

    stand_in.record = counting
    backward(model, 3)
    assert stand_in.gate.is_set()


def updates_have_the_bits_of_the_host():
    for make in (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.AdamW(p, lr=0.01),
    ):
        found = []
        for on in ("host", "device"):
            model = network().module
            with device(late=False) if on == "device" else contextlib.nullcontext():
                optimizer = topknot.DistributedOptimizer(
                    make(model.parameters()), named_parameters=model.named_parameters(),
                    density=0.03, local_steps=1, select_on=on,
                )  # fmt: skip
            train(model, optimizer, 5)
            topknot.settle(optimizer)
            found.append(flat(model))
        assert torch.equal(*found)


def says_what_cannot_be_on_a_device():
    wrong = topknot.ConfigError
    for collective in ON_THE_HOST:
        options = {"scheme": "topka", "compressor": "topk", "collective": collective}
        refuses(
            wrong, 'select_on="host"',
            lambda o=options: topknot.SparseAllreduce(select_on="device", density=0.1, **o),
        )  # fmt: skip
        with device() as stand_in:
            reduce = topknot.SparseAllreduce(density=0.1, **options)  # auto: on the host
        reduce(gradient(0, 100))
        assert stand_in.recorded == 0
    refuses(wrong, "compressor=topk", lambda: topknot.SparseAllreduce("dgc", select_on="device"))
    refuses(wrong, "neither", lambda: topknot.SparseAllreduce(select_on="gpu"))


if __name__ == "__main__":
    main(globals())
