"""Rehearsal: which formats a stage draws, how often, and what cannot be told apart."""

from __future__ import annotations

from collections import Counter

import pytest

from internalize.curricula import Shown, find_curriculum
from internalize.curricula.curriculum import Curriculum, Reach, Rehearsed, add_rehearsal
from internalize.errors import BadInput


def curriculum(method: str, horizon: int = 4) -> Curriculum:
    return find_curriculum(method, horizon, {})[0]


def rehearsed(method: str, share: float, reach: Reach, token: bool = True) -> Rehearsed:
    made = add_rehearsal(curriculum(method), share, reach, token)
    assert isinstance(made, Rehearsed)
    return made


def test_formats_of_every_stage_by_hand() -> None:
    """left at T=4: q1q2q3q4, q2q3q4, q3q4, q4."""
    whole, three, two, one = (1, 2, 3, 4), (2, 3, 4), (3, 4), (4,)
    previous, everything = rehearsed("left", 0.5, "previous"), rehearsed("left", 0.5, "all")
    assert [previous.formats(t) for t in (1, 2, 3, 4)] == [(whole,), (three, whole), (two, three), (one, two)]
    assert everything.formats(4) == (one, two, three, whole)
    for stage in (1, 2, 3, 4):  # a model is asked for the stage's own answer, and for the whole chain
        assert previous.shortest(stage) == curriculum("left").shown(stage)
        assert previous.longest(stage) == whole
    assert previous.length_hint
    assert not rehearsed("left", 0.5, "previous", token=False).length_hint


def test_a_format_that_two_stages_share_is_not_rehearsed() -> None:
    """A stage that shows what an earlier one showed does not rehearse that, and rehearses others once."""

    class Twice(Curriculum):
        stages = 4

        def shown(self, stage: int) -> Shown:
            return ((1, 2, 3), (2, 3), (1, 2, 3), (3,))[stage - 1]

    made = add_rehearsal(Twice(3), 0.5, "all", False)
    assert made.formats(3) == ((1, 2, 3), (2, 3))
    assert made.formats(4) == ((3,), (1, 2, 3), (2, 3))
    last = rehearsed("inductive", 0.5, "all", token=False)
    assert last.formats(4) == ((4,), (3,), (2, 4), (1, 2, 3, 4))


@pytest.mark.parametrize(("reach", "expected"), [("previous", {(3, 4): 25}), ("all", {(1, 2, 3, 4): 8})])
def test_shares_on_a_grid_of_random_numbers(reach: Reach, expected: dict[tuple[int, ...], int]) -> None:
    """A quarter of a hundred draws are rehearsal; of three earlier formats each gets a third of them."""
    made = rehearsed("left", 0.25, reach)
    grid = [(i / 100, (i * 4 % 100) / 100) for i in range(100)]
    drawn = Counter(made.draw(4, 0.25, chance, which) for chance, which in grid)
    assert drawn[(4,)] == 75
    assert sum(drawn.values()) == 100
    assert all(abs(drawn[shown] - times) <= 1 for shown, times in expected.items())
    assert made.draw(1, 0.25, 0.0, 0.0) == (1, 2, 3, 4)  # nothing came before


def test_nothing_asked_for_changes_nothing() -> None:
    left = curriculum("left")
    assert add_rehearsal(left, None, None, None) is left
    assert add_rehearsal(left, None, None, False) is left


@pytest.mark.parametrize(
    ("method", "share", "reach", "token", "field"),
    [
        ("left", None, "all", True, "rehearse"),
        ("mixture", 0.5, None, None, "rehearsal"),
        ("mixture", None, None, True, "length-token"),
        ("cot", 0.5, None, None, "rehearsal"),
        ("inductive", 0.5, "previous", True, "length-token"),  # q3 and q4 alone have the same length
    ],
)
def test_what_does_not_fit_is_refused(
    method: str, share: float | None, reach: Reach | None, token: bool | None, field: str
) -> None:
    with pytest.raises(BadInput) as problem:
        add_rehearsal(curriculum(method), share, reach, token)
    assert problem.value.field == field
