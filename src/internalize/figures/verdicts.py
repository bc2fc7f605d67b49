"""From rows to verdicts, each with the scale at which it was reached.

confirmed: significant in the direction of the claim. contradicted: significant in the other direction.
inconclusive: neither; the effect and its interval say how little is known. not testable here: a control failed.
planned: there are no runs yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from internalize.figures.claims import ALPHA, COUNTED, Claim, TestOutcome
from internalize.figures.rows import FigureRow, Scale, scale_of_all
from internalize.statistics import holm

Word = Literal["confirmed", "contradicted", "inconclusive", "not testable here", "planned"]
WORDS: tuple[Word, ...] = ("confirmed", "contradicted", "inconclusive", "not testable here", "planned")


@dataclass(frozen=True)
class Judgement:
    """A claim judged."""

    claim: Claim
    word: Word
    outcome: TestOutcome | None = None
    """None where nothing could be tested."""
    p: float = 1.0
    """Two-sided, after Holm's correction over the figure's claims that have data."""
    p_opposite: float = 1.0
    """The same for the contrary of the claim."""
    scale: Scale | None = None
    why: str = ""
    """Of a claim that is not testable: the control that failed; of others: parts that were left out."""
    cost: str = ""
    """Of a planned one: what its runs would take."""

    @property
    def numbers(self) -> str:
        """What there is to say beside the word."""
        if self.word == "planned":
            return self.cost
        told = [self.outcome.numbers if self.outcome else "", self.why]
        return "; ".join(part for part in told if part)

    def to_json(self) -> dict[str, Any]:
        return {
            "claim": self.claim.name,
            "sentence": self.claim.sentence,
            "headline": self.claim.headline,
            "method": self.claim.test.method,
            "controls": [control.sentence for control in self.claim.controls],
            "verdict": self.word,
            "scale": self.scale,
            "numbers": self.numbers,
            "p": self.p,
            "p_opposite": self.p_opposite,
            "p_before_correction": two_sided(self.outcome.claimed) if self.outcome else 1.0,
            "data": self.outcome.data if self.outcome else {},
        }


def told_p(claim: Mapping[str, Any]) -> str:
    """The p-value by which a claim (as JSON) got its word: of a contradicted one, the contrary's."""
    if claim["method"].endswith(COUNTED) or claim["verdict"] in ("planned", "not testable here"):
        return "–"
    p = float(claim["p_opposite"] if claim["verdict"] == "contradicted" else claim["p"])
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def judge(
    claims: Sequence[Claim],
    rows: Sequence[FigureRow],
    cost: Callable[[Claim], str] = lambda claim: "",
    alpha: float = ALPHA,
) -> list[Judgement]:
    """One judgement for each claim. Only claims that have data and need a test are corrected for each other."""
    tested = [_test(claim, rows) for claim in claims]
    family = [i for i, found in enumerate(tested) if found.outcome is not None and not _is_counted(claims[i])]
    sides = {}
    for side in ("claimed", "opposite"):
        p_values = [two_sided(getattr(tested[i].outcome, side)) for i in family]
        sides[side] = dict(zip(family, holm(p_values), strict=True))
    judged = []
    for i, (claim, found) in enumerate(zip(claims, tested, strict=True)):
        if found.outcome is None:
            word: Word = "not testable here" if found.why else "planned"
            told = "" if found.why else cost(claim)
            judged.append(Judgement(claim, word, scale=found.scale, why=found.why, cost=told))
            continue
        p = sides["claimed"].get(i, found.outcome.claimed)
        opposite = sides["opposite"].get(i, found.outcome.opposite)
        word = "confirmed" if p <= alpha else "contradicted" if opposite <= alpha else "inconclusive"
        judged.append(Judgement(claim, word, found.outcome, p, opposite, found.scale, found.why))
    return judged


@dataclass(frozen=True)
class _Tested:
    outcome: TestOutcome | None
    scale: Scale | None
    why: str


def _test(claim: Claim, rows: Sequence[FigureRow]) -> _Tested:
    """The test on the rows that the claim's controls leave."""
    left, failed = list(rows), []
    for control in claim.controls:
        left, more = control.apply(left)
        failed += more
    outcome, why = claim.test.outcome_of(left), "; ".join(failed)
    if outcome is None and not why:
        why = "; ".join(
            f"there are no {members.label}"
            for members in claim.test.groups
            if not members.of(rows) and members.whatever_came_out().of(rows)
        )
    scale = _scale(claim, rows if outcome is None else left)
    return _Tested(outcome, scale, f"left out: {why}" if why and outcome is not None else why)


def _scale(claim: Claim, rows: Sequence[FigureRow]) -> Scale | None:
    scales = [row["scale"] for members in claim.test.groups for row in members.of(rows) if row.get("scale")]
    return scale_of_all(scales) if scales else None


def _is_counted(claim: Claim) -> bool:
    return claim.test.method.endswith(COUNTED)


def two_sided(p: float) -> float:
    return min(1.0, 2 * p)


def strictest_level(claims: Sequence[Claim], alpha: float = ALPHA) -> float:
    """The one-sided level that suffices whatever the other claims give: what plans are made with."""
    return alpha / 2 / max(1, len(claims))
