"""Tests of rates: against a bar, against each other, alike, two outcomes of the same runs; and plain facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

from internalize.figures.claims import COUNTED, UNDETECTABLE, TestOutcome
from internalize.figures.rows import (
    FigureRow,
    Members,
    counted,
    in_words,
    part_label,
    part_of,
    percents,
    place,
    rate,
    sizes_within,
    values_at,
)
from internalize.statistics import (
    Rate,
    binomial,
    clopper_pearson,
    difference_within_strata,
    newcombe,
    rates_differ_less,
    rates_differ_more,
    stratified_difference,
)
from internalize.statistics.groups import Alternative, mcnemar


def _interval_data(found: Rate) -> dict[str, Any]:
    exact = clopper_pearson(found.successes, found.trials)
    return {"successes": found.successes, "of": found.trials, "interval": [exact.low, exact.high]}


def _told(label: str, found: Rate) -> str:
    return f"{label}: {_with_interval(found)}"


def _with_interval(found: Rate) -> str:
    exact = clopper_pearson(found.successes, found.trials)
    return f"{counted(found)} [{percents(exact.low)}, {percents(exact.high)}]"


@dataclass(frozen=True)
class _OneBar:
    """The group's outcome comes more often than the bar, or less often: the subclass says which.

    With `by`, at every value of that field: all must pass, so that none of them needs a correction.
    """

    group: Members
    outcome: str
    bar: float
    by: str | None = None

    side: ClassVar[Alternative]
    other_side: ClassVar[Alternative]
    in_a_word: ClassVar[str]

    @property
    def groups(self) -> tuple[Members, ...]:
        return (self.group,)

    @property
    def method(self) -> str:
        where = f"{in_words(self.outcome)} in {self.group.label}"
        every = "" if self.by is None else f", at every {in_words(self.by)}"
        return f"exact binomial test of {where}: {self.in_a_word} often than {percents(self.bar)}{every}"

    def _clearest(self, n: int) -> int:
        """Of n runs, how many have the outcome where the claim is truest."""
        return n if self.side == "greater" else 0

    def _parts(self, rows: Sequence[FigureRow]) -> dict[Any, Rate]:
        members = self.group.of(rows)
        found = {
            value: rate(part_of(members, self.by, value), self.outcome) for value in values_at(members, self.by)
        }
        return {value: of for value, of in found.items() if of.trials}

    def _numbers(self, parts: dict[Any, Rate]) -> str:
        """`E2E, success ID: 0 of 10 [0 %, 31 %] at each of C3 T=17, C4 T=13`: what is alike is said once."""
        if self.by is None:
            return _told(self.group.label, parts[None])
        alike: dict[Rate, list[str]] = {}
        for value, found in parts.items():
            alike.setdefault(found, []).append(place(self.by, value))
        told = [
            f"{_with_interval(found)} at {'each of ' if len(places) > 1 else ''}{', '.join(places)}"
            for found, places in alike.items()
        ]
        return f"{self.group.label}, {in_words(self.outcome)}: {'; '.join(told)}"

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        parts = self._parts(rows)
        if not parts:
            return None
        against = [binomial(found, self.bar, self.other_side) for found in parts.values()]
        return TestOutcome(
            claimed=max(binomial(found, self.bar, self.side) for found in parts.values()),
            opposite=min(1.0, min(against) * len(against)),  # one part that says the contrary is enough
            numbers=self._numbers(parts),
            data={
                part_label(self.group, self.by, value): _interval_data(found) for value, found in parts.items()
            },
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        members = self.group.planned(planned)
        n = min((len(part_of(members, self.by, value)) for value in values_at(members, self.by)), default=0)
        passing = [k for k in range(n + 1) if n and binomial(Rate(k, n), self.bar, self.side) <= level]
        if not passing:
            return UNDETECTABLE
        clearest = self._clearest(n)
        bound = max(passing, key=lambda k: abs(k - clearest))
        more = "" if bound == clearest else " or more" if self.side == "greater" else " or fewer"
        every = "" if self.by is None else f" at every {in_words(self.by)}"
        return f"{bound} of {n}{more}{every}"


class RateAbove(_OneBar):
    """The group's outcome comes more often than the bar."""

    side, other_side, in_a_word = "greater", "less", "more"


class RateBelow(_OneBar):
    """The group's outcome comes less often than the bar."""

    side, other_side, in_a_word = "less", "greater", "less"


