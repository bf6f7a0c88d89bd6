# SPDX-License-Identifier: Apache-2.0
"""The transport over Gloo, as its contract in topknot/transport.h has it."""

import os
import random
import signal
import subprocess
import time

import torch
import torch.distributed as dist
from cases import main, rank, refuses, size

import topknot
import topknot_link


def new_link(timeout: float = 30) -> topknot_link.Link:
    return topknot_link.Link(dist.new_group(backend="gloo").group_name, timeout)


def message(sender: int, receiver: int, number: int) -> bytes:
    """Short, long, empty, and at the edges of a frame; the same whoever asks."""
    draw = random.Random(f"{sender} {receiver} {number}")
    length = draw.choice([0, 1, 100, 65535, 65536, 65537, 300_000, draw.randrange(200_000)])
    return draw.randbytes(length)


def many_messages_under_way_come_in_order():
    link = new_link()
    receives = {p: [link.recv(p, 1 << 20) for _ in range(40)] for p in range(size())}
    sends = [link.send(p, message(rank(), p, i)) for i in range(40) for p in range(size())]
    for send in sends:  # before any receive is waited for: no rank may need that order
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
    link = new_link(timeout=20)
    if rank() == 0:
        send = link.send(1, b"x" * 200_000)
        refuses(topknot.DisagreementError, "they disagree", lambda: link.wait(send))
    else:
        refuses(
            topknot.LinkError,
            "rank 0 sent a message of 200000 bytes where at most 100000 were expected",
            lambda: link.wait(link.recv(0, 100_000)),
        )
        link.fail(0, "they disagree")
        refuses(topknot.DisagreementError, "they disagree", lambda: link.recv(0, 9))


def a_silent_rank_is_named():
    link = new_link(timeout=1)
    if rank() != 2:
        words = "rank 2"
        peer = 2 if rank() == 0 else 0
        refuses(topknot.LinkError, words, lambda: link.wait(link.recv(peer, 10)))
        refuses(topknot.LinkError, "rank 2", lambda: link.wait(link.recv(1 - rank(), 10)))
    dist.barrier()


def a_rank_that_takes_no_large_message_is_named():
    link = new_link(timeout=1)
    if rank() != 2:
        peer = 2 if rank() == 0 else 0
        send = link.send(peer, b"x" * 300_000)
        refuses(topknot.LinkError, "rank 2 has been silent for 1 s", lambda: link.wait(send))
    dist.barrier()


def a_stopped_process_is_named():
    link = new_link(timeout=1)
    if rank() == 1:
        subprocess.Popen(["sh", "-c", f"sleep 4; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        peer = {0: 1, 2: 0}[rank()]
        refuses(
            topknot.LinkError,
            "rank 1 has been silent for 1 s",
            lambda: link.wait(link.recv(peer, 10)),
        )
    dist.barrier()


def a_wait_that_was_survived_is_forgotten():
    """Rank 1 once waited long for rank 2. Later it is rank 1 that is silent."""
    link = new_link(timeout=5)
    dist.barrier()
    if rank() == 2:
        time.sleep(4.6)
        link.wait(link.send(1, b"late"))
    if rank() == 1:
        assert link.wait(link.recv(2, 10)) == b"late"
    dist.barrier()
    if rank() != 1:
        peer = 1 if rank() == 0 else 0
        refuses(topknot.LinkError, "rank 1 has been", lambda: link.wait(link.recv(peer, 10)))
    dist.barrier()


def an_abandoned_channel_lets_go_of_memory():
    link = new_link()
    channel = link.channel(1)
    send = channel.send(1 - rank(), b"x" * 1_000_000)  # no rank receives it
    receive = channel.recv(1 - rank(), 10)
    assert channel.holds(send)
    channel.abandon()
    assert not channel.holds(send)
    refuses(topknot.LinkError, "given up", lambda: channel.send(1 - rank(), b"x"))
    refuses(topknot.LinkError, "given up", lambda: channel.wait(receive))
    dist.barrier()
    hello = link.send(1 - rank(), b"hello")  # other channels go on
    assert link.wait(link.recv(1 - rank(), 10)) == b"hello"
    link.wait(hello)
    dist.barrier()


def a_link_has_one_thread():
    """However many ranks there are. The group has three of Gloo's own."""
    group = dist.new_group(backend="gloo")
    before = len(os.listdir("/proc/self/task"))
    link = topknot_link.Link(group.group_name, 30)
    assert len(os.listdir("/proc/self/task")) == before + 1
    peers = [link.recv(p, 10) for p in range(size())]
    for send in [link.send(p, b"hello") for p in range(size())]:
        link.wait(send)
    assert [link.wait(peer) for peer in peers] == [b"hello"] * size()
    assert len(os.listdir("/proc/self/task")) == before + 1
    dist.barrier()


def native_allreduce_sums():
    x = torch.full((1000,), float(rank() + 1))
    new_link().allreduce(x)
    assert x.eq(size() * (size() + 1) / 2).all()


if __name__ == "__main__":
    main(globals())
