"""Seeds: the numbers that everything random is a function of."""

from __future__ import annotations

from internalize.errors import require


def require_seed(seed: int) -> None:
    """Refuse a number that is no seed, wherever one is asked for."""
    require(0 <= seed < 2**63, "seed", f"must lie in 0 … 2^63-1, got {seed}")