@dataclass(frozen=True)
class RateBetween:
    """The group's rate lies between two bars: both one-sided tests must say so."""

    group: Members
    outcome: str
    low: float
    high: float

    @property
    def groups(self) -> tuple[Members, ...]:
        return (self.group,)

    @property
    def method(self) -> str:
        between = f"{percents(self.low)} and {percents(self.high)}"
        return f"two exact binomial tests of {in_words(self.outcome)} in {self.group.label}: between {between}"

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        found = rate(self.group.of(rows), self.outcome)
        if not found.trials:
            return None
        outside = min(binomial(found, self.low, "less"), binomial(found, self.high, "greater"))
        return TestOutcome(
            claimed=self._p(found),
            opposite=min(1.0, 2 * outside),  # it may lie outside on two sides
            numbers=_told(self.group.label, found),
            data=_interval_data(found),
        )

    def _p(self, found: Rate) -> float:
        return max(binomial(found, self.low, "greater"), binomial(found, self.high, "less"))

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        n = len(self.group.planned(planned))
        inside = [k for k in range(n + 1) if n and self._p(Rate(k, n)) <= level]
        return f"{inside[0]} to {inside[-1]} of {n}" if inside else UNDETECTABLE


def _rate_at(stratum: Any, outcomes: Sequence[bool], strata: Sequence[Any]) -> Rate:
    inside = [outcome for outcome, own in zip(outcomes, strata, strict=True) if own == stratum]
    return Rate(sum(inside), len(inside))


