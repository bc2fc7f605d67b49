"""Did a loss curve stall, or was it still falling when it ended?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

FEWEST = 6
"""Rows in the last half of a stage below which nothing is said."""
SMALLEST_DROP = 0.05
"""A loss that falls by less than this share over the last half of a stage is called stalled."""


@dataclass(frozen=True)
class Trend:
    """The last half of a stage."""

    kind: Literal["improving", "stalled", "unclear"]
    start: float
    """The fitted line at the beginning of the last half, and at its end."""
    end: float
    rows: int

    @property
    def drop(self) -> float:
        """The share of the loss that went, by the fitted line; negative if it rose."""
        return 0.0 if self.start <= 0 else 1 - self.end / self.start

    def said(self) -> str:
        if self.kind == "unclear":
            return f"too few rows are recorded to tell stalled from improving ({self.rows} in its last half)"
        words = "was still falling" if self.kind == "improving" else "had stalled"
        return f"the loss {words}: {self.start:.3f} to {self.end:.3f} over the last half of the stage"


def trend(losses: tuple[float, ...]) -> Trend:
    """A straight line through the last half; improving if it falls, beyond its own noise, by 5 % or more.

    The noise is the slope's standard error; three of them, since neighbouring rows are not independent.
    """
    half = np.asarray(losses[len(losses) // 2 :], dtype=np.float64)
    if len(half) < FEWEST:
        value = float(half[-1]) if len(half) else float("nan")
        return Trend("unclear", value, value, len(half))
    x = np.arange(len(half)) - (len(half) - 1) / 2
    slope = float(x @ half / (x @ x))
    rest = half - half.mean() - slope * x
    error = float(np.sqrt(rest @ rest / (len(half) - 2) / (x @ x)))
    start, end = (float(half.mean() + slope * x[i]) for i in (0, -1))
    falls = slope < -3 * error and start - end >= SMALLEST_DROP * start
    return Trend("improving" if falls else "stalled", start, end, len(half))
