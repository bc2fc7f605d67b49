"""Values that no command can mean, refused before anything looks at them: one walk over its arguments."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from internalize.errors import require

LARGEST = 2**63 - 1
"""The largest whole number that tensors hold."""
LONGEST_TEXT = 100_000
"""Characters of one argument."""


def require_plain(value: Any, field: str = "") -> None:
    """Refuse, by the name of its field, a number beyond 64 bits, nan, and text that is no UTF-8."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for part in dataclasses.fields(value):
            require_plain(getattr(value, part.name), _named(field, part))
    elif isinstance(value, tuple | list):
        for entry in value:
            require_plain(entry, field)
    elif isinstance(value, Mapping):
        for entry in value.values():
            require_plain(entry, field)
    elif isinstance(value, bool):
        return
    elif isinstance(value, int):
        require(
            abs(value) <= LARGEST, field, f"must be less than 2^63, got a number of {value.bit_length()} bits"
        )
    elif isinstance(value, float):
        require(not math.isnan(value), field, "must be a number, got nan")
    elif isinstance(value, str | PurePath):
        _require_text(str(value), field)


def _require_text(text: str, field: str) -> None:
    require(len(text) <= LONGEST_TEXT, field, f"is too long: {len(text):,} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode(errors="backslashreplace").decode()
        require(False, field, f"must be UTF-8 text, got {shown[:200]}")
    require("\0" not in text, field, "must not hold a zero character")


def _named(before: str, part: dataclasses.Field[Any]) -> str:
    """As a user writes it: model.depth, final-samples; groups that have no name of their own are left out."""
    own = "" if part.name in UNNAMED else part.name.replace("_", "-")
    return ".".join(name for name in (before, own) if name)


UNNAMED = ("config", "execution", "many", "which", "ray")
"""Fields that hold a group of options."""
