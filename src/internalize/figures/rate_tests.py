"""Tests of one rate: above a bar, below it, between two, or in every group on its side of one half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from internalize.figures.claims import COUNTED, NOTHING, UNDETECTABLE, Evidence, percents
from internalize.figures.rows import FigureRow, Group, counted, in_words, rate
from internalize.statistics import Rate, binomial, clopper_pearson
from internalize.statistics.groups import Alternative

EXISTS = 1 / 20
"""The bar where the paper says that something can happen: more often than a test errs."""


def _interval_data(found: Rate) -> dict[str, Any]:
    exact = clopper_pearson(found.successes, found.trials)
    return {"successes": found.successes, "of": found.trials, "interval": [exact.low, exact.high]}


def _numbers(label: str, found: Rate) -> str:
    exact = clopper_pearson(found.successes, found.trials)
    return f"{label}: {counted(found)} [{percents(exact.low)}, {percents(exact.high)}]"


@dataclass(frozen=True)
class _OneBar:
    """The group's outcome comes more often than the bar, or less often: the subclass says which."""

    group: Group
    outcome: str
    bar: float

    side: ClassVar[Alternative]
    other_side: ClassVar[Alternative]
    in_a_word: ClassVar[str]

    @property
    def method(self) -> str:
        where = f"{in_words(self.outcome)} in {self.group.label}"
        return f"exact binomial test of {where}: {self.in_a_word} than {percents(self.bar)}"

    def _clearest(self, n: int) -> int:
        """Of n runs, how many have the outcome where the claim is truest."""
        return n if self.side == "greater" else 0

    def evidence(self, rows: Sequence[FigureRow]) -> Evidence:
        found = rate(self.group.of(rows), self.outcome)
        if not found.trials:
            return NOTHING
        clearest = Rate(self._clearest(found.trials), found.trials)
        return Evidence(
            claimed=binomial(found, self.bar, self.side),
            opposite=binomial(found, self.bar, self.other_side),
            least=binomial(clearest, self.bar, self.side),
            numbers=_numbers(self.group.label, found),
            data=_interval_data(found),
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        n = len(self.group.planned(planned))
        passing = [k for k in range(n + 1) if n and binomial(Rate(k, n), self.bar, self.side) <= level]
        if not passing:
            return UNDETECTABLE
        clearest = self._clearest(n)
        bound = max(passing, key=lambda k: abs(k - clearest))
        more = "" if bound == clearest else " or more" if self.side == "greater" else " or fewer"
        return f"{bound} of {n}{more}"


class RateAbove(_OneBar):
    """The group's outcome comes more often than the bar."""

    side, other_side, in_a_word = "greater", "less", "more"


class RateBelow(_OneBar):
    """The group's outcome comes less often than the bar."""

    side, other_side, in_a_word = "less", "greater", "less"


@dataclass(frozen=True)
class RateBetween:
    """The group's rate lies between two bars: both one-sided tests must say so."""

    group: Group
    outcome: str
    low: float
    high: float

    @property
    def method(self) -> str:
        between = f"{percents(self.low)} and {percents(self.high)}"
        return f"two exact binomial tests of {in_words(self.outcome)} in {self.group.label}: between {between}"

    def evidence(self, rows: Sequence[FigureRow]) -> Evidence:
        found = rate(self.group.of(rows), self.outcome)
        if not found.trials:
            return NOTHING
        outside = min(binomial(found, self.low, "less"), binomial(found, self.high, "greater"))
        return Evidence(
            claimed=self._p(found),
            opposite=min(1.0, 2 * outside),  # it may lie outside on two sides
            least=min(self._p(Rate(k, found.trials)) for k in range(found.trials + 1)),
            numbers=_numbers(self.group.label, found),
            data=_interval_data(found),
        )

    def _p(self, found: Rate) -> float:
        return max(binomial(found, self.low, "greater"), binomial(found, self.high, "less"))

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        n = len(self.group.planned(planned))
        inside = [k for k in range(n + 1) if n and self._p(Rate(k, n)) <= level]
        return f"{inside[0]} to {inside[-1]} of {n}" if inside else UNDETECTABLE


@dataclass(frozen=True)
class OnItsSide:
    """In every part (by the field `by`) the outcome comes in most runs of some groups and in few of others.

    How one says that a field does not matter: wherever it stands, the rate is on the same side of one half.
    All parts must pass, so that none of them needs a correction; one that fails speaks against the claim.
    """

    mostly: Group
    rarely: Group
    outcome: str
    by: str

    @property
    def method(self) -> str:
        return (
            f"exact binomial tests of {in_words(self.outcome)} at every {in_words(self.by)}: more than half of "
            f"{self.mostly.label}, less than half of {self.rarely.label}; all must pass"
        )

    def _parts(self, rows: Sequence[FigureRow]) -> list[tuple[str, Rate, bool]]:
        """(name, rate, whether it should be above one half)."""
        parts = []
        for group, above in ((self.mostly, True), (self.rarely, False)):
            members = group.of(rows)
            for value in dict.fromkeys(row.get(self.by) for row in members):
                of_part = [row for row in members if row.get(self.by) == value]
                parts.append((f"{group.label} {value}", rate(of_part, self.outcome), above))
        return [part for part in parts if part[1].trials]

    def evidence(self, rows: Sequence[FigureRow]) -> Evidence:
        parts = self._parts(rows)
        if not parts:
            return NOTHING
        claimed = [binomial(found, 0.5, "greater" if above else "less") for _, found, above in parts]
        against = [binomial(found, 0.5, "less" if above else "greater") for _, found, above in parts]
        # One value of the field alone cannot show that the field does not matter.
        values = {row.get(self.by) for row in [*self.mostly.of(rows), *self.rarely.of(rows)]}
        return Evidence(
            claimed=max(claimed) if len(values) > 1 else 1.0,
            opposite=min(1.0, min(against) * len(against)),
            least=max(0.5**found.trials for _, found, _ in parts) if len(values) > 1 else 1.0,
            numbers=", ".join(f"{name} {counted(found)}" for name, found, _ in parts),
            data={name: _interval_data(found) for name, found, _ in parts},
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        groups = (self.mostly, self.rarely)
        values = {row.get(self.by) for group in groups for row in group.planned(planned)}
        sizes = [
            sum(row.get(self.by) == value for row in group.planned(planned))
            for group in groups
            for value in values
        ]
        n = min((size for size in sizes if size), default=0)
        enough = [k for k in range(n + 1) if n and binomial(Rate(k, n), 0.5, "greater") <= level]
        if not enough or len(values) < 2:
            return UNDETECTABLE
        return f"{enough[0]} of {n} or more, and {n - enough[0]} of {n} or fewer, at every {in_words(self.by)}"


@dataclass(frozen=True)
class Always:
    """A fact that needs no statistics: it holds in every row of the group, or it does not."""

    group: Group
    outcome: str

    @property
    def method(self) -> str:
        return f"{in_words(self.outcome)} in every row of {self.group.label}: {COUNTED}"

    def evidence(self, rows: Sequence[FigureRow]) -> Evidence:
        found = rate(self.group.of(rows), self.outcome)
        if not found.trials:
            return NOTHING
        holds = found.successes == found.trials
        numbers = f"{self.group.label}: {counted(found)}"
        data = {"successes": found.successes, "of": found.trials}
        return Evidence(float(not holds), float(holds), 0.0, numbers, data)

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        return "a single exception"
