"""Tests of numbers: means against a bar or each other, and trends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from internalize.figures.claims import UNDETECTABLE, TestOutcome
from internalize.figures.rows import (
    FigureRow,
    Members,
    in_words,
    numbers_of,
    part_of,
    percents,
    sizes_within,
    values_at,
)
from internalize.statistics import (
    Interval,
    bootstrap,
    mean_against_zero,
    spearman_trend,
    stratified_difference,
)
from internalize.statistics.groups import least_split
from internalize.statistics.trends import correlation

Row = FigureRow


def _within(interval: Interval, signed: bool = True, digits: int = 2) -> str:
    sign = "+" if signed else ""
    return f"[{interval.low:{sign}.{digits}f}, {interval.high:{sign}.{digits}f}]"


def _signed(number: float) -> str:
    """To a thousandth, and 0 without a sign: `mean +0.00 [-0.00, +0.00]` says nothing."""
    return "0" if abs(number) < 5e-4 else f"{number:+.3f}"


def _mean_of_first(groups: Sequence[Sequence[float]]) -> float:
    return fmean(groups[0])


@dataclass(frozen=True)
class MeanBeyond:
    """The mean of a number of each run lies below a bar fixed beforehand, or above it.

    With `by`, at every value of that field: all must pass. The test flips signs around the bar.
    """

    group: Members
    value: str
    side: Literal["below", "above"]
    bar: float = 0.0
    by: str | None = None

    @property
    def groups(self) -> tuple[Members, ...]:
        return (self.group,)

    @property
    def method(self) -> str:
        every = "" if self.by is None else f", at every {in_words(self.by)}"
        where = f"{in_words(self.value)} in {self.group.label}"
        return f"sign-flip permutation test of {where}: {self.side} {self.bar:g}{every}"

    def outcome_of(self, rows: Sequence[Row]) -> TestOutcome | None:
        members = self.group.of(rows)
        parts = {
            value: numbers_of(part_of(members, self.by, value), self.value)
            for value in values_at(members, self.by)
        }
        parts = {value: numbers for value, numbers in parts.items() if numbers}
        if not parts:
            return None
        wanted, contrary = ("less", "greater") if self.side == "below" else ("greater", "less")
        shifted = [[number - self.bar for number in numbers] for numbers in parts.values()]
        against = [mean_against_zero(numbers, contrary) for numbers in shifted]  # type: ignore[arg-type]
        return TestOutcome(
            claimed=max(mean_against_zero(numbers, wanted) for numbers in shifted),  # type: ignore[arg-type]
            opposite=min(1.0, min(against) * len(against)),
            numbers=self._told(parts),
            data={str(value): numbers for value, numbers in parts.items()},
        )

    def _told(self, parts: dict[Any, list[float]]) -> str:
        """`mean ID accuracy above chance of E2E: C3 T=17 +0.002 [-0.001, +0.004], …; 10 runs each`."""
        sizes = {len(numbers) for numbers in parts.values()}
        told = []
        for value, numbers in parts.items():
            interval = bootstrap([numbers], _mean_of_first)
            field = "" if self.by is None or isinstance(value, str) else f"{in_words(self.by)} "
            where = "" if self.by is None else f"{field}{value} "
            count = f" in {len(numbers)} runs" if len(sizes) > 1 else ""
            between = f"[{_signed(interval.low)}, {_signed(interval.high)}]"
            told.append(f"{where}{_signed(fmean(numbers))} {between}{count}")
        each = "" if len(sizes) > 1 else f"; {sizes.pop()} runs{' each' if len(parts) > 1 else ''}"
        return f"mean {in_words(self.value)} of {self.group.label}: {', '.join(told)}{each}"

    def detects(self, planned: Sequence[Row], level: float) -> str:
        members = self.group.planned(planned)
        n = min((len(part_of(members, self.by, value)) for value in values_at(members, self.by)), default=0)
        least = next((k for k in range(1, n + 1) if 0.5**k <= level), None)
        told = f"{least} of {n} runs alike {self.side} {self.bar:g}, the others at it"
        return UNDETECTABLE if least is None else told


@dataclass(frozen=True)
class Larger:
    """The mean of a number is larger in one group than in another, compared within each stratum."""

    more: Members
    less: Members
    value: str
    strata: str | None = None

    @property
    def groups(self) -> tuple[Members, ...]:
        return self.more, self.less

    @property
    def method(self) -> str:
        within = f" within each {in_words(self.strata)}" if self.strata else ""
        return (
            f"permutation test of {in_words(self.value)}{within}: larger in {self.more.label} than in "
            f"{self.less.label}"
        )

    def _sides(self, rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
        """The rows of the one and of the other that have numbers, in strata that both have."""
        more, less = (
            [row for row in members.of(rows) if row.get(self.value) is not None] for members in self.groups
        )
        common = set(map(self._stratum, more)) & set(map(self._stratum, less))
        return [r for r in more if self._stratum(r) in common], [r for r in less if self._stratum(r) in common]

    def _stratum(self, row: Row) -> Any:
        return None if self.strata is None else row.get(self.strata)

    def outcome_of(self, rows: Sequence[Row]) -> TestOutcome | None:
        more, less = self._sides(rows)
        if not more:
            return None
        numbers = numbers_of(more, self.value), numbers_of(less, self.value)
        strata = [self._stratum(row) for row in more], [self._stratum(row) for row in less]
        return TestOutcome(
            claimed=stratified_difference(*numbers, strata, "greater"),
            opposite=stratified_difference(*numbers, strata, "less"),
            numbers=self._told(more, less),
            data={self.more.label: numbers[0], self.less.label: numbers[1]},
        )

    def _told(self, more: list[Row], less: list[Row]) -> str:
        labels = list(dict.fromkeys(map(self._stratum, more)))
        groups = [
            [float(row[self.value]) for row in side if self._stratum(row) == label]
            for label in labels
            for side in (more, less)
        ]

        def difference(drawn: Sequence[Sequence[float]]) -> float:
            return fmean(fmean(a) - fmean(b) for a, b in zip(drawn[::2], drawn[1::2], strict=True))

        means = f"mean {in_words(self.value).removeprefix('the ').rstrip(',')}: " + " and ".join(
            f"{members.label} {fmean(numbers_of(side, self.value)):.3f} in {len(side)} runs"
            for members, side in ((self.more, more), (self.less, less))
        )
        interval = _within(bootstrap(groups, difference), digits=3)
        several = self.strata if len(labels) > 1 else None
        of_each = f", the mean of those at each {in_words(several)}" if several else ""
        return f"{means}; difference {difference(groups):+.3f} {interval}{of_each}"

    def detects(self, planned: Sequence[Row], level: float) -> str:
        sizes = sizes_within(self.more.planned(planned), self.less.planned(planned), self.strata)
        if not sizes or least_split(*sizes) > level:
            return UNDETECTABLE
        first, second = (sum(side) for side in zip(*sizes, strict=True))
        where = f", within each {in_words(self.strata)}" if len(sizes) > 1 and self.strata else ""
        return f"{first} runs that are all above the other {second}{where}"


@dataclass(frozen=True)
class WithField:
    """The outcome (yes or no, or a number) rises or falls with a field, within each stratum."""

    group: Members
    field: str
    outcome: str
    direction: Literal["rises", "falls"] = "rises"
    strata: tuple[str, ...] = ()
    number: bool = False
    """Whether the outcome is a number: then the plan speaks of runs that are all above others, not of rates."""

    @property
    def groups(self) -> tuple[Members, ...]:
        return (self.group,)

    @property
    def method(self) -> str:
        within = (
            f", permuted within {' and '.join(map(in_words, self.strata))}" if self.strata else ", permuted"
        )
        says = f"{in_words(self.outcome)} {self.direction} with {in_words(self.field)}"
        return f"Spearman's correlation in {self.group.label}: {says}{within}"

    def outcome_of(self, rows: Sequence[Row]) -> TestOutcome | None:
        members = [row for row in self.group.of(rows) if row.get(self.outcome) is not None]
        if len({row[self.field] for row in members}) < 2:
            return None
        trend = self._trend(members)
        rising = self.direction == "rises"
        strata = list(dict.fromkeys(map(self._stratum, members)))
        parts = [
            [
                (float(row[self.field]), float(row[self.outcome]))
                for row in members
                if self._stratum(row) == stratum
            ]
            for stratum in strata
        ]
        interval = bootstrap(parts, _correlation_within)
        levels = self._levels(members)
        return TestOutcome(
            claimed=trend.rising if rising else trend.falling,
            opposite=trend.falling if rising else trend.rising,
            numbers=f"correlation {trend.correlation:+.2f} {_within(interval)} over {len(members)} runs; "
            f"{levels}",
            data={
                "correlation": trend.correlation,
                "interval": [interval.low, interval.high],
                "runs": len(members),
            },
        )

    def _trend(self, members: Sequence[Row]) -> Any:
        return spearman_trend(
            [float(row[self.field]) for row in members],
            [float(row[self.outcome]) for row in members],
            [self._stratum(row) for row in members],
        )

    def _stratum(self, row: Row) -> tuple[object, ...]:
        return tuple(row.get(name) for name in self.strata)

    def _levels(self, members: Sequence[Row]) -> str:
        """`success ID by heads: 1 → 0 %, 32 → 60 %`."""
        parts = []
        for value in sorted({row[self.field] for row in members}):
            mean = fmean(float(row[self.outcome]) for row in members if row[self.field] == value)
            number = f"{mean:,.0f}" if abs(mean) >= 100 else f"{mean:.3g}"
            parts.append(f"{value} → {number if self.number else percents(mean)}")
        mean_of = "mean " if self.number else ""
        return f"{mean_of}{in_words(self.outcome)} by {in_words(self.field)}: {', '.join(parts)}"

    def detects(self, planned: Sequence[Row], level: float) -> str:
        """The least rate at the far end, growing evenly from 0, that the test sees; for numbers, an order."""
        members = [row for row in self.group.planned(planned) if self.field in row]
        values = sorted({row[self.field] for row in members})
        if len(values) < 2:
            return UNDETECTABLE
        if self.direction == "falls":
            values.reverse()
        if self.number:
            ordered = [{**row, self.outcome: values.index(row[self.field])} for row in members]
            told = f"every run at {values[-1]} above every run at {values[0]}"
            told += ", and those between in their order" if len(values) > 2 else ""
            return told if self._would_show(ordered, level) else UNDETECTABLE
        for percent in range(5, 101, 5):
            made = [planted for value in values for planted in self._plant(members, values, value, percent)]
            if self._would_show(made, level):
                return f"a rate from 0 % at {values[0]} to {percent} % at {values[-1]}, in even steps"
        for first in values[1:]:
            reached = [
                {**row, self.outcome: values.index(row[self.field]) >= values.index(first)} for row in members
            ]
            if self._would_show(reached, level):
                return f"every run from {first} on, and none before"
        return UNDETECTABLE

    def _would_show(self, made: Sequence[Row], level: float) -> bool:
        """Whether these outcomes are clear enough. They grow in the direction that is claimed."""
        trend = self._trend(made)
        return bool((trend.rising if self.direction == "rises" else trend.falling) <= level)

    def _plant(self, members: Sequence[Row], values: list[float], value: float, percent: int) -> list[Row]:
        """The runs at a value, the outcome given to as many as an even growth to `percent` makes it."""
        wanted = percent / 100 * values.index(value) / (len(values) - 1)
        planted: list[Row] = []
        for stratum in dict.fromkeys(self._stratum(row) for row in members):
            here = [row for row in members if row[self.field] == value and self._stratum(row) == stratum]
            successes = round(wanted * len(here))
            planted += [{**row, self.outcome: i < successes} for i, row in enumerate(here)]
        return planted


def _correlation_within(parts: Sequence[Sequence[tuple[float, float]]]) -> float:
    """Over all parts together, of ranks within each."""
    points = [(x, y, number) for number, part in enumerate(parts) for x, y in part]
    x, y, strata = zip(*points, strict=True)
    return correlation(x, y, strata)
