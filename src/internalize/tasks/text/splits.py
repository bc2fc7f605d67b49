"""Rows for training and for testing that have no question in common, nor one that asks the same."""

from __future__ import annotations

import random
from collections.abc import Mapping

from internalize.errors import BadInput
from internalize.tasks.text.problem import Problem, Problems

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
