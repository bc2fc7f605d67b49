"""MLPs that learn with hints and then do without (paper §5, appendix F)."""

from internalize.kinds.hints.config import HintsConfig

__all__ = ["HintsConfig"]
