"""Sizes, weights and directions of the generic transformer as plain data, and the memory that it needs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from internalize.errors import BadInput

if TYPE_CHECKING:
    from jaxtyping import Float, Float64


@dataclass(frozen=True)
class Shape:
    """All sizes of a transformer, so that its cost is known before anything is allocated."""

    tokens: int
    """Number of token ids."""
    positions: int
    """Length of the sequences that it reads."""
    embedding: int
    depth: int
    heads: int
    head_size: int
    mlp_widths: tuple[int, ...]
    """Hidden widths of every layer's MLP, from its input to its output."""

    @property
    def mlp_width(self) -> int:
        """The widest hidden layer."""
        return max(self.mlp_widths)

    @property
    def mlp_parameters(self) -> int:
        """Weights and biases of one layer's MLP."""
        widths = (self.embedding, *self.mlp_widths, self.embedding)
        return sum((a + 1) * b for a, b in pairwise(widths))

    @property
    def parameters(self) -> int:
        """Weights of all layers; the embedding tables are not counted."""
        attention = 4 * self.heads * self.head_size * self.embedding
        return self.depth * (attention + self.mlp_parameters)

    @property
    def flops(self) -> float:
        """Operations of one forward pass on one sequence, all positions of all layers, two a product."""
        projections = 4 * self.positions * self.heads * self.head_size * self.embedding
        mixing = 2 * self.positions**2 * self.heads * self.head_size
        return 2.0 * self.depth * (projections + mixing + self.positions * self.mlp_parameters)


@dataclass(frozen=True)
class HeadWeights:
    """One attention head: W_Q, W_K, W_V (head size, embedding) and W_C (embedding, head size)."""

    query: Float[Tensor, "head_size embedding"]
    key: Float[Tensor, "head_size embedding"]
    value: Float[Tensor, "head_size embedding"]
    output: Float[Tensor, "embedding head_size"]


@dataclass(frozen=True)
class AffineWeights:
    """x ↦ weight·x + bias: (outputs, inputs) and (outputs,)."""

    weight: Float[Tensor, "outputs inputs"]
    bias: Float[Tensor, " outputs"]


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


@dataclass(frozen=True)
class Directions:
    """Three blocks: what a position holds, what it fetched from another position, and where it is.

    For a counter the registers are residues and auxiliary residues; for any semiautomaton they are the
    entries of a transition map.
    """

    registers: int

    @property
    def size(self) -> int:
        return 2 * self.registers + 2

    @property
    def held(self) -> slice:
        """The registers of the position itself: the paper's first residue block."""
        return slice(0, self.registers)

    @property
    def fetched(self) -> slice:
        """The auxiliary registers, filled by the look-back head."""
        return slice(self.registers, 2 * self.registers)

    @property
    def position(self) -> slice:
        """The point on the circle that says where we are."""
        return slice(2 * self.registers, 2 * self.registers + 2)

    def extract(self, block: slice) -> Float64[Tensor, "block {self.size}"]:
        """The matrix (block, size) that reads a block; its transpose writes it. The paper's E_1, E_2, E_p."""
        return torch.eye(self.size, dtype=torch.float64)[block]
