"""Self-play: a network learns to give at once what tree search with it gives slowly (paper, appendix B)."""

from internalize.kinds.selfplay.config import SelfPlayConfig

__all__ = ["SelfPlayConfig"]
