"""A language model on one's own text: chains of words that are taken away step by step."""

from internalize.kinds.text.config import TextConfig

__all__ = ["TextConfig"]
