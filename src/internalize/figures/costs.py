"""Tests of what tasks cost to internalize: more for one kind of them, or with a number of theirs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from internalize.figures.claims import UNDETECTABLE, TestOutcome
from internalize.figures.rows import FigureRow, Members, in_words
from internalize.figures.waiting import factor_told, unit_of
from internalize.statistics import effect_of, ways_to_deal
from internalize.statistics.groups import least_share
from internalize.statistics.trends import Effect


def _effect_data(found: Effect) -> dict[str, Any]:
    ends = [found.interval.low, found.interval.high] if found.interval else []
    return {"coefficient": found.coefficient, "interval": ends}


def _log_costs(rows: Sequence[FigureRow], cost: str, *fields: str) -> dict[tuple[Any, ...], float]:
    """The mean log cost of the runs that are alike in these fields, of those whose cost is known."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        if row.get(cost) is not None:
            found.setdefault(tuple(row.get(field) for field in fields), []).append(math.log(row[cost]))
    return {key: fmean(costs) for key, costs in found.items()}


def _ways_to_name(kinds: Sequence[Members], planned: Sequence[FigureRow], strata: str, unit: str) -> int:
    """In how many ways so many units of a stratum can be called one of the first kind; 1 if a kind has none."""
    units = {
        (row.get(strata), row.get(unit)): kind
        for kind, members in enumerate(kinds)
        for row in members.planned(planned)
    }
    return ways_to_deal(list(units.values()), [stratum for stratum, _ in units])


