"""Tests between two groups, between two outcomes of the same runs, and between groups of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from internalize.figures.claims import NOTHING, UNDETECTABLE, Evidence
from internalize.figures.rows import FigureRow, Group, counted, in_words, rate
from internalize.statistics import Rate, difference_of_means, fisher, mean_against_zero
from internalize.statistics.groups import RESAMPLES, least_split
from internalize.statistics.pairs import mcnemar


@dataclass(frozen=True)
class MoreOften:
    """One group has the outcome more often than another, all tasks in them pooled.

    The second group may have another outcome of its own, for models that are asked in another way.
    """

    more: Group
    less: Group
    outcome: str
    outcome_of_less: str | None = None

    @property
    def method(self) -> str:
        groups = f"{self.more.label} more often than {self.less.label}"
        return f"Fisher's exact test of {in_words(self.outcome)}: {groups}"

    def evidence(self, rows: Sequence[FigureRow]) -> Evidence:
        more = rate(self.more.of(rows), self.outcome)
        less = rate(self.less.of(rows), self.outcome_of_less or self.outcome)
        if not more.trials or not less.trials:
            return NOTHING
        return Evidence(
            claimed=fisher(more, less, "greater"),
            opposite=fisher(more, less, "less"),
            least=fisher(Rate(more.trials, more.trials), Rate(0, less.trials)),
            numbers=f"{self.more.label} {counted(more)}, {self.less.label} {counted(less)}",
            data={
                "more": {"successes": more.successes, "of": more.trials},
                "less": {"successes": less.successes, "of": less.trials},
            },
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        n, m = len(self.more.planned(planned)), len(self.less.planned(planned))
        if not n or not m:
            return UNDETECTABLE
        least = next((k for k in range(n + 1) if fisher(Rate(k, n), Rate(0, m)) <= level), None)
        return UNDETECTABLE if least is None else f"{least} of {n} against 0 of {m}"


@dataclass(frozen=True)
class OftenWithout:
    """In the same runs one outcome comes without the other more often than the other without the one."""

    group: Group
    outcome: str
    without: str

    @property
    def method(self) -> str:
        outcomes = f"{in_words(self.outcome)} without {in_words(self.without)}"
        return f"McNemar's exact test in {self.group.label}: {outcomes}"

    def evidence(self, rows: Sequence[FigureRow]) -> Evidence:
        members = self.group.of(rows)
        if not members:
            return NOTHING
        first = [bool(row[self.outcome]) for row in members]
        second = [bool(row[self.without]) for row in members]
        only_first = sum(a and not b for a, b in zip(first, second, strict=True))
        only_second = sum(b and not a for a, b in zip(first, second, strict=True))
        return Evidence(
            claimed=mcnemar(first, second, "greater"),
            opposite=mcnemar(first, second, "less"),
            least=0.5 ** len(members),
            numbers=f"{self.group.label}: {in_words(self.outcome)} in {sum(first)} of {len(members)}, in "
            f"{only_first} of them without {in_words(self.without)}; the other way round {only_second}",
            data={"runs": len(members), "only": only_first, "only_other": only_second},
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        n = len(self.group.planned(planned))
        least = next((k for k in range(1, n + 1) if 0.5**k <= level), None)
        return UNDETECTABLE if least is None else f"{least} of {n} one way and none the other"


@dataclass(frozen=True)
class MeanBelowZero:
    """A number of each run, which would be above 0 as often as below, lies below it on average."""

    group: Group
    value: str

    @property
    def method(self) -> str:
        return f"sign-flip permutation test of {in_words(self.value)} in {self.group.label}: below 0"

    def evidence(self, rows: Sequence[FigureRow]) -> Evidence:
        values = [float(row[self.value]) for row in self.group.of(rows) if row.get(self.value) is not None]
        if not values:
            return NOTHING
        return Evidence(
            claimed=mean_against_zero(values, "less"),
            opposite=mean_against_zero(values, "greater"),
            least=max(0.5 ** len(values), 1 / (RESAMPLES + 1)),
            numbers=f"{self.group.label}: mean {fmean(values):+.2f}, below 0 in "
            f"{sum(v < 0 for v in values)} of {len(values)} runs",
            data={"mean": fmean(values), "values": values},
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        n = len(self.group.planned(planned))
        least = next((k for k in range(1, n + 1) if 0.5**k <= level), None)
        told = f"{least} of {n} runs that fall alike, the others staying at 0"
        return UNDETECTABLE if least is None else told


@dataclass(frozen=True)
class GainsMore:
    """Of what a change of a field brings to the rate, one group of parts has more than another.

    Parts are the values of the field `by` (orders, say); each has one gain, and the gains are permuted.
    """

    more: Group
    less: Group
    outcome: str
    by: str
    after: Group
    before: Group

    @property
    def method(self) -> str:
        return (
            f"permutation test over {in_words(self.by)}s of the gain in {in_words(self.outcome)} from "
            f"{self.before.label} to {self.after.label}: more for {self.more.label} than for {self.less.label}"
        )

    def _gains(self, rows: Sequence[FigureRow]) -> list[float]:
        gains = []
        for value in dict.fromkeys(row.get(self.by) for row in rows):
            part = [row for row in rows if row.get(self.by) == value]
            after, before = (rate(group.of(part), self.outcome) for group in (self.after, self.before))
            if after.trials and before.trials:
                gains.append(after.value - before.value)
        return gains

    def evidence(self, rows: Sequence[FigureRow]) -> Evidence:
        more, less = self._gains(self.more.of(rows)), self._gains(self.less.of(rows))
        if not more or not less:
            return NOTHING
        return Evidence(
            claimed=difference_of_means(more, less, "greater"),
            opposite=difference_of_means(more, less, "less"),
            least=least_split(len(more), len(less)),
            numbers=f"mean gain {self.more.label} {fmean(more):+.2f} ({len(more)} of them), {self.less.label} "
            f"{fmean(less):+.2f} ({len(less)})",
            data={"more": more, "less": less},
        )

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        sizes = [len({row.get(self.by) for row in group.planned(planned)}) for group in (self.more, self.less)]
        if not all(sizes) or least_split(*sizes) > level:
            return UNDETECTABLE
        return f"{sizes[0]} gains that are all above the other {sizes[1]}"
