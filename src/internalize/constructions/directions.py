"""The embedding's coordinates by name, so that no gadget counts columns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


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

    def extract(self, block: slice) -> Tensor:
        """The matrix (block, size) that reads a block; its transpose writes it. The paper's E_1, E_2, E_p."""
        return torch.eye(self.size, dtype=torch.float64)[block]
