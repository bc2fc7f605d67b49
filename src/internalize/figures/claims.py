"""Claims of the paper as statistics that are fixed before a run.

Every test is one-sided in the direction of the claim and again in the other; each side may err with half of
ALPHA, which is the usual two-sided test read in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from internalize.figures.rows import FigureRow

ALPHA = 0.05
"""Over all claims of a figure, by Holm's correction, both sides together."""


@dataclass(frozen=True)
class Evidence:
    """What rows say about a claim."""

    claimed: float
    """One-sided p-value: how easily chance alone would look as much like the claim."""
    opposite: float
    """One-sided p-value of the contrary."""
    least: float
    """The smallest `claimed` that as many runs could give, whatever came out of them."""
    numbers: str
    """What was found, in words."""
    data: dict[str, Any] = field(default_factory=dict)
    """The same for machines."""


NOTHING = Evidence(1.0, 1.0, 1.0, "no runs")
"""The evidence of no data at all."""


class ClaimTest(Protocol):
    """A statistical test as data: which rows, which method, which direction."""

    @property
    def method(self) -> str:
        """The test and its direction, in words."""

    def evidence(self, rows: Sequence[FigureRow]) -> Evidence: ...

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        """The smallest effect that the planned runs can show at a one-sided level, in words.

        planned: the cases of the sweep, with fields but without results.
        """


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the test that judges it."""

    name: str
    sentence: str
    test: ClaimTest


def percents(rate: float) -> str:
    return f"{100 * rate:.0f} %"


COUNTED = "counted, nothing is random"
"""How the method of a claim ends that needs no test."""
UNDETECTABLE = "nothing by itself: too few runs"
