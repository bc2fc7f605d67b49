"""Whether a construction fits in memory, known before anything is allocated."""

from __future__ import annotations

import os

from internalize.constructions.weights import Shape
from internalize.errors import BadInput


def available_memory() -> int:
    """Bytes that can be had without pushing others out."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def bytes_needed(shape: Shape, states: int) -> int:
    """Float64 weights, twice while they are written, tables, and one input on its way through a layer."""
    tables = (shape.tokens + shape.positions) * shape.embedding + 2 * states
    attention = 6 * shape.positions**2 * shape.heads  # scores and weights, and copies while they are measured
    hidden = shape.positions * (2 * shape.mlp_width + 6 * shape.embedding)
    return 8 * (2 * shape.parameters + 2 * tables + attention + hidden)


def require_memory(needed: int, field: str, what: str) -> None:
    """Refuse what would need more than there is."""
    available = available_memory()
    if needed > available:
        raise BadInput(field, f"{what} needs about {_size(needed)} of memory, {_size(available)} are free")


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if count < 1024 or unit == "PiB":
            break
        count /= 1024
    return f"{count:.3g} {unit}"
