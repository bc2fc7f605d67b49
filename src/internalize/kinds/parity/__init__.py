"""Parity by the theorem: one linear-attention layer learns a chain, then internalizes it (paper §4)."""

from internalize.kinds.parity.config import ParityConfig

__all__ = ["ParityConfig"]
