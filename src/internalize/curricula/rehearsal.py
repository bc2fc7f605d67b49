"""Rehearsal: some batches of a stage come from earlier stages, so that what these had built is not lost."""

from __future__ import annotations

from typing import Literal

from internalize.curricula.curriculum import Curriculum, Shown
from internalize.errors import require

Reach = Literal["previous", "all"]
"""Which earlier stages are rehearsed: the one before, or all of them."""


class Rehearsed(Curriculum):
    """Another curriculum: some of its batches are of earlier stages, and prompts may tell the length.

    A share of 0 rehearses nothing: what is left is the other curriculum, with or without the length token.
    """

    def __init__(self, inner: Curriculum, share: float, reach: Reach, length_token: bool) -> None:
        super().__init__(inner.horizon)
        self.inner = inner
        self.share = share
        self.reach = reach
        self.length_hint = inner.length_hint or length_token

    @property
    def stages(self) -> int:
        return self.inner.stages

    def shown(self, stage: int) -> Shown:
        return self.inner.shown(stage)

    def earlier(self, stage: int) -> tuple[Shown, ...]:
        """The formats that this stage rehearses, the latest first; a format that two stages share only once."""
        last = 0 if self.reach == "all" else max(0, stage - 2)
        formats = dict.fromkeys(self.shown(before) for before in range(stage - 1, last, -1))
        formats.pop(self.shown(stage), None)
        return tuple(formats)

    def formats(self, stage: int) -> tuple[Shown, ...]:
        """The stage's own format first."""
        return (self.shown(stage), *(self.earlier(stage) if self.share else ()))

    def longest(self, stage: int) -> Shown:
        """The whole chain, at every stage: rehearsal is there to keep it."""
        return self.shown(1)

    def label(self, stage: int) -> str:
        return self.inner.label(stage)

    def draw(self, stage: int, share: float, chance: float, which: float) -> Shown:
        """One format for a whole batch: an earlier one with probability `share`, each of them as often.

        chance, which: two random numbers in [0, 1).
        """
        earlier = self.earlier(stage)
        if not earlier or chance >= share:
            return self.shown(stage)
        return earlier[min(int(which * len(earlier)), len(earlier) - 1)]


def add_rehearsal(
    curriculum: Curriculum, rehearsal: float | None, rehearse: Reach | None, length_token: bool | None
) -> Curriculum:
    """The curriculum with what the fields of these names ask for; itself where they ask for nothing."""
    if rehearsal is None:
        require(rehearse is None, "rehearse", "needs --rehearsal, the share of batches to rehearse with")
    if not rehearsal and not length_token:
        return curriculum
    several = any(len(curriculum.formats(stage)) > 1 for stage in range(1, curriculum.stages + 1))
    field = "rehearsal" if rehearsal else "length-token"
    require(not several, field, "must be left out: this method mixes its formats itself")
    if rehearsal:
        require(curriculum.stages > 1, "rehearsal", "must be left out: this method has one stage alone")
    rehearsed = Rehearsed(curriculum, rehearsal or 0.0, rehearse or "previous", bool(length_token))
    if rehearsed.length_hint:
        for stage in range(1, curriculum.stages + 1):
            lengths = [len(shown) for shown in rehearsed.formats(stage)]
            require(
                len(set(lengths)) == len(lengths),
                "length-token",
                f"cannot tell the formats of stage {stage} apart: two of them have the same length",
            )
    return rehearsed
