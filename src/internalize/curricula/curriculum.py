"""What a curriculum is, and a check that a user's own one keeps its promises."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

from internalize.configs.named import Copies, Source, is_object_name, load_object
from internalize.errors import BadInput, closest, require

Shown = tuple[int, ...]
"""The states an answer shows: strictly increasing indexes t of q_t, 1 ≤ t ≤ T."""


class Curriculum(ABC):
    """Stages 1, 2, …, each with the states that an answer shows. A pure function of horizon and stage.

    To write your own, give `stages` and `shown`; name it `module:Class` or `file.py:Class`.
    """

    length_hint: bool = False
    """Whether the prompt ends in a token LEN_L that tells how long the answer is."""
    pauses: bool = False
    """Whether the prompt ends in one PAUSE for each state that is not shown: filler in its place."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon

    @property
    def tells_length(self) -> bool:
        """Whether the model can be asked for any of its formats, since prompts differ."""
        return self.length_hint or self.pauses

    @property
    @abstractmethod
    def stages(self) -> int:
        """How many stages there are."""

    @abstractmethod
    def shown(self, stage: int) -> Shown:
        """The states shown at the stage, 1 ≤ stage ≤ stages."""

    def formats(self, stage: int) -> tuple[Shown, ...]:
        """The formats among which every step of the stage draws one, for the whole batch."""
        return (self.shown(stage),)

    def shares(self, stage: int) -> dict[Shown, float]:
        """How often each of them is drawn: all alike, if nothing else is said."""
        formats = self.formats(stage)
        return dict.fromkeys(formats, 1 / len(formats))

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
            plain = isinstance(shown, tuple)
            require(
                plain,
                field,
                f"stage {stage} must show a tuple of states, got the {type(shown).__name__} {shown}",
            )
            inside = all(isinstance(t, int) and 1 <= t <= curriculum.horizon for t in shown)
            rising = all(a < b for a, b in pairwise(shown))
            require(
                len(shown) >= 1 and inside and rising,
                field,
                f"stage {stage} must show increasing states in 1…{curriculum.horizon}, got {tuple(shown)}",
            )
        shares = curriculum.shares(stage)
        good = (
            set(shares) == set(formats) and min(shares.values()) > 0 and math.isclose(sum(shares.values()), 1)
        )
        require(good, field, f"stage {stage}: shares must be above 0 for each of its formats, and 1 together")
        if curriculum.tells_length:
            lengths = [len(shown) for shown in formats]
            require(len(set(lengths)) == len(lengths), field, f"stage {stage}: two formats of the same length")
    both = curriculum.length_hint and curriculum.pauses
    require(not both, field, "a curriculum has a length_hint or pauses, not both")
    return curriculum


class ChainOfThought(Curriculum):
    """Every state, q_1 … q_T, throughout."""

    stages = 1

    def shown(self, stage: int) -> Shown:
        return tuple(range(1, self.horizon + 1))


class EndToEnd(Curriculum):
    """The last state alone, q_T, throughout."""

    stages = 1

    def shown(self, stage: int) -> Shown:
        return (self.horizon,)


class OneByOne(Curriculum):
    """A curriculum with as many stages as states."""

    @property
    def stages(self) -> int:
        return self.horizon


class Left(OneByOne):
    """Take the first states away: q_t … q_T."""

    def shown(self, stage: int) -> Shown:
        return tuple(range(stage, self.horizon + 1))


class Right(OneByOne):
    """Take the last states before the answer away: q_1 … q_{T-t}, q_T."""

    def shown(self, stage: int) -> Shown:
        return (*range(1, self.horizon - stage + 1), self.horizon)


class Inductive(OneByOne):
    """Ever larger leaps: q_t, q_2t, …, the last one at most q_T."""

    def shown(self, stage: int) -> Shown:
        return tuple(range(stage, self.horizon + 1, stage))


