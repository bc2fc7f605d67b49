"""Claims of the paper: a sentence, the test that judges it, and what must hold before it can be judged.

All of it is fixed before a run. Every test is one-sided in the direction of the claim and again in the other;
each side may err with half of ALPHA, which is the usual two-sided test read in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from internalize.figures.rows import FigureRow, Members, counted, part_of, rate, values_at

ALPHA = 0.05
"""Over all claims of a figure that have data, by Holm's correction, both sides together."""


@dataclass(frozen=True)
class TestOutcome:
    """What rows say about a claim."""

    claimed: float
    """One-sided p-value: how easily chance alone would look as much like the claim."""
    opposite: float
    """One-sided p-value of the contrary."""
    numbers: str
    """What was found, in words, with the effect and its interval."""
    data: dict[str, Any] = field(default_factory=dict)
    """The same for machines."""


class ClaimTest(Protocol):
    """A statistical test as data: which rows, which method, which direction."""

    @property
    def method(self) -> str:
        """The test and its direction, in words."""

    @property
    def groups(self) -> tuple[Members, ...]:
        """The rows that it looks at; without rows in each of them there is nothing to judge."""

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        """None where there are no data."""

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        """The smallest effect that the planned runs can show at a one-sided level, in words.

        planned: the cases of the sweep, with fields but without results.
        """


@dataclass(frozen=True)
class Control:
    """What must hold for a claim to be judged: an outcome that comes often enough in a group."""

    sentence: str
    """What it says, such as "stage 1 learned the chain"."""
    group: Members
    outcome: str
    least: float = 0.5
    """Share of the group's runs that must have it."""
    fewest: int = 1
    """Number of them that must have it."""
    by: str | None = None
    """Judge each value of this field apart; the claim is then judged on those at which the control holds."""

    def apply(self, rows: Sequence[FigureRow]) -> tuple[list[FigureRow], list[str]]:
        """The rows that are left, and what failed, in words. Where there are no runs yet, nothing failed."""
        kept: list[FigureRow] = []
        failed = []
        for value in values_at(rows, self.by):
            part = part_of(rows, self.by, value)
            found = rate(self.group.of(part), self.outcome)
            enough = found.successes >= max(self.fewest, self.least * found.trials) and found.trials > 0
            if enough:
                kept += part
            elif found.trials:
                where = "" if self.by is None else f" at {value}"
                failed.append(f"{self.sentence}{where}: {counted(found)} runs of {self.group.label}")
        return kept, failed


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the test that judges it."""

    name: str
    sentence: str
    test: ClaimTest
    controls: Sequence[Control] = ()
    headline: bool = False
    """Whether it stands in the README's table."""


COUNTED = "counted, nothing is random"
"""How the method of a claim ends that needs no test."""
UNDETECTABLE = "nothing by itself: too few runs"
EXISTS = 1 / 20
"""The bar where the paper says that something can happen: more often than a test errs."""
MOSTLY = 1 / 2
"""The bar for *succeeds* and *fails*: the larger part of the runs."""


def chain_learned(*groups: Members, by: str | None = None) -> list[Control]:
    """Stage 1 taught the chain: only then is there something to internalize."""
    return [Control("stage 1 learned the chain", members, "chain_learned", by=by) for members in groups]


def succeeds_first(members: Members, by: str | None = None, fewest: int = 3) -> Control:
    """Runs must succeed in distribution before what they lose outside of it can be compared."""
    sentence = "the answer succeeds in distribution"
    return Control(sentence, members, "succeeded", least=0.0, fewest=fewest, by=by)
