"""What remains of a row at every stage, worked out by hand; and that exactly this is scored."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from internalize.errors import BadInput
from internalize.kinds.text.rendering import (
    UNSCORED,
    CutRow,
    Markers,
    RemovalConfig,
    TextCurriculum,
    TextRenderer,
    collate,
)

MARKERS = Markers(chain=90, answer=91, end=92, pause=93, pad=0, budgets=(80, 81, 82, 83))
Q, A = (1, 2), (7, 8)
TOKENS = CutRow(Q, ((11,), (12,), (13,), (21,), (22,)), A)
STEPS = CutRow(Q, ((11, 12, 13), (21, 22)), A)
"""The same row, by tokens and by steps."""
WHOLE = [1, 2, 90, 11, 12, 13, 21, 22, 91, 7, 8, 92]


def renderer(**fields: object) -> TextRenderer:
    return TextRenderer(MARKERS, longest_chain=5, longest_answer=2, **fields)  # type: ignore[arg-type]


def stages(method: str, row: CutRow, unit: Literal["token", "step"] = "token", **removal: object) -> list[str]:
    """What each stage shows of the chain, as text."""
    curriculum = TextCurriculum(method, unit, RemovalConfig(**removal), len(row.units), {})  # type: ignore[arg-type]
    shown = []
    for stage in range(1, curriculum.stages + 1):
        kept = curriculum.kept(len(row.units), stage)
        shown.append(" ".join(map(str, renderer().chain(row, kept))))
    return shown


def test_curricula_by_token() -> None:
    whole = "11 12 13 21 22"
    assert stages("cot", TOKENS) == [whole]
    assert stages("e2e", TOKENS) == [""]
    assert stages("e2e", TOKENS, per_stage=1, smoothing=4.0) == [""]  # a control beside a curriculum
    assert stages("left", TOKENS, per_stage=1) == [whole, "12 13 21 22", "13 21 22", "21 22", "22", ""]
    assert stages("left", TOKENS, per_stage=2) == [whole, "13 21 22", "22", ""]
    assert stages("left", TOKENS) == [whole, ""]  # eight at a time
    assert stages("left", TOKENS, per_stage=1, all_beyond=3) == [whole, "12 13 21 22", "13 21 22", ""]
    assert stages("right", TOKENS, per_stage=2) == [whole, "11 12 13", "11", ""]
    assert stages("even", TOKENS, per_stage=1) == [whole, "12 13 21 22", "12 13 22", "12 21", "13", ""]
    assert stages("geometric", TOKENS) == [whole, "12 13 21 22", "21 22", ""]
    assert stages("filler", TOKENS) == [""]
    assert stages("filler:left", TOKENS, per_stage=3) == [whole, "21 22", ""]


def test_curricula_by_step() -> None:
    assert stages("left", STEPS, "step") == ["11 12 13 21 22", "21 22", ""]
    assert stages("right", STEPS, "step") == ["11 12 13 21 22", "11 12 13", ""]
    assert stages("left", STEPS, "step", per_stage=2) == ["11 12 13 21 22", ""]


def test_shorter_chains_end_earlier_and_the_answer_always_remains() -> None:
    curriculum = TextCurriculum("left", "token", RemovalConfig(per_stage=2), longest=5, copies={})
    assert curriculum.stages == 4
    assert [curriculum.kept(3, stage) for stage in range(1, 5)] == [(0, 1, 2), (2,), (), ()]
    assert [curriculum.kept(0, stage) for stage in (1, 4)] == [(), ()]
    assert curriculum.kept(5, 2, offset=2) == (4,)
    inductive = TextCurriculum("inductive", "token", RemovalConfig(per_stage=1), longest=5, copies={})
    assert inductive.kept(5, 4) == (3,)  # q_4 of six, and the answer that the curriculum itself would drop


def test_a_mixture_shows_at_most_its_budget() -> None:
    curriculum = TextCurriculum("mixture", "token", RemovalConfig(per_stage=2), longest=5, copies={})
    assert curriculum.budgets == (0, 2, 4, 5)
    assert [curriculum.kept_within(5, budget) for budget in curriculum.budgets] == [
        (), (3, 4), (1, 2, 3, 4), (0, 1, 2, 3, 4),
    ]  # fmt: skip
    assert curriculum.kept_within(3, 4) == (0, 1, 2)
    right = TextCurriculum("mixture:right", "token", RemovalConfig(per_stage=2), longest=5, copies={})
    assert right.kept_within(5, 2) == (0, 1)
    rendered = renderer().render(TOKENS, curriculum.kept_within(5, 2), budget=1)
    assert rendered.tokens == [1, 2, 90, 81, 21, 22, 91, 7, 8, 92]
    assert rendered.block == [21, 22, 91, 7, 8, 92]


@pytest.mark.usefixtures("named_by_the_user")
def test_a_users_own_curriculum(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from internalize import Curriculum\n"
        "class Ends(Curriculum):\n"
        "    stages = 2\n"
        "    def shown(self, stage):\n"
        "        return (1, self.horizon) if stage == 1 and self.horizon > 1 else (self.horizon,)\n"
    )
    assert stages(f"{path}:Ends", TOKENS) == ["11", ""]


@pytest.mark.usefixtures("named_by_the_user")
def test_what_a_users_own_curriculum_asks_for(tmp_path: Path) -> None:
    """Pauses are put in; what text cannot do is refused, not ignored."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from internalize import Curriculum\n"
        "class Quiet(Curriculum):\n"
        "    stages, pauses = 1, True\n"
        "    def shown(self, stage):\n"
        "        return (self.horizon,)\n"
        "class Told(Quiet):\n"
        "    pauses, length_hint = False, True\n"
        "class Mixed(Quiet):\n"
        "    pauses = False\n"
        "    def formats(self, stage):\n"
        "        return ((self.horizon,), tuple(range(1, self.horizon + 1)))\n"
    )
    quiet = TextCurriculum(f"{path}:Quiet", "token", RemovalConfig(), 5, {})
    assert quiet.pauses
    assert quiet.label(1) == "0 of 5 tokens of the chain, pauses for the rest"
    with pytest.raises(BadInput, match=r"removal.positions: must be closed with"):
        TextCurriculum(f"{path}:Quiet", "token", RemovalConfig(positions="kept"), 5, {})
    for name, said in (("Told", "has a length_hint"), ("Mixed", "has several formats at one stage")):
        with pytest.raises(BadInput, match=f"method: .*{name} {said}: in text only a mixture"):
            TextCurriculum(f"{path}:{name}", "token", RemovalConfig(), 5, {})