@dataclass(frozen=True)
class MoreOften:
    """One group has the outcome more often than another, compared within each stratum such as a task.

    The difference of rates is that within strata, with its interval.
    The second group may have another outcome of its own, for models that are asked in another way.
    """

    more: Members
    less: Members
    outcome: str
    outcome_of_less: str | None = None
    strata: str | None = None

    @property
    def groups(self) -> tuple[Members, ...]:
        return self.more, self.less

    @property
    def method(self) -> str:
        other = "" if self.outcome_of_less is None else f" has {in_words(self.outcome_of_less)}"
        groups = f"{self.more.label} more often than {self.less.label}{other}"
        if self.strata is None:
            return f"Fisher's exact test of {in_words(self.outcome)}: {groups}"
        return f"exact test of {in_words(self.outcome)} within each {in_words(self.strata)}: {groups}"

    def _sides(self, rows: Sequence[FigureRow]) -> tuple[list[tuple[list[bool], list[Any]]], list[str]]:
        """Of each group: the outcomes and their strata, of strata that both groups have; and what is said of
        runs that have none to be compared with."""
        sides = []
        for members, outcome in ((self.more, self.outcome), (self.less, self.outcome_of_less or self.outcome)):
            known = [row for row in members.of(rows) if row.get(outcome) is not None]
            strata = [None if self.strata is None else row.get(self.strata) for row in known]
            sides.append([(bool(row[outcome]), label) for row, label in zip(known, strata, strict=True)])
        common = {label for _, label in sides[0]} & {label for _, label in sides[1]}
        kept = [[(won, label) for won, label in side if label in common] for side in sides]
        alone = [
            f"{n} {'run' if n == 1 else 'runs'} of {members.label} at {place(self.strata or '', label)}"
            for members, side in zip(self.groups, sides, strict=True)
            for label, n in Counter(label for _, label in side if label not in common).items()
        ]
        return [([won for won, _ in side], [label for _, label in side]) for side in kept], alone

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        ((more, strata_of_more), (less, strata_of_less)), alone = self._sides(rows)
        if not more:
            return None
        strata = strata_of_more, strata_of_less
        rates = Rate(sum(more), len(more)), Rate(sum(less), len(less))
        effect, interval = difference_within_strata(
            [
                (_rate_at(label, more, strata_of_more), _rate_at(label, less, strata_of_less))
                for label in dict.fromkeys(strata_of_more)
            ]
        )
        told = f"difference {100 * effect:+.0f} % [{100 * interval.low:+.0f} %, {100 * interval.high:+.0f} %]"
        own = "" if self.outcome_of_less is None else f" ({in_words(self.outcome_of_less)})"
        if alone:
            told += f"; not compared, since the others were not run there: {', '.join(alone)}"
        ceiling = f"{self.less.label} is at the ceiling, so that nothing can be above it" if all(less) else ""
        return TestOutcome(
            claimed=stratified_difference(more, less, strata, "greater"),
            opposite=stratified_difference(more, less, strata, "less"),
            ceiling=ceiling,
            numbers=f"{self.more.label} {counted(rates[0])}, {self.less.label} {counted(rates[1])}{own}; "
            f"{told}",
            data={
                "more": {"successes": rates[0].successes, "of": rates[0].trials},
                "less": {"successes": rates[1].successes, "of": rates[1].trials},
                "difference": effect,
                "interval": [interval.low, interval.high],
            },
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        """The fewest successes that would do, spread evenly over the strata."""
        sizes = sizes_within(self.more.planned(planned), self.less.planned(planned), self.strata)
        in_turn = sorted((i, stratum) for stratum, (n, _) in enumerate(sizes) for i in range(n))
        strata = [stratum for _, stratum in in_turn], [s for s, (_, m) in enumerate(sizes) for _ in range(m)]
        none = [False] * len(strata[1])
        for k in range(1, len(in_turn) + 1):
            won = [place < k for place in range(len(in_turn))]
            if stratified_difference(won, none, strata) <= level:
                return f"{k} of {len(won)} against 0 of {len(none)}"
        return UNDETECTABLE


@dataclass(frozen=True)
class Alike:
    """A field makes no difference: between any two of its values, rates differ by less than a margin.

    The margin is fixed beforehand; all pairs of values must pass.
    """

    group: Members
    outcome: str
    by: str
    margin: float

    @property
    def groups(self) -> tuple[Members, ...]:
        return (self.group,)

    @property
    def method(self) -> str:
        where = f"{in_words(self.outcome)} in {self.group.label}, for every two values of {in_words(self.by)}"
        return f"two one-sided exact tests of {where}: rates differ by less than {percents(self.margin)}"

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        members = self.group.of(rows)
        parts = {
            value: rate(part_of(members, self.by, value), self.outcome) for value in values_at(members, self.by)
        }
        parts = {value: found for value, found in parts.items() if found.trials}
        if len(parts) < 2:
            return None
        pairs = list(combinations(parts.values(), 2))
        intervals = [newcombe(*pair) for pair in pairs]
        bound = max(abs(end) for interval in intervals for end in (interval.low, interval.high))
        told = ", ".join(f"{value} {counted(found)}" for value, found in parts.items())
        return TestOutcome(
            claimed=max(rates_differ_less(*pair, self.margin) for pair in pairs),
            opposite=min(1.0, len(pairs) * min(rates_differ_more(*pair, self.margin) for pair in pairs)),
            numbers=f"{self.group.label}: {told}; two of them may differ by up to {percents(bound)}",
            data={str(value): _interval_data(found) for value, found in parts.items()},
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        members = self.group.planned(planned)
        sizes = sorted(len(part_of(members, self.by, value)) for value in values_at(members, self.by))
        smallest = [Rate(0, n) for n in sizes[:2]]
        if len(smallest) < 2 or rates_differ_less(smallest[0], smallest[1], self.margin) > level:
            return UNDETECTABLE
        return f"rates that are all 0 % or all 100 %, within {percents(self.margin)} of each other"


@dataclass(frozen=True)
class OftenWithout:
    """In the same runs one outcome comes without the other more often than the other without the one."""

    group: Members
    outcome: str
    without: str

    @property
    def groups(self) -> tuple[Members, ...]:
        return (self.group,)

    @property
    def method(self) -> str:
        outcomes = f"{in_words(self.outcome)} without {in_words(self.without)}"
        return f"McNemar's exact test in {self.group.label}: {outcomes}"

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        both = (self.outcome, self.without)
        members = [row for row in self.group.of(rows) if all(row.get(name) is not None for name in both)]
        if not members:
            return None
        first = [bool(row[self.outcome]) for row in members]
        second = [bool(row[self.without]) for row in members]
        only_first = sum(a and not b for a, b in zip(first, second, strict=True))
        only_second = sum(b and not a for a, b in zip(first, second, strict=True))
        return TestOutcome(
            claimed=mcnemar(first, second, "greater"),
            opposite=mcnemar(first, second, "less"),
            numbers=f"{self.group.label}: {in_words(self.outcome)} in {sum(first)} of {len(members)}, in "
            f"{only_first} of them without {in_words(self.without)}; the other way round {only_second}",
            data={"runs": len(members), "only": only_first, "only_other": only_second},
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        n = len(self.group.planned(planned))
        least = next((k for k in range(1, n + 1) if 0.5**k <= level), None)
        return UNDETECTABLE if least is None else f"{least} of {n} one way and none the other"


@dataclass(frozen=True)
class Always:
    """A fact that needs no statistics: it holds in every row of the group, or it does not."""

    group: Members
    outcome: str

    @property
    def groups(self) -> tuple[Members, ...]:
        return (self.group,)

    @property
    def method(self) -> str:
        return f"{in_words(self.outcome)} in every row of {self.group.label}: {COUNTED}"

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        found = rate(self.group.of(rows), self.outcome)
        if not found.trials:
            return None
        holds = found.successes == found.trials
        data = {"successes": found.successes, "of": found.trials}
        return TestOutcome(float(not holds), float(holds), f"{self.group.label}: {counted(found)}", data)

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        return "a single exception"
