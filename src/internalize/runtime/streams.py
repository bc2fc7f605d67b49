"""Named, stateless random streams."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Streams:
    """`streams(name, step)` is a fresh generator, a function of (seed, name, step) alone.

    There is nothing to save, nothing global and no order in which streams must be used: whoever needs random
    numbers asks for a stream of its own name, at its own step.
    """

    seed: int
    device: torch.device = CPU

    def __call__(self, name: str, step: int = 0) -> torch.Generator:
        key = hashlib.blake2b(f"{self.seed}/{name}/{step}".encode(), digest_size=8).digest()
        # torch takes seeds up to 2^63 on every device
        return torch.Generator(self.device).manual_seed(int.from_bytes(key, "big") >> 1)
