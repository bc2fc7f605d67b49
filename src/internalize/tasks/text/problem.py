"""What a family of problems in words offers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from internalize.errors import BadInput


@dataclass(frozen=True)
class Problem:
    """A question, the steps that lead to its answer, and the answer. Words stand between single spaces."""

    question: str
    steps: tuple[str, ...]
    answer: str


class Problems(Protocol):
    """A family of problems from which single ones are drawn."""

    @property
    def name(self) -> str:
        """As `internalize data make` takes it."""

    def draw(self, source: random.Random) -> Problem:
        """One problem; consumes the source."""

    def solve(self, question: str) -> str:
        """The answer to a question's text, found without the steps: the oracle."""

    def key(self, question: str) -> str:
        """The same for questions that ask the same (a × b and b × a): they stay on one side of a split."""

    def companions(self) -> Mapping[str, Problems]:
        """Problems out of distribution, by what is different: longer, digits, hops, binomial."""


TRIES = 1_000
"""Draws without anything new after which there seem to be too few different problems."""


def draw_splits(
    problems: Problems, sizes: Mapping[str, int], seed: int, field: str = "n", distinct: bool = True
) -> dict[str, list[Problem]]:
    """Each side's problems, all different. The last side is drawn last: name the training rows there.

    Two questions with one key (a × b and b × a) never stand on two sides; the last side may have both.
    distinct: without it a side is a plain sample, in which a common question may come more than once.
    """
    source = random.Random(f"{seed}/{problems.name}")
    sides: dict[str, list[Problem]] = {}
    taken: set[str] = set()
    for side, size in sizes.items():
        new_keys: set[str] = set()
        seen: set[str] = set()
        rows: list[Problem] = []
        idle = 0
        while len(rows) < size:
            problem = problems.draw(source)
            key = problems.key(problem.question)
            if key in taken or (distinct and problem.question in seen):
                idle += 1
                if idle > TRIES:
                    found = f"only {len(rows):,} of {size:,} different rows for {side!r} were found"
                    raise BadInput(field, f"{problems.name} has too few problems: {found}; ask for fewer")
                continue
            idle = 0
            seen.add(problem.question)
            new_keys.add(key)
            rows.append(problem)
        taken |= new_keys
        sides[side] = rows
    return sides
