# SPDX-License-Identifier: Apache-2.0
"""What ranks tell each other besides gradients: JSON and tensors, which cannot carry code.

torch's *_object() collectives unpickle what a peer sends, and a pickle may do anything.
"""

import json
from typing import Any

import torch
import torch.distributed as dist

# The types of a state: memory is allocated for nothing else, whatever a peer says.
_TYPES = {"float32": torch.float32, "int64": torch.int64, "uint8": torch.uint8}

# Beyond the tags of the transport, whose listeners wait for messages in the same group.
_TAG = 1 << 16


def gather_json(value: Any, group: dist.ProcessGroup) -> list[Any]:
    """By rank what each of them handed in: what JSON can say. All ranks call it."""
    mine = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
    sizes = [torch.empty(1, dtype=torch.int64) for _ in range(group.size())]
    dist.all_gather(sizes, torch.tensor([mine.numel()]), group)
    lengths = [int(size) for size in sizes]
    padded = torch.zeros(max(lengths), dtype=torch.uint8)
    padded[: mine.numel()] = mine
    texts = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(texts, padded, group)
    return [
        json.loads(bytes(text[:length].tolist()))
        for text, length in zip(texts, lengths, strict=True)
    ]


def gather_state(
    state: dict[str, Any], dst: int, group: dist.ProcessGroup
) -> list[dict[str, Any]] | None:
    """By rank the states, whose `values` may be tensors, on rank `dst`; None elsewhere."""
    values = state["values"]
    tensors = {key: value for key, value in values.items() if isinstance(value, torch.Tensor)}
    plain = {key: value for key, value in values.items() if key not in tensors}
    shapes = [
        [key, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]
        for key, tensor in tensors.items()
    ]
    said = gather_json({**state, "values": plain, "tensors": shapes}, group)
    here = dist.get_rank(group)
    if here != dst:
        for tensor in tensors.values():
            flat = tensor.contiguous().reshape(-1)
            dist.send(flat, group=group, group_dst=dst, tag=_TAG)
        return None
    states = []
    for rank, one in enumerate(said):
        their_shapes = one.pop("tensors")
        if rank == here:
            states.append(state)
            continue
        for key, kind, shape in their_shapes:
            flat = torch.empty(torch.Size(shape).numel(), dtype=_TYPES[kind])
            dist.recv(flat, group=group, group_src=rank, tag=_TAG)
            one["values"][key] = flat.reshape(shape)
        states.append(one)
    return states