def test_rows_as_the_model_sees_them() -> None:
    whole = renderer().render(TOKENS, (0, 1, 2, 3, 4))
    assert whole.tokens == WHOLE
    assert (whole.prompt, whole.slots, whole.positions) == (3, [0, 1, 2, 3, 4, 5, 6, 7, 8], list(range(12)))
    left = renderer().render(TOKENS, (3, 4))
    assert left.tokens == [1, 2, 90, 21, 22, 91, 7, 8, 92]
    assert left.slots == [3, 4, 5, 6, 7, 8]  # the places they had
    assert renderer(boundary="none").render(TOKENS, (4,)).tokens == [1, 2, 90, 22, 7, 8, 92]


def test_positions_are_closed_up_or_kept() -> None:
    assert renderer().render(TOKENS, (3, 4)).positions == list(range(9))
    assert renderer(positions="kept").render(TOKENS, (3, 4)).positions == [0, 1, 2, 6, 7, 8, 9, 10, 11]
    assert renderer(positions="kept").render(TOKENS, (0, 4)).positions == [0, 1, 2, 3, 7, 8, 9, 10, 11]
    assert renderer(positions="kept").render(STEPS, (1,)).positions == [0, 1, 2, 6, 7, 8, 9, 10, 11]


def test_pauses_stand_for_the_words_and_are_not_scored() -> None:
    rendered = renderer(pauses=True).render(TOKENS, (3, 4))
    assert rendered.tokens == [1, 2, 90, 93, 93, 93, 21, 22, 91, 7, 8, 92]
    assert rendered.block == [21, 22, 91, 7, 8, 92]


