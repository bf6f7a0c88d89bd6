# SPDX-License-Identifier: Apache-2.0
"""The transport over Gloo, as its contract in topknot/transport.h has it."""

import random

import torch
import torch.distributed as dist
from cases import main, rank, refuses, size

import topknot
from topknot import _core


def new_link(timeout: float = 30) -> _core.Link:
    return _core.Link(dist.new_group(backend="gloo").group_name, timeout)


def message(sender: int, receiver: int, number: int) -> bytes:
    """Short, long, empty, and at the edges of a frame; the same whoever asks."""
    draw = random.Random(f"{sender} {receiver} {number}")
    length = draw.choice([0, 1, 100, 65535, 65536, 65537, 300_000, draw.randrange(200_000)])
    return draw.randbytes(length)


def many_messages_under_way_come_in_order():
    link = new_link()
    receives = {p: [link.recv(p, 1 << 20) for _ in range(40)] for p in range(size())}
    sends = [link.send(p, message(rank(), p, i)) for i in range(40) for p in range(size())]
    for send in sends:  # before any receive is waited for: nobody may depend on that
        link.wait(send)
    for peer, waiting in receives.items():
        for number in reversed(range(40)):
            assert link.wait(waiting[number]) == message(peer, rank(), number), (peer, number)


def messages_wait_for_receives_that_come_late():
    link = new_link()
    sends = [link.send(p, message(rank(), p, i)) for i in range(20) for p in range(size())]
    for number in range(20):
        for peer in range(size()):
            got = link.wait(link.recv(peer, 1 << 20))
            assert got == message(peer, rank(), number), (peer, number)
    for send in sends:
        link.wait(send)


def channels_are_apart():
    link = new_link()
    first, second = link.channel(1), link.channel(2)
    inner = first.channel(2)
    peer = 1 - rank()
    sends = [(c, c.send(peer, word)) for c, word in ((first, b"1"), (second, b"2"), (inner, b"12"))]
    assert inner.wait(inner.recv(peer, 9)) == b"12"
    assert second.wait(second.recv(peer, 9)) == b"2"
    assert first.wait(first.recv(peer, 9)) == b"1"
    for channel, send in sends:
        channel.wait(send)


def too_long_a_message_is_refused():
    link = new_link(timeout=5)
    if rank() == 0:
        send = link.send(1, b"x" * 200_000)
        refuses(topknot.LinkError, "rank 0 was lost, says rank 1", lambda: link.wait(send))
    else:
        refuses(
            topknot.LinkError,
            "rank 0 sent a message of 200000 bytes where at most 100000 were expected",
            lambda: link.wait(link.recv(0, 100_000)),
        )


def a_silent_rank_is_named():
    link = new_link(timeout=1)
    if rank() != 2:
        words = "rank 2"
        peer = 2 if rank() == 0 else 0
        refuses(topknot.LinkError, words, lambda: link.wait(link.recv(peer, 10)))
        refuses(topknot.LinkError, "rank 2", lambda: link.wait(link.recv(1 - rank(), 10)))
    dist.barrier()


def native_allreduce_sums():
    x = torch.full((1000,), float(rank() + 1))
    new_link().allreduce(x)
    assert x.eq(size() * (size() + 1) / 2).all()


if __name__ == "__main__":
    main(globals())
