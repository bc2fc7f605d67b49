"""What a curriculum is, and a check that a user's own one keeps its promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise

from internalize.errors import require

Shown = tuple[int, ...]
"""The states an answer shows: strictly increasing indexes t of q_t, 1 ≤ t ≤ T."""


class Curriculum(ABC):
    """Stages 1, 2, …, each with the states that an answer shows. A pure function of horizon and stage.

    To write your own, give `stages` and `shown`; name it `module:Class` or `file.py:Class`.
    """

    length_hint: bool = False
    """Whether the prompt ends in a token LEN_L that tells how long the answer is."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon

    @property
    @abstractmethod
    def stages(self) -> int:
        """How many stages there are."""

    @abstractmethod
    def shown(self, stage: int) -> Shown:
        """The states shown at the stage, 1 ≤ stage ≤ stages."""

    def formats(self, stage: int) -> tuple[Shown, ...]:
        """The formats among which every step of the stage draws one uniformly, for the whole batch."""
        return (self.shown(stage),)

    def shortest(self, stage: int) -> Shown:
        """What a model that is told the length is asked for first: the nearest to a direct answer."""
        return min(self.formats(stage), key=len)

    def longest(self, stage: int) -> Shown:
        """What a model that is told the length is asked for besides: the nearest to the whole chain."""
        return max(self.formats(stage), key=len)

    def label(self, stage: int) -> str:
        """What is still shown, in a few words, for people."""
        if len(self.formats(stage)) > 1:
            lengths = [len(shown) for shown in self.formats(stage)]
            return f"{min(lengths)} to {max(lengths)} states"
        return describe(self.shown(stage))


def describe(shown: Shown) -> str:
    """`q3 … q12`, or `q2 q4 q6` where the states are not neighbours."""
    if len(shown) == 1:
        return f"q{shown[0]} alone"
    if len(shown) > 2 and all(b - a == shown[1] - shown[0] for a, b in pairwise(shown)):
        step = shown[1] - shown[0]
        return f"q{shown[0]} … q{shown[-1]}" if step == 1 else f"q{shown[0]} q{shown[1]} … q{shown[-1]}"
    return " ".join(f"q{t}" for t in shown[:3]) + (f" … q{shown[-1]}" if len(shown) > 3 else "")


def check_curriculum(curriculum: Curriculum, field: str) -> Curriculum:
    """Refuse a curriculum whose stages are not well-formed, before anything is trained on it."""
    stages = curriculum.stages
    require(isinstance(stages, int) and stages >= 1, field, f"stages must be at least 1, got {stages!r}")
    for stage in range(1, stages + 1):
        formats = curriculum.formats(stage)
        require(len(formats) >= 1, field, f"stage {stage} shows no format")
        for shown in formats:
            inside = all(isinstance(t, int) and 1 <= t <= curriculum.horizon for t in shown)
            rising = all(a < b for a, b in pairwise(shown))
            require(
                len(shown) >= 1 and inside and rising,
                field,
                f"stage {stage} must show increasing states in 1…{curriculum.horizon}, got {tuple(shown)}",
            )
        if curriculum.length_hint:
            lengths = [len(shown) for shown in formats]
            require(len(set(lengths)) == len(lengths), field, f"stage {stage}: two formats of the same length")
    return curriculum
