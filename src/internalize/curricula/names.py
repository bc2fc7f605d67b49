"""The one parser that turns a method's name into a curriculum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from internalize.configs.named import Copies, Source, is_object_name, load_object
from internalize.curricula.curriculum import Curriculum, check_curriculum
from internalize.curricula.formats import (
    ChainOfThought,
    EndToEnd,
    Even,
    Geometric,
    Inductive,
    Left,
    Mixture,
    Right,
)
from internalize.errors import BadInput, closest, require

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