@dataclass(frozen=True)
class CostsMore:
    """A kind of task costs more than another at equal size: log cost on log size and an indicator of the kind.

    The unit is the task, such as the order of a counter: the log costs of its runs are averaged (a run that
    never internalized counts with its whole budget), and the kinds are permuted over tasks within each stratum.
    """

    costly: Members
    others: Members
    unit: str = "order"
    strata: str = "horizon"
    cost: str = "iterations_until"

    @property
    def groups(self) -> tuple[Members, ...]:
        return self.costly, self.others

    @property
    def method(self) -> str:
        return (
            f"regression of log {in_words(self.cost)} on log {self.unit} and on being one of the "
            f"{self.costly.label} rather than the {self.others.label}, permuted over {self.unit}s within each "
            f"{in_words(self.strata)}"
        )

    def _regression(self, rows: Sequence[FigureRow]) -> tuple[list[tuple[Any, ...]], Effect] | None:
        """The units (stratum, size, whether it is of the costly kind), and the effect of being so."""
        units = {
            (*key, costly): cost
            for members, costly in ((self.costly, True), (self.others, False))
            for key, cost in _log_costs(members.of(rows), self.cost, self.strata, self.unit).items()
        }
        kinds, strata = [costly for *_, costly in units], [stratum for stratum, *_ in units]
        if set(kinds) != {True, False}:
            return None
        sizes = [math.log(unit) for _, unit, _ in units]
        return list(units), effect_of(kinds, list(units.values()), sizes, strata)

    def fit(self, rows: Sequence[FigureRow]) -> dict[bool, dict[Any, float]]:
        """What the regression says that a unit costs: of the costly kind (True) and of the others.

        By the unit alone, so rows in which it stands in two strata have no such lines.
        """
        units, found = self._regression(rows) or ([], None)
        lines: dict[bool, dict[Any, float]] = {True: {}, False: {}}
        for (_, unit, costly), cost in zip(units, found.fitted if found else (), strict=True):
            lines[costly][unit] = math.exp(cost)
        return lines

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        regression = self._regression(rows)
        if regression is None:
            return None
        units, found = regression
        kinds = [costly for *_, costly in units]
        counts = f"{sum(kinds)} {self.costly.label}, {len(kinds) - sum(kinds)} {self.others.label}"
        return TestOutcome(
            claimed=found.rises,
            opposite=found.falls,
            numbers=f"{self.costly.label} take {factor_told(found)} times the {unit_of(self.cost)} of "
            f"{self.others.label} of their size ({counts})",
            data=_effect_data(found),
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        ways = _ways_to_name(self.groups, planned, self.strata, self.unit)
        if least_share(ways) > level:
            return UNDETECTABLE
        return f"the highest of {ways} ways to name so many {self.unit}s {self.costly.label}"


@dataclass(frozen=True)
class CostsWith:
    """Tasks cost more, the larger a number of theirs is: log cost on the log of that number, within strata.

    The unit is the task: the log costs of its runs are averaged (a run that never internalized counts with its
    whole budget), and the numbers are permuted over the tasks of a stratum, such as all of one size.
    """

    group: Members
    number: str
    strata: str
    unit: str = "task"
    cost: str = "iterations_until"
    beside: str | None = None
    """Another number of the tasks whose log is in the regression too: cost that it explains does not count."""

    @property
    def groups(self) -> tuple[Members, ...]:
        return (self.group,)

    @property
    def method(self) -> str:
        beside = "" if self.beside is None else f" and on log {in_words(self.beside)}"
        return (
            f"regression of log {in_words(self.cost)} on the log of {in_words(self.number)}{beside}, over "
            f"{self.group.label}, permuted over {self.unit}s within each {in_words(self.strata)}: rises"
        )

    def _regression(self, rows: Sequence[FigureRow]) -> tuple[list[Any], Effect] | None:
        """The units, and the effect of their number."""
        beside = self.beside or self.number
        units = _log_costs(self.group.of(rows), self.cost, self.strata, self.unit, self.number, beside)
        strata, numbers = [stratum for stratum, *_ in units], [number for _, _, number, _ in units]
        if ways_to_deal(numbers, strata) < 2:
            return None
        sizes = None if self.beside is None else [math.log2(size) for *_, size in units]
        found = effect_of(list(map(math.log2, numbers)), list(units.values()), sizes, strata)
        return [unit for _, unit, *_ in units], found

    def fit(self, rows: Sequence[FigureRow]) -> dict[Any, float]:
        """What the regression says that each unit costs."""
        units, found = self._regression(rows) or ([], None)
        costs = map(math.exp, found.fitted if found else ())
        return dict(zip(units, costs, strict=True))

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        regression = self._regression(rows)
        if regression is None:
            return None
        units, found = regression
        return TestOutcome(
            claimed=found.rises,
            opposite=found.falls,
            numbers=f"{factor_told(found)} times the {unit_of(self.cost)} where {in_words(self.number)} is "
            f"twice as large ({len(units)} {self.unit}s)",
            data=_effect_data(found),
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        members = self.group.planned(planned)
        units = {(row.get(self.strata), row[self.unit], row[self.number]) for row in members}
        ways = ways_to_deal([number for _, _, number in units], [stratum for stratum, _, _ in units])
        if least_share(ways) > level:
            return UNDETECTABLE
        return f"the steepest of {ways} ways to deal out {in_words(self.number)}"


@dataclass(frozen=True)
class GainsMore:
    """What a change of a field brings is more for one group of units than for another.

    Units are the values of the field `by` (orders, say); each has one gain, the mean of log cost before minus
    after, and the kinds are permuted over the units of a stratum.
    """

    more: Members
    less: Members
    by: str
    after: Members
    before: Members
    strata: str = "horizon"
    cost: str = "iterations_until"

    @property
    def groups(self) -> tuple[Members, ...]:
        return self.more, self.less

    @property
    def method(self) -> str:
        return (
            f"permutation test over {in_words(self.by)}s, within each {in_words(self.strata)}, of the gain in "
            f"log {in_words(self.cost)} from {self.before.label} to {self.after.label}: more for "
            f"{self.more.label} than for {self.less.label}"
        )

    def _gains(self, rows: Sequence[FigureRow]) -> dict[tuple[Any, ...], float]:
        """Of each stratum and unit that has runs before the change and after it."""
        before, after = (
            _log_costs(members.of(rows), self.cost, self.strata, self.by)
            for members in (self.before, self.after)
        )
        return {unit: before[unit] - after[unit] for unit in before if unit in after}

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        more, less = self._gains(self.more.of(rows)), self._gains(self.less.of(rows))
        if not more or not less:
            return None
        gains = [*more.values(), *less.values()]
        found = effect_of(
            [True] * len(more) + [False] * len(less), gains, strata=[stratum for stratum, _ in (*more, *less)]
        )
        within = found.interval
        told = f" [{within.low:+.2f}, {within.high:+.2f}]" if within else ""
        return TestOutcome(
            claimed=found.rises,
            opposite=found.falls,
            numbers=f"mean gain {self.more.label} {fmean(more.values()):+.2f} ({len(more)} of them), "
            f"{self.less.label} {fmean(less.values()):+.2f} ({len(less)}); difference at equal "
            f"{in_words(self.strata)} {found.coefficient:+.2f}{told}",
            data={**_effect_data(found), "more": list(more.values()), "less": list(less.values())},
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        ways = _ways_to_name(self.groups, planned, self.strata, self.by)
        if least_share(ways) > level:
            return UNDETECTABLE
        return f"the largest of {ways} ways to deal out the gains"