rows_of_any_length = st.builds(
    lambda q, units, a: CutRow(tuple(q), tuple(tuple(unit) for unit in units), tuple(a)),
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.lists(st.lists(st.integers(10, 79), min_size=1, max_size=3), max_size=6),
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
)


@given(
    st.lists(rows_of_any_length, min_size=1, max_size=4),
    st.sampled_from(["left", "right", "even", "geometric", "cot", "e2e", "filler:left"]),
    st.integers(1, 6),
    st.integers(1, 3),
    st.sampled_from(["marker", "none"]),
)
def test_what_is_scored_is_exactly_what_remains(
    rows: list[CutRow], method: str, stage: int, pace: int, boundary: Literal["marker", "none"]
) -> None:
    longest = max(len(row.units) for row in rows)
    one_by_one = method in ("left", "right", "even", "filler:left")
    removal = RemovalConfig(per_stage=pace if one_by_one else None)
    curriculum = TextCurriculum(method, "step", removal, longest, {})
    stage = min(stage, curriculum.stages)
    form = TextRenderer(MARKERS, 18, 3, curriculum.pauses, boundary=boundary)
    rendered = [form.render(row, curriculum.kept(len(row.units), stage)) for row in rows]
    batch = collate(rendered, MARKERS.pad, False, torch.device("cpu"))
    for i, row in enumerate(rows):
        remains = [row.units[k] for k in curriculum.kept(len(row.units), stage)]
        marker = [MARKERS.answer] if boundary == "marker" else []
        wanted = [*(token for unit in remains for token in unit), *marker, *row.answer, MARKERS.end]
        scored = batch.slots[i] != UNSCORED
        assert batch.targets[i][scored].tolist() == wanted
        # and it is read, token by token, just before it is predicted
        seen = batch.tokens[i][: int(scored.nonzero()[-1]) + 1].tolist()
        assert seen[: len(row.question) + 1] == [*row.question, MARKERS.chain]
        assert not bool((batch.slots[i][: batch.first] != UNSCORED).any())
    assert batch.scored == int((batch.slots != UNSCORED).sum())


def test_smoothing_draws_as_published() -> None:
    curriculum = TextCurriculum("left", "token", RemovalConfig(smoothing=1.0), longest=5, copies={})
    drawn = torch.tensor(curriculum.draw_offsets(20_000, torch.Generator().manual_seed(0)))
    for offset in range(4):
        wanted = (1 - 2.718281828**-1) * 2.718281828**-offset
        assert abs(float((drawn == offset).float().mean()) - wanted) < 0.01


@pytest.mark.parametrize(
    ("method", "removal", "message"),
    [
        ("geometric", {"per_stage": 2}, "removal.per-stage: has no effect on geometric"),
        ("geometric", {"smoothing": 4.0}, "removal.smoothing: has no effect on geometric"),
        ("mixture", {"all_beyond": 3}, "removal.all-beyond: has no effect on mixture"),
        ("filler:left", {"positions": "kept"}, "removal.positions: must be closed with filler:left"),
        (
            "filler:right",
            {},
            "unknown method 'filler:right'.*; known: cot, .*filler:left, .*, or file.py:Class",
        ),
        ("lefd", {}, "unknown method 'lefd'.*did you mean 'left'"),
    ],
)
def test_what_has_no_effect_is_refused(method: str, removal: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        TextCurriculum(method, "token", RemovalConfig(**removal), 5, {})  # type: ignore[arg-type]
