"""The paper's answer formats and curricula, two of its neighbours', and the one parser of a method's name.

T is the horizon, t the stage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from internalize.configs.named import Copies, Source, is_object_name, load_object
from internalize.curricula.curriculum import Curriculum, Shown, check_curriculum
from internalize.errors import BadInput, closest, require


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
    known = ", ".join(METHODS)
    raise BadInput(
        field, f"unknown method {method!r}{closest(method, list(METHODS))}; known: {known}, or module:Class"
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
