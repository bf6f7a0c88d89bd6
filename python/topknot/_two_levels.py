# SPDX-License-Identifier: Apache-2.0
"""Two levels: dense sums inside a node, and a session between the nodes.

    node 0:  rank 0   rank 1        the ranks of a node add up a bucket among themselves, by their
               |        |           process group, and each has a shard of the sum (node_shards.h);
    node 1:  rank 2   rank 3        ranks with the same shard exchange it, sparsely

A rank has the residual of its own piece of every parameter. In a saved state it is as long as the
parameter, with zeros outside of the piece: so the states of all ranks together mean what they mean
without nodes, and may be loaded by any number of ranks in any nodes.
"""

import dataclasses
import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from topknot import _core
from topknot._gather import gather_json

Values = dict[str, Any]


def new_group(ranks: list[int], backend: str, timeout: float, purpose: str) -> dist.ProcessGroup:
    """Of these ranks, which alone call it."""
    return dist.new_group(
        ranks,
        backend=backend,
        timeout=timedelta(seconds=max(timeout, 1.0)),
        use_local_synchronization=len(ranks) != dist.get_world_size(),
        group_desc=purpose,
    )


@dataclasses.dataclass(eq=False)
class TwoLevels:
    """This rank's place in the nodes."""

    node: dist.ProcessGroup  # of the job's own backend
    talk: dist.ProcessGroup  # the same ranks, over Gloo
    place: int  # in the node
    ranks_per_node: int
    nodes: int
    sizes: Mapping[str, int]  # of the parameters

    def _piece(self, name: str) -> slice:
        width = -(-self.sizes[name] // self.ranks_per_node)
        return slice(self.place * width, min((self.place + 1) * width, self.sizes[name]))

    def whole(self, values: Values) -> Values:
        """With every coordinate of the parameters, zeros outside of this rank's pieces."""
        made = dict(values)
        for key, value in values.items():
            name = self._parameter(key, value)
            if name is not None:
                made[key] = torch.zeros(self.sizes[name], dtype=value.dtype)
                piece = self._piece(name)
                made[key][piece] = value[: piece.stop - piece.start]
        return made

    def pieces(self, values: Values) -> Values:
        """Of what whole() gave, padded."""
        made = dict(values)
        for key, value in values.items():
            name = self._parameter(key, value)
            if name is not None:
                width = -(-self.sizes[name] // self.ranks_per_node)
                own = value[self._piece(name)]
                made[key] = torch.nn.functional.pad(own, (0, width - own.numel()))
        return made

    def sum_over_node(self, values: Values) -> Values:
        """Hands every coordinate to the rank that has its piece. All ranks of the node call it."""
        by_coordinate = {
            key: value for key, value in values.items() if self._parameter(key, value) is not None
        }
        said = gather_json({key: v.numel() for key, v in by_coordinate.items()}, self.talk)
        made = dict(values)
        for key, size in sorted({item for one in said for item in one.items()}):
            made[key] = by_coordinate.get(key, torch.zeros(size)).clone()
            dist.all_reduce(made[key], group=self.talk)
        return made

    def _parameter(self, key: str, value: Any) -> str | None:
        """Whose coordinates these are; None: they are something else."""
        name = key.rpartition("/")[0]
        return name if name in self.sizes and is_by_coordinate(value) else None


def is_by_coordinate(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 1 and value.is_floating_point()


NodeGroup = str | int | dist.ProcessGroup


def text_of(node_group: NodeGroup | None) -> str:
    """For comparison between ranks."""
    return "a process group" if isinstance(node_group, dist.ProcessGroup) else str(node_group)


def find_nodes(
    asked: NodeGroup, hosts: list[int], ranks: list[int], group: dist.ProcessGroup
) -> list[list[int]]:
    """The ranks of each node, all with equally many. `ranks` are the job's own numbers of them,
    `hosts` says which of them share one. All ranks of `group` call it."""
    if isinstance(asked, dist.ProcessGroup):
        said = gather_json(dist.get_process_group_ranks(asked), group)
        nodes = [list(one) for one in dict.fromkeys(map(tuple, said))]
        if sorted(sum(nodes, [])) != sorted(ranks) or len(set(map(len, nodes))) > 1:
            raise _core.ConfigError(
                "node_group must be, on every rank, the group of the ranks of its node: each rank "
                f"in one node, and all nodes equally large. Here the nodes are {nodes}."
            )
        return nodes
    if asked == "auto":
        by_host: dict[int, list[int]] = {}
        for rank, host in zip(ranks, hosts, strict=True):
            by_host.setdefault(host, []).append(rank)
        # As src/collectives/hierarchical.cc: the largest groups that fit all hosts.
        size = math.gcd(*map(len, by_host.values()))
        return [one[i : i + size] for one in by_host.values() for i in range(0, len(one), size)]
    if not isinstance(asked, int) or asked < 1 or len(ranks) % asked != 0:
        raise _core.ConfigError(
            f'node_group={asked!r} is neither "auto" nor a process group nor a number of ranks to a '
            f"node that divides {len(ranks)}."
        )
    return [ranks[i : i + asked] for i in range(0, len(ranks), asked)]


def enter_node(
    nodes: list[list[int]], backend: str, timeout: float, sizes: Mapping[str, int]
) -> tuple[TwoLevels, dist.ProcessGroup]:
    """This rank's place in them, and a group of the ranks that have the same place."""
    me = dist.get_rank()
    mine = next(node for node in nodes if me in node)
    place = mine.index(me)
    node = new_group(mine, backend, timeout, "topknot, in a node")
    talk = node if backend == "gloo" else new_group(mine, "gloo", timeout, "topknot, in a node")
    across = new_group([one[place] for one in nodes], "gloo", timeout, "topknot")
    return TwoLevels(node, talk, place, len(mine), len(nodes), sizes), across
