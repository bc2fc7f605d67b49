"""Every curriculum's shown states against a table written out by hand from the paper."""

from __future__ import annotations

import pytest

from internalize.curricula import METHODS, Curriculum, Shown, find_curriculum
from internalize.curricula.curriculum import check_curriculum, describe
from internalize.errors import BadInput

FULL = (1, 2, 3, 4, 5, 6)
SHOWN_AT_HORIZON_6: dict[str, list[Shown]] = {
    "cot": [FULL],
    "e2e": [(6,)],
    "left": [FULL, (2, 3, 4, 5, 6), (3, 4, 5, 6), (4, 5, 6), (5, 6), (6,)],
    "right": [FULL, (1, 2, 3, 4, 6), (1, 2, 3, 6), (1, 2, 6), (1, 6), (6,)],
    "inductive": [FULL, (2, 4, 6), (3, 6), (4,), (5,), (6,)],
    # i·6/5, i·6/4, i·6/3, … rounded up: q_6 is always there
    "even": [FULL, (2, 3, 4, 5, 6), (2, 3, 5, 6), (2, 4, 6), (3, 6), (6,)],
    # 1, then 2, then 4 more of the first states go, until only the last is left
    "geometric": [FULL, (2, 3, 4, 5, 6), (4, 5, 6), (6,)],
}
SHOWN_AT_HORIZON_6 |= {
    "filler": SHOWN_AT_HORIZON_6["e2e"],
    "filler:left": SHOWN_AT_HORIZON_6["left"],
    "filler:geometric": SHOWN_AT_HORIZON_6["geometric"],
}
MIXED_AT_HORIZON_6: dict[str, list[Shown]] = {
    "mixture": SHOWN_AT_HORIZON_6["left"],
    "mixture:left": SHOWN_AT_HORIZON_6["left"],
    "mixture:right": SHOWN_AT_HORIZON_6["right"],
}


def find(method: str, horizon: int) -> Curriculum:
    return find_curriculum(method, horizon, {})[0]


def test_the_tables_cover_every_method() -> None:
    assert set(SHOWN_AT_HORIZON_6) | set(MIXED_AT_HORIZON_6) == set(METHODS)


@pytest.mark.parametrize("method", SHOWN_AT_HORIZON_6)
def test_shown_states_stage_by_stage(method: str) -> None:
    curriculum = find(method, 6)
    stages = range(1, curriculum.stages + 1)
    assert [curriculum.shown(stage) for stage in stages] == SHOWN_AT_HORIZON_6[method]
    assert [curriculum.formats(stage) for stage in stages] == [(s,) for s in SHOWN_AT_HORIZON_6[method]]
    assert not curriculum.length_hint
    assert curriculum.pauses == curriculum.tells_length == method.startswith("filler")


@pytest.mark.parametrize("method", MIXED_AT_HORIZON_6)
def test_a_mixture_draws_among_all_stages_of_its_components(method: str) -> None:
    curriculum = find(method, 6)
    assert curriculum.stages == 1
    assert list(curriculum.formats(1)) == MIXED_AT_HORIZON_6[method]
    assert curriculum.shown(1) == (6,)
    assert curriculum.length_hint


@pytest.mark.parametrize("method", METHODS)
def test_horizon_one_shows_the_only_state_in_one_stage(method: str) -> None:
    curriculum = find(method, 1)
    assert curriculum.stages == 1
    assert curriculum.formats(1) == ((1,),)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_well_formed_at_every_horizon(method: str) -> None:
    """The check that users' curricula pass; all but inductive always show the answer and end with it alone."""
    for horizon in range(1, 40):
        curriculum = check_curriculum(find(method, horizon), "method")
        for stage in range(1, curriculum.stages + 1):
            if method != "inductive":
                assert all(shown[-1] == horizon for shown in curriculum.formats(stage))
        if method != "cot":
            assert curriculum.shown(curriculum.stages) == (horizon,)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        ((6,), "q6 alone"),
        ((5, 6), "q5 q6"),
        ((3, 4, 5, 6), "q3 … q6"),
        ((2, 4, 6, 8), "q2 q4 … q8"),
        ((1, 2, 6), "q1 q2 q6"),
        ((1, 2, 3, 6), "q1 q2 q3 … q6"),
    ],
)
def test_labels_say_what_is_still_shown(shown: Shown, text: str) -> None:
    assert describe(shown) == text


@pytest.mark.parametrize("method", ["mixture:inductive", "mixture:even", "mixture:"])
def test_mixtures_of_other_curricula_are_refused(method: str) -> None:
    with pytest.raises(BadInput, match=r"method: a mixture of .* is not possible: use mixture:left or"):
        find(method, 6)


class Wrong(Curriculum):
    """A user's mistake: the formats of its one stage."""

    stages = 1

    def __init__(self, formats: tuple[Shown, ...], length_hint: bool = False) -> None:
        super().__init__(4)
        self._formats = formats
        self.length_hint = length_hint

    def shown(self, stage: int) -> Shown:
        return self._formats[0]

    def formats(self, stage: int) -> tuple[Shown, ...]:
        return self._formats


@pytest.mark.parametrize("shown", [(), (0, 4), (3, 5), (3, 3), (4, 3), (1.5, 4)])
def test_a_users_stage_must_show_increasing_states_of_the_chain(shown: Shown) -> None:
    with pytest.raises(BadInput, match=r"stage 1 must show increasing states in 1…4"):
        check_curriculum(Wrong((shown,)), "method")


def test_a_users_formats_must_differ_in_length_where_the_length_asks_for_one() -> None:
    formats = ((1, 4), (2, 4))
    assert check_curriculum(Wrong(formats), "method").formats(1) == formats
    with pytest.raises(BadInput, match="stage 1: two formats of the same length"):
        check_curriculum(Wrong(formats, length_hint=True), "method")


def test_a_list_of_states_is_refused() -> None:
    """Formats are keys: a list would be refused only later, by Python, without a word about the curriculum."""
    with pytest.raises(BadInput, match=r"method: stage 1 must show a tuple of states, got the list \[1, 2\]"):
        check_curriculum(Wrong(([1, 2],)), "method")  # type: ignore[arg-type]


def test_shares_fit_the_formats() -> None:
    class Unfair(Wrong):
        def shares(self, stage: int) -> dict[Shown, float]:
            return {(1,): 0.9}

    with pytest.raises(BadInput, match="stage 1: shares must be above 0 for each of its formats"):
        check_curriculum(Unfair(((1,), (2,))), "method")
