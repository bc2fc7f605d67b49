"""The algebra of tasks against what every textbook says of these groups."""

from __future__ import annotations

import pytest

from internalize.tasks.groups import structure_of
from internalize.tasks.names import parse_task
from internalize.tasks.semiautomaton import semiautomaton


@pytest.mark.parametrize(
    ("name", "size", "abelian", "solvable", "prime_powers"),
    [
        ("C2", 2, True, True, (2,)),
        ("C12", 12, True, True, (3, 4)),
        ("C2xC4", 8, True, True, (2, 4)),
        ("C2xC2xC3", 12, True, True, (2, 2, 3)),
        ("S3", 6, False, True, None),
        ("D4", 8, False, True, None),
        ("Q8", 8, False, True, None),
        ("A4", 12, False, True, None),
        ("S4", 24, False, True, None),
        ("A5", 60, False, False, None),
        ("S5", 120, False, False, None),
    ],
)
def test_groups(
    name: str, size: int, abelian: bool, solvable: bool, prime_powers: tuple[int, ...] | None
) -> None:
    found = structure_of(parse_task(name))
    assert found is not None
    assert (found.size, found.is_group, found.abelian) == (size, True, abelian)
    assert (found.solvable, found.prime_powers) == (solvable, prime_powers)
    assert not found.aperiodic


def test_semigroups() -> None:
    """A memory has only trivial groups, beside a counter the counter's; what is too large is left open."""
    memory = structure_of(parse_task("flipflop2"))
    assert memory is not None
    assert (memory.size, memory.is_group, memory.aperiodic, memory.solvable) == (3, False, True, True)
    both = structure_of(parse_task("flipflop2xC2"))
    assert both is not None
    assert (both.size, both.aperiodic, both.solvable, both.prime_powers) == (6, False, True, None)
    resets_and_a5 = semiautomaton(  # all of A_5's permutations of five places, and one reset
        "mixed", [[(i + 1) % 5, [1, 2, 0, 3, 4][i], 0] for i in range(5)]
    )
    hard = structure_of(resets_and_a5)
    assert hard is not None
    assert (hard.is_group, hard.solvable) == (False, False)
    assert structure_of(parse_task("S7")) is None


@pytest.mark.parametrize(
    ("name", "commutes"),
    [("C12", True), ("C2xC4", True), ("C2000", True), ("S3", False), ("S6:all", False), ("flipflop2", False)],
)
def test_whether_the_order_of_symbols_matters(name: str, commutes: bool) -> None:
    """Also for tables that are too large to compare every two symbols: S6:all has 720 of each."""
    assert parse_task(name).commutes == commutes
