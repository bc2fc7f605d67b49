"""What measurements look like: rows of `metrics.jsonl` and a finished run's summary, which may be anybody's.

Whoever draws, compares or judges runs computes with these entries. An entry is known by its name or by its
name's end; whatever else a kind of run measures may be anything. The loop holds the rows of a running
experiment to the same, so that nothing is written that cannot be read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from internalize.contract import Row
from internalize.errors import BadInput
from internalize.runs.storage import Unreadable

Check = tuple[str, Callable[[Any], bool]]
"""What an entry must be, in words, and whether it is."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_interval(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value))


COUNT: Check = ("a whole number from 0", lambda value: type(value) is int and value >= 0)
NUMBER: Check = ("a number", lambda value: value is None or _is_number(value))
LOSS: Check = ("a number", _is_number)
SHARE: Check = ("a number from 0 to 1", lambda value: value is None or (_is_number(value) and 0 <= value <= 1))
INTERVAL: Check = ("a list of two numbers", lambda value: value is None or _is_interval(value))
TEXT: Check = ("text", lambda value: isinstance(value, str))

BY_NAME: Mapping[str, Check] = {
    "event": TEXT,
    **dict.fromkeys(("iteration", "stage", "step", "round", "phase", "phase_steps"), COUNT),
    **dict.fromkeys(("loss", "worst_loss"), LOSS),
    **dict.fromkeys(("policy_loss", "value_loss", "gap", "match_score"), NUMBER),
    **dict.fromkeys(("samples", "operations", "flops", "forward_passes", "response_length"), NUMBER),
    **dict.fromkeys(("agreement", "raw_optimal_rate", "search_optimal_rate", "chance_rate"), SHARE),
}
BY_END: Mapping[str, Check] = {
    "accuracy": SHARE,
    "exact_chain": SHARE,
    "interval": INTERVAL,
    "_response_length": NUMBER,
}


@cache
def _check_of(name: str) -> Check | None:
    if name in BY_NAME:
        return BY_NAME[name]
    return next((check for end, check in BY_END.items() if name.endswith(end)), None)


def require_measurements(row: Row) -> Row:
    """The row as it is; `Unreadable` names an entry that is not what its name says."""
    for name, value in row.items():
        check = _check_of(name)
        if check is not None and not check[1](value):
            raise Unreadable(f"has {name[:60]} = {str(value)[:60]!r}, which must be {check[0]}")
    return row


class MeasuredRow(dict[str, Any]):
    """A row that was read from a file: whoever asks it for an entry that it lacks learns which file lacks what.

    Which entries a row has is known to the kind that wrote it and to those that compute with it, not here.
    """

    def __init__(self, row: Row, path: Path) -> None:
        super().__init__(require_measurements(row))
        self._path = path

    def __missing__(self, name: str) -> Any:
        found = f"{self._path} has a row of {self.get('event')} without {name}"
        raise BadInput("run", f"{found}; what can be done: internalize runs verify {self._path.parent}")
