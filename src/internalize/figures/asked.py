"""Which columns a test asks for, by the names of its attributes: so that slips in them can be found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from internalize.errors import closest, require
from internalize.figures.rows import OPTIONAL_FIELDS, RESULTS, WORDS, FigureRow, Members

CASE_FIELDS = ("by", "field", "strata", "unit", "number", "beside")
"""Attributes of a test that name what a case is known by: a field of its config, or what is derived from it."""
OUTCOMES = ("outcome", "outcome_of_less", "value", "without", "time", "cost")
"""Attributes of a test that name what only a finished run has."""


def fields_asked(test: object) -> list[str]:
    """The fields of cases by which a test tells runs apart."""
    return _named_by(test, CASE_FIELDS)


def outcomes_asked(test: object) -> list[str]:
    """The results of runs that a test looks at."""
    return _named_by(test, OUTCOMES)


def known_columns(rows: Iterable[FigureRow]) -> list[str]:
    """All that a test may ask of these rows; fields that are left out unless they are set stand in no row."""
    return sorted({name for row in rows for name in row} | {*WORDS, *RESULTS, *OPTIONAL_FIELDS})


def require_fields(claim: str, test: object, rows: Sequence[FigureRow]) -> None:
    """Refuses a test that tells runs apart by a field that no row has: all would fall into one heap."""
    there = {name for row in rows for name in row}
    for name in fields_asked(test) if rows else ():
        hint = closest(name, sorted(there))
        require(name in there or name in OPTIONAL_FIELDS, "claims", f"{claim}: no run has a {name!r}{hint}")


def why_nothing_to_compare(test: object, groups: Sequence[Members], rows: Sequence[FigureRow]) -> str:
    """Why a test found nothing in rows that are there; empty where a group has none."""
    if not all(members.of(rows) for members in groups):
        return ""
    there = sorted({name for row in rows for name, value in row.items() if value is not None})
    lacking = [f"{name!r}{closest(name, there)}" for name in outcomes_asked(test) if name not in there]
    return f"no run has {' or '.join(lacking)}" if lacking else "these runs leave nothing to be compared"


def runs_without_count(test: object, groups: Sequence[Members], rows: Sequence[FigureRow]) -> str:
    """That failed runs have no such number, in words; empty where there are none.

    Operations are not known of a run that was given up before its budget. Without such runs, which all failed,
    the others would speak for their group.
    """
    for name in outcomes_asked(test):
        if name.endswith("_until"):
            of_groups = [row for members in groups for row in members.of(rows)]
            unknown = sum(row.get("happened") is False and row.get(name) is None for row in of_groups)
            if unknown:
                runs = "1 failed run is" if unknown == 1 else f"{unknown} failed runs are"
                return f"the {name.removesuffix('_until')} of {runs} not known"
    return ""


def _named_by(test: object, attributes: Sequence[str]) -> list[str]:
    """The text of these attributes, and of those of the test inside, if there is one."""
    inside = getattr(test, "test", None)
    values = [getattr(test, name, None) for name in attributes]
    found: list[Any] = [one for value in values for one in (value if isinstance(value, tuple) else (value,))]
    found += [] if inside is None else _named_by(inside, attributes)
    return list(dict.fromkeys(name for name in found if isinstance(name, str)))
