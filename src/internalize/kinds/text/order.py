"""Which training rows an iteration takes: every epoch in an order of its own, no row left out."""

from __future__ import annotations

from functools import lru_cache

import torch

from internalize.runtime.streams import Streams


def rows_at(iteration: int, batch: int, rows: int, streams: Streams) -> list[int]:
    """A function of its arguments alone; consumes streams("order", epoch)."""
    first = iteration * batch
    chosen = []
    for index in range(first, first + batch):
        epoch, within = divmod(index, rows)
        chosen.append(_order(streams.seed, epoch, rows)[within])
    return chosen


@lru_cache(maxsize=4)
def _order(seed: int, epoch: int, rows: int) -> list[int]:
    """On the processor whatever the device, so that a GPU sees the same rows."""
    order: list[int] = torch.randperm(rows, generator=Streams(seed)("order", epoch)).tolist()
    return order
