"""A transformer on chains of states: the paper's main experiment."""

from internalize.kinds.chain.config import ChainConfig

__all__ = ["ChainConfig"]