class Even(OneByOne):
    """T-t+1 states spread evenly over the chain, q_T always among them."""

    def shown(self, stage: int) -> Shown:
        count = self.horizon - stage + 1
        return tuple(-(-i * self.horizon // count) for i in range(1, count + 1))


class Geometric(Curriculum):
    """Like left, in doubling chunks: after stage 1 the next 1, 2, 4, … first states go."""

    @property
    def stages(self) -> int:
        return 1 + (self.horizon - 1).bit_length()

    def shown(self, stage: int) -> Shown:
        return tuple(range(min(2 ** (stage - 1), self.horizon), self.horizon + 1))


class Mixture(Curriculum):
    """No order: every step draws a stage of another curriculum, and LEN_L tells the answer's length."""

    stages = 1
    length_hint = True

    def __init__(self, components: OneByOne) -> None:
        super().__init__(components.horizon)
        self.components = components

    def shown(self, stage: int) -> Shown:
        """The direct answer: what a mixture is trained to reach."""
        return (self.horizon,)

    def formats(self, stage: int) -> tuple[Shown, ...]:
        return tuple(self.components.shown(t) for t in range(1, self.components.stages + 1))


class Filler(Curriculum):
    """Another curriculum with a PAUSE in the place of every state that was taken away.

    Pauses are given, not said: the model computes as long as it would out loud, and says nothing. Each state
    keeps its place at all stages.
    """

    pauses = True

    def __init__(self, inner: Curriculum) -> None:
        super().__init__(inner.horizon)
        self.inner = inner

    @property
    def stages(self) -> int:
        return self.inner.stages

    def shown(self, stage: int) -> Shown:
        return self.inner.shown(stage)

    def longest(self, stage: int) -> Shown:
        """What it began with, of which the pauses took the place."""
        return self.shown(1)


METHODS: dict[str, Callable[[int], Curriculum]] = {
    "cot": ChainOfThought,
    "e2e": EndToEnd,
    "left": Left,
    "right": Right,
    "inductive": Inductive,
    "even": Even,
    "geometric": Geometric,
    "mixture": lambda horizon: Mixture(Left(horizon)),
    "mixture:left": lambda horizon: Mixture(Left(horizon)),
    "mixture:right": lambda horizon: Mixture(Right(horizon)),
    "filler": lambda horizon: Filler(EndToEnd(horizon)),
    "filler:left": lambda horizon: Filler(Left(horizon)),
    "filler:geometric": lambda horizon: Filler(Geometric(horizon)),
}


def find_curriculum(
    method: str, horizon: int, copies: Copies, field: str = "method"
) -> tuple[Curriculum, Source | None]:
    """The curriculum of that name, and the user's file behind it where there is one."""
    if method in METHODS:
        return METHODS[method](horizon), None
    if method.startswith("mixture:"):
        raise BadInput(
            field,
            f"a mixture of {method.partition(':')[2]!r} is not possible: use mixture:left or mixture:right "
            "(inductive stages collide in length and drop the last state)",
        )
    if is_object_name(method):
        made, source = load_object(method, field, copies)
        return _users_curriculum(made, method, horizon, field), source
    bare = method.endswith(".py")
    require(not bare, field, f"{method} is a file: name the curriculum in it, as {method}:Class")
    known = ", ".join(METHODS)
    raise BadInput(
        field, f"unknown method {method!r}{closest(method, list(METHODS))}; known: {known}, or file.py:Class"
    )


def _users_curriculum(made: Any, method: str, horizon: int, field: str) -> Curriculum:
    try:
        curriculum = made(horizon)
        is_curriculum = isinstance(curriculum, Curriculum)
        require(is_curriculum, field, f"{method} must be a subclass of internalize.Curriculum")
        return check_curriculum(curriculum, field)
    except BadInput:
        raise
    except Exception as error:  # a user's class may fail in any way
        raise BadInput(field, f"{method}({horizon}) failed: {type(error).__name__}: {error}") from error


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
        self.pauses = inner.pauses

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

    def shares(self, stage: int) -> dict[Shown, float]:
        own, *earlier = self.formats(stage)
        if not earlier:
            return {own: 1.0}
        return {own: 1 - self.share, **dict.fromkeys(earlier, self.share / len(earlier))}

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
    plain = not (length_token and curriculum.pauses)
    require(plain, "length-token", "must be left out: pauses tell the length already")
    if rehearsal:
        require(curriculum.stages > 1, "rehearsal", "must be left out: this method has one stage alone")
    rehearsed = Rehearsed(curriculum, rehearsal or 0.0, rehearse or "previous", bool(length_token))
    if rehearsed.tells_length:
        for stage in range(1, curriculum.stages + 1):
            lengths = [len(shown) for shown in rehearsed.formats(stage)]
            require(
                len(set(lengths)) == len(lengths),
                "length-token",
                f"cannot tell the formats of stage {stage} apart: two of them have the same length",
            )
    return rehearsed
