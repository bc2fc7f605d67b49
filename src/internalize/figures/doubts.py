"""Slips in the claims of a figure of one's own: names that no case has, said before hours are spent on runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from internalize.errors import closest
from internalize.figures.asked import fields_asked, known_columns, outcomes_asked
from internalize.figures.cases import Tier
from internalize.figures.claims import Claim
from internalize.figures.figure import PAPER_TIER, Figure
from internalize.figures.rows import FigureRow, Members

SLIP = 0.85
"""So alike are a name and what is made of it by a slip of the pen."""


def doubts(figure: Figure, tier: Tier) -> list[str]:
    """A line for each name that is probably misspelt.

    What results a run will have is not known before: a name that no case has is doubted only if it is nearly
    one that is known.
    """
    if figure.table is not None:
        return []
    cases = figure.planned(figure.sweep(tier, later=True))
    others = [other for other in (tier, PAPER_TIER) if other in figure.tiers and other != tier]
    found = list(_of_claims(figure.claims, cases))
    if found and others:  # some claims are about the paper's own models alone
        at_paper = figure.planned(figure.sweep(others[0], later=True))
        found = [line for line in found if line in set(_of_claims(figure.claims, at_paper))]
    return found


def _of_claims(claims: Sequence[Claim], cases: Sequence[FigureRow]) -> Iterator[str]:
    columns, of_cases = known_columns(cases), sorted({name for case in cases for name in case})
    for claim in claims:
        controls = [control.group for control in claim.controls]
        fields = [*fields_asked(claim.test), *(control.by for control in claim.controls if control.by)]
        outcomes = [*outcomes_asked(claim.test), *(control.outcome for control in claim.controls)]
        for members in dict.fromkeys([*claim.test.groups, *controls]):
            for doubt in _of_members(members, cases, columns):
                yield f"{claim.name}: {members.label}: {doubt}"
        for field in dict.fromkeys(fields):
            if field not in columns and (near := closest(field, of_cases)):
                yield f"{claim.name}: no case has a field {field!r}{near}"
        for outcome in dict.fromkeys(outcomes):
            if outcome not in columns and (near := closest(outcome, columns, SLIP)):
                yield f"{claim.name}: no result is known as {outcome!r}{near}"


def _of_members(members: Members, cases: Sequence[FigureRow], columns: list[str]) -> Iterator[str]:
    for field, wanted in members.where:
        if field not in columns:
            if near := closest(field, columns, SLIP):
                yield f"no case has a field {field!r}{near}"
        elif isinstance(wanted, str) and any(field in case for case in cases):
            known = [str(value) for value in dict.fromkeys(case.get(field) for case in cases)]
            if wanted not in known:
                yield f"no case has {field} = {wanted!r}{closest(wanted, known)}"
