# SPDX-License-Identifier: Apache-2.0
"""Rounds whose exchange is hidden behind the next round.

A round ends by handing its change to the communication thread, and the next begins at once. Each
rank keeps the agreed weights A, the same on all ranks, and goes on from A less the change of its
own that is under way:

    end of round r    the mean of round r - 1 has come: A moves by it
                      change = the weights that round r began with - the weights now
                      the change is handed over; the weights become A - change
    end_round()       waits for what is under way, too: the weights become A

Every change joins the residual once, and every mean moves A once: nothing is lost, the mean only
comes a round later. Where a mean is not finite, all ranks know it a round later as well, and
drop the round that they took meanwhile: the weights become A.
"""

import torch

from topknot._buckets import Bucket
from topknot._rounds import Rounds, clear_state


class DelayedRounds(Rounds):
    _under_way = False  # an exchange

    @property
    def under_way(self) -> bool:
        return self._under_way or super().under_way

    def forget(self) -> None:
        if self._under_way:
            self._wait()
        super().forget()

    def _keep_weights(self) -> None:
        if self._under_way:
            return  # kept when the round before has ended
        self._agreed = [_weights_of(bucket) for bucket in self._buckets]
        self._starts = [agreed.clone() for agreed in self._agreed]

    def _exchange(self, optimizer: torch.optim.Optimizer) -> None:
        self.steps += self._taken
        self._drop_round()
        if not self._apply_mean(optimizer):
            return
        for bucket, agreed, start in zip(
            self._buckets, self._agreed, self._starts, strict=True
        ):
            torch.sub(start, _weights_of(bucket), out=bucket.flat)
            torch.sub(agreed, bucket.flat, out=start)
            _set_weights(bucket, start)
            start.copy_(_weights_of(bucket))  # as the parameters' type has rounded them
        self._hand_over()
        self._under_way = True

    @torch.no_grad()
    def end(self, optimizer: torch.optim.Optimizer) -> None:
        super().end(optimizer)
        if self._under_way and self._apply_mean(optimizer):
            for bucket, agreed in zip(self._buckets, self._agreed, strict=True):
                _set_weights(bucket, agreed)
            self._agreed = self._starts = []

    def _apply_mean(self, optimizer: torch.optim.Optimizer) -> bool:
        """Moves the agreed weights by the mean that is under way, if any. Returns False, with
        the weights at the agreed ones, where it is not finite."""
        if not self._under_way:
            return True
        finite = self._wait()
        for bucket, agreed in zip(self._buckets, self._agreed, strict=True):
            if finite:
                self._outer.turn_into_move(bucket)
                agreed.sub_(bucket.flat)
            else:
                _set_weights(bucket, agreed)
        if not finite:
            clear_state(optimizer)
        self._count_exchange(self._agreed)
        return finite

    def _wait(self) -> bool:
        self._under_way = False
        for bucket in self._buckets:
            bucket.wait()
        return all(bucket.is_finite() for bucket in self._buckets)


def _weights_of(bucket: Bucket) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1).to(bucket.flat.dtype) for p, _ in bucket.slices])


def _set_weights(bucket: Bucket, flat: torch.Tensor) -> None:
    for parameter, offset in bucket.slices:
        parameter.copy_(flat[offset : offset + parameter.numel()].view(parameter.shape))
