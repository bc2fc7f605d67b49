"""A test of each of several things, all of which must pass: of every task, or of every two groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from internalize.figures.claims import UNDETECTABLE, ClaimTest, TestOutcome
from internalize.figures.rows import FigureRow, Members, in_words, part_of, place, values_at


@dataclass(frozen=True)
class AtEach:
    """The test at each value of a field, such as the task.

    For claims that speak of each of some tasks. Pooled, or compared within strata, the runs of one task would
    speak for those of another.
    """

    test: ClaimTest
    by: str

    @property
    def groups(self) -> tuple[Members, ...]:
        return self.test.groups

    @property
    def method(self) -> str:
        return f"{self.test.method}, at every {in_words(self.by)}"

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        """At the values that have data."""
        found = {
            place(self.by, value): outcome
            for value in self._values(rows)
            if (outcome := self.test.outcome_of(part_of(rows, self.by, value)))
        }
        if not found:
            return None
        return all_pass(found, "; ".join(f"{where}: {one.numbers}" for where, one in found.items()))

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        parts = [
            part_of(planned, self.by, value) for value in values_at(self.groups[0].planned(planned), self.by)
        ]
        whole = [part for part in parts if all(members.planned(part) for members in self.groups)]
        told = [self.test.detects(part, level) for part in whole]
        if not told or UNDETECTABLE in told:
            return UNDETECTABLE
        return f"{told[0]}, at every {in_words(self.by)}"

    def _values(self, rows: Sequence[FigureRow]) -> list[object]:
        return values_at([row for members in self.groups for row in members.of(rows)], self.by)


def all_pass(outcomes: Mapping[str, TestOutcome], numbers: str) -> TestOutcome:
    """The worst p-value for the claim; against it, that one of several is contrary."""
    return TestOutcome(
        claimed=max(one.claimed for one in outcomes.values()),
        opposite=min(1.0, len(outcomes) * min(one.opposite for one in outcomes.values())),
        numbers=numbers,
        data={name: one.data for name, one in outcomes.items()},
    )
