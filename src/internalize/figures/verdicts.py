"""From rows to verdicts: confirmed, not confirmed, contradicted or underpowered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from internalize.figures.claims import ALPHA, COUNTED, Claim, Evidence
from internalize.figures.rows import FigureRow
from internalize.statistics import holm

Word = Literal["confirmed", "not confirmed", "contradicted", "underpowered"]


@dataclass(frozen=True)
class Verdict:
    """A claim judged."""

    claim: Claim
    word: Word
    evidence: Evidence
    p: float
    """Two-sided, after Holm's correction over the figure's claims."""
    p_opposite: float
    """The same for the contrary of the claim."""

    def to_json(self) -> dict[str, Any]:
        return {
            "claim": self.claim.name,
            "sentence": self.claim.sentence,
            "method": self.claim.test.method,
            "verdict": self.word,
            "numbers": self.evidence.numbers,
            "p": self.p,
            "p_opposite": self.p_opposite,
            "p_before_correction": two_sided(self.evidence.claimed),
            "data": self.evidence.data,
        }


def told_p(claim: Mapping[str, Any]) -> str:
    """The p-value by which a claim (as JSON) got its word: of a contradicted one, the contrary's."""
    p = float(claim["p_opposite"] if claim["verdict"] == "contradicted" else claim["p"])
    if claim["method"].endswith(COUNTED):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def judge(claims: Sequence[Claim], rows: Sequence[FigureRow], alpha: float = ALPHA) -> list[Verdict]:
    """A verdict a claim; claims without any data count in the correction all the same."""
    found = [claim.test.evidence(rows) for claim in claims]
    claimed = [two_sided(evidence.claimed) for evidence in found]
    adjusted, opposite = holm(claimed), holm([two_sided(evidence.opposite) for evidence in found])
    at_best = holm([two_sided(evidence.least) for evidence in found])
    return [
        Verdict(claim, _word(adjusted[i], opposite[i], at_best[i], alpha), evidence, adjusted[i], opposite[i])
        for i, (claim, evidence) in enumerate(zip(claims, found, strict=True))
    ]


def two_sided(p: float) -> float:
    return min(1.0, 2 * p)


def _word(p: float, opposite: float, at_best: float, alpha: float) -> Word:
    if p <= alpha:
        return "confirmed"
    if opposite <= alpha:
        return "contradicted"
    return "underpowered" if at_best > alpha else "not confirmed"


def strictest_level(claims: Sequence[Claim], alpha: float = ALPHA) -> float:
    """The one-sided level that suffices whatever the other claims give: what plans are made with."""
    return alpha / 2 / max(1, len(claims))
