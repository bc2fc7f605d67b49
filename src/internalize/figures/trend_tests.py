"""Tests of trends: an outcome rises, or falls, with a field of the config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean
from typing import Literal

from internalize.figures.claims import NOTHING, UNDETECTABLE, Evidence, percents
from internalize.figures.rows import FigureRow, Group, in_words
from internalize.statistics import spearman_trend
from internalize.statistics.groups import RESAMPLES


@dataclass(frozen=True)
class WithField:
    """The outcome (yes or no, or a number) rises or falls with a field, within each stratum."""

    group: Group
    field: str
    outcome: str
    direction: Literal["rises", "falls"] = "rises"
    strata: tuple[str, ...] = ()
    number: bool = False
    """Whether the outcome is a number: then the plan speaks of runs that are all above others, not of rates."""

    @property
    def method(self) -> str:
        within = (
            f", permuted within {' and '.join(map(in_words, self.strata))}" if self.strata else ", permuted"
        )
        says = f"{in_words(self.outcome)} {self.direction} with {in_words(self.field)}"
        return f"Spearman's correlation in {self.group.label}: {says}{within}"

    def evidence(self, rows: Sequence[FigureRow]) -> Evidence:
        members = [row for row in self.group.of(rows) if row.get(self.outcome) is not None]
        return self._evidence(members) if members else NOTHING

    def _evidence(self, members: Sequence[FigureRow]) -> Evidence:
        trend = spearman_trend(
            [float(row[self.field]) for row in members],
            [float(row[self.outcome]) for row in members],
            [self._stratum(row) for row in members],
        )
        rising = self.direction == "rises"
        return Evidence(
            claimed=trend.rising if rising else trend.falling,
            opposite=trend.falling if rising else trend.rising,
            least=self._least(members),
            numbers=f"correlation {trend.correlation:+.2f} over {len(members)} runs; {self._levels(members)}",
            data={"correlation": trend.correlation, "runs": len(members)},
        )

    def _stratum(self, row: FigureRow) -> tuple[object, ...]:
        return tuple(row.get(name) for name in self.strata)

    def _levels(self, members: Sequence[FigureRow]) -> str:
        """`1: 0 %, 32: 60 %`: the outcome at each value of the field."""
        parts = []
        for value in sorted({row[self.field] for row in members}):
            at = [row for row in members if row[self.field] == value]
            mean = fmean(float(row[self.outcome]) for row in at)
            parts.append(f"{value}: {percents(mean)}")
        return ", ".join(parts)

    def _least(self, members: Sequence[FigureRow]) -> float:
        """The p-value if every run above some value of the field had the outcome and no other: the best cut.

        Within a stratum exactly one of the C(n, k) ways to place k successes puts all of them on top.
        """
        best = 1.0
        values = sorted({row[self.field] for row in members})
        for cut in values[1:]:
            chance = 1.0
            for stratum in {self._stratum(row) for row in members}:
                inside = [row for row in members if self._stratum(row) == stratum]
                chance /= comb(len(inside), sum(row[self.field] >= cut for row in inside))
            best = min(best, chance)
        return max(best, 1 / (RESAMPLES + 1)) if len(values) > 1 else 1.0

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        """The least rate at the far end, growing evenly from 0, that the test sees; for numbers, an order."""
        members = self.group.planned(planned)
        values = sorted({row[self.field] for row in members})
        if self.direction == "falls":
            values.reverse()
        if self.number:
            seen = self._least(members) <= level
            return f"every run at {values[-1]} above every run at {values[0]}" if seen else UNDETECTABLE
        for percent in range(5, 101, 5) if len(values) > 1 else ():
            made = [planted for value in values for planted in self._plant(members, values, value, percent)]
            if self._evidence(made).claimed <= level:
                return f"a rate from 0 % at {values[0]} to {percent} % at {values[-1]}, in even steps"
        return UNDETECTABLE

    def _plant(
        self, members: Sequence[FigureRow], values: list[float], value: float, percent: int
    ) -> list[FigureRow]:
        """The runs at a value, the outcome given to as many as an even growth to `percent` makes it."""
        wanted = percent / 100 * values.index(value) / (len(values) - 1)
        planted: list[FigureRow] = []
        for stratum in dict.fromkeys(self._stratum(row) for row in members):
            here = [row for row in members if row[self.field] == value and self._stratum(row) == stratum]
            successes = round(wanted * len(here))
            planted += [{**row, self.outcome: i < successes} for i, row in enumerate(here)]
        return planted
