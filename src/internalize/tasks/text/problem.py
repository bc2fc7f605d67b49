"""What a family of problems in words offers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


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
