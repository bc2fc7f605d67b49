"""What a claim is, a sentence, its test and its controls; and how claims are judged together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from internalize.figures.asked import require_fields, runs_without_count, why_nothing_to_compare
from internalize.figures.rows import (
    TOY_SCALE,
    FigureRow,
    Members,
    Scale,
    counted,
    part_of,
    place,
    rate,
    scale_of_all,
    values_at,
)
from internalize.statistics import holm

ALPHA = 0.05
"""Over all claims of a figure that have data, by Holm's correction, both sides together."""


@dataclass(frozen=True)
class TestOutcome:
    """What rows say about a claim."""

    claimed: float
    """One-sided p-value: how easily chance alone would look as much like the claim."""
    opposite: float
    """One-sided p-value of the contrary."""
    numbers: str
    """What was found, in words, with the effect and its interval."""
    data: dict[str, Any] = field(default_factory=dict)
    """The same for machines."""
    ceiling: str = ""
    """Why no difference could be seen, where the group that should have less has all there is."""


class ClaimTest(Protocol):
    """A statistical test as data: which rows, which method, which direction.

    The columns that it asks for are found by the names of its attributes (`figures/asked.py`).
    """

    @property
    def method(self) -> str:
        """The test and its direction, in words."""

    @property
    def groups(self) -> tuple[Members, ...]:
        """The rows that it looks at; without rows in each of them there is nothing to judge."""

    def outcome_of(self, rows: Sequence[FigureRow]) -> TestOutcome | None:
        """None where there are no data."""

    def detects(self, planned: Sequence[FigureRow], level: float) -> str:
        """The smallest effect that the planned runs can show at a one-sided level, in words.

        planned: the cases of the sweep, with fields but without results.
        """


@dataclass(frozen=True)
class PositiveControl:
    """What must hold for a claim to be judged: an outcome that comes often enough in a group."""

    sentence: str
    """What it says, such as "stage 1 learned the chain"."""
    group: Members
    outcome: str
    least: float = 0.5
    """Share of the group's runs that must have it."""
    fewest: int = 1
    """Number of them that must have it."""
    by: str | None = None
    """Judge each value of this field apart; the claim is then judged on those at which the control holds."""

    def apply(self, rows: Sequence[FigureRow], judged: Sequence[Members]) -> AfterControl:
        """The rows at which it holds. judged: the groups that the claim looks at."""
        kept: list[FigureRow] = []
        failed, unknown = [], []
        for value in values_at(rows, self.by):
            part = part_of(rows, self.by, value)
            found = rate(self.group.of(part), self.outcome)
            enough = found.successes >= max(self.fewest, self.least * found.trials) and found.trials > 0
            if enough:
                kept += part
            elif found.trials:
                where = "" if self.by is None else f" at {place(self.by, value)}"
                seen = f"{counted(found)} runs of {self.group.label}"
                failed.append(f"the control fails{where} ({self.sentence}: {seen})")
            elif lost := sum(len(members.of(part)) for members in judged):
                where = "" if self.by is None else f" at {place(self.by, value)}"
                unknown.append(f"{lost} runs{where}, where there are none of {self.group.label}")
        return AfterControl(kept, failed, unknown)


@dataclass(frozen=True)
class AfterControl:
    """What a control leaves of the rows."""

    kept: list[FigureRow]
    failed: list[str]
    """Where it does not hold, in words."""
    unknown: list[str]
    """Where it has no runs yet: nothing failed there, and nothing can be judged."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the test that judges it."""

    name: str
    sentence: str
    test: ClaimTest
    controls: Sequence[PositiveControl] = ()
    headline: bool = False
    """Whether it stands in the README's table."""
    looks: int = 1
    """How often it was judged, or will be, on other runs or with more of them. Who looks twice is fooled by
    chance twice as easily, so p-values are multiplied by this."""
    seen: Literal["", "added", "changed", "added in part"] = ""
    """What was done to it when its runs had been seen, in part: when some of them had. A reader should trust it
    less."""
    ours: bool = False
    """Whether the sentence, or what it foretells, is not the paper's but ours."""
    restates: str | None = None
    """The claim that it says again by another number. The two are not corrected for each other."""


COUNTED = "counted, nothing is random"
"""What the method of a claim says that needs no test."""
UNDETECTABLE = "nothing by itself: too few runs"
TOO_FEW = "so few runs could not show it, whatever came out"
EXISTS = 1 / 20
"""The bar where the paper says that something can happen: more often than a test errs."""
MOSTLY = 1 / 2
"""The bar for *succeeds* and *fails*: the larger part of the runs."""


def chain_learned(*groups: Members, by: str | None = None) -> list[PositiveControl]:
    """Stage 1 taught the chain: only then is there something to internalize."""
    return [PositiveControl("stage 1 learned the chain", members, "chain_learned", by=by) for members in groups]


def succeeds_first(members: Members, by: str | None = None, fewest: int = 3) -> PositiveControl:
    """Runs must succeed in distribution before what they lose outside of it can be compared."""
    sentence = "the answer succeeds in distribution"
    return PositiveControl(sentence, members, "succeeded", least=0.0, fewest=fewest, by=by)


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
    """Of a claim that is not testable: the control that failed, that runs are too few, or that a group is at
    the ceiling; of others: parts that were left out."""
    cost: str = ""
    """Of a planned one: what its runs would take."""

    @property
    def numbers(self) -> str:
        """What there is to say beside the word."""
        if self.word == "planned":
            return self.cost
        looks = self.claim.looks
        often = f"p is multiplied by {looks}, for {looks} looks"
        again = often if self.outcome and looks > 1 else ""
        done = self.claim.seen if self.outcome else ""
        whose = "some of its runs" if done.endswith("in part") else "its runs"
        seen = f"the claim was {done.split()[0]} when {whose} had been seen" if done else ""
        told = [self.outcome.numbers if self.outcome else "", self.why, again, seen]
        return "; ".join(part for part in told if part)

    def to_json(self) -> dict[str, Any]:
        return {
            "claim": self.claim.name,
            "sentence": self.claim.sentence,
            "headline": self.claim.headline,
            "ours": self.claim.ours,
            "seen": self.claim.seen,
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


def is_counted(method: str) -> bool:
    """Whether a claim's method is no test: its p is neither told nor corrected, nor are others for it."""
    return COUNTED in method


def told_p(claim: Mapping[str, Any]) -> str:
    """The p-value by which a claim (as JSON) got its word: of a contradicted one, the contrary's."""
    if is_counted(claim["method"]) or claim["verdict"] in ("planned", "not testable here"):
        return "–"
    p = claim["p_opposite"] if claim["verdict"] == "contradicted" else claim["p"]
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


class Plan(NamedTuple):
    """Of the runs that a claim waits for: what they would take, and how far they are from the paper's own."""

    cost: str
    scale: Scale | None = None


def judge(
    claims: Sequence[Claim],
    rows: Sequence[FigureRow],
    plan: Callable[[Claim], Plan] = lambda claim: Plan(""),
    alpha: float = ALPHA,
    absent: Sequence[FigureRow] = (),
) -> list[Judgement]:
    """One judgement for each claim. Only claims that have data and need a test are corrected for each other.

    absent: the cases whose runs are not there yet. A claim that waits for one of them is not judged on the
    others: whoever looks before the planned end, and stops when it pleases, confirms too much.
    """
    waits = [any(members.planned(absent) for members in _asked_by(claim)) for claim in claims]
    tested = [
        _Tested(None, None, "") if waiting else _test(claim, rows)
        for claim, waiting in zip(claims, waits, strict=True)
    ]
    hopeless = {i for i, claim in enumerate(claims) if _cannot_be_confirmed(claim, tested[i], alpha)}
    claimed, opposite_of = (_corrected(claims, tested, side, hopeless) for side in ("claimed", "opposite"))
    judged = []
    for i, (claim, found) in enumerate(zip(claims, tested, strict=True)):
        if found.outcome is None:
            if found.why:
                judged.append(Judgement(claim, "not testable here", scale=found.scale, why=found.why))
            else:
                waiting = plan(claim)
                judged.append(Judgement(claim, "planned", scale=waiting.scale, cost=waiting.cost))
            continue
        p = claimed.get(i, found.outcome.claimed)
        opposite = opposite_of.get(i, found.outcome.opposite)
        word: Word = "confirmed" if p <= alpha else "contradicted" if opposite <= alpha else "inconclusive"
        why = found.why
        cannot_show = TOO_FEW if i in hopeless else found.outcome.ceiling
        if word == "inconclusive" and cannot_show:
            word, why = "not testable here", "; ".join(part for part in (cannot_show, found.why) if part)
        judged.append(Judgement(claim, word, found.outcome, p, opposite, found.scale, why))
    return judged


def _cannot_be_confirmed(claim: Claim, found: _Tested, alpha: float) -> bool:
    """Whether so many runs could not confirm it, whatever came out, not even as the figure's only claim.

    What a test can detect is told for the outcomes that are likeliest to show it. Where others have shown it,
    the claim is one that could be confirmed, and is corrected like any other.
    """
    if found.outcome is None or is_counted(claim.test.method):
        return False
    undetectable = claim.test.detects(found.rows, alpha / 2 / claim.looks) == UNDETECTABLE
    return undetectable and claim.looks * two_sided(found.outcome.claimed) > alpha


Side = Literal["claimed", "opposite"]


def _corrected(
    claims: Sequence[Claim], tested: Sequence[_Tested], side: Side, hopeless: Collection[int]
) -> dict[int, float]:
    """p of each claim that has data and needs a test, by its place: two-sided, for all looks, after Holm.

    A claim that no outcome could confirm takes nothing from the others; it can still be contradicted. One that
    says another again is corrected in the other's place.
    """
    known: dict[int, float] = {}
    for family in _families(claims, tested):
        p = {i: min(1.0, claims[i].looks * two_sided(getattr(tested[i].outcome, side))) for i in family}
        names = {claims[i].name for i in family}
        own = [i for i in family if claims[i].restates not in names]
        counted = [i for i in own if side == "opposite" or i not in hopeless]
        known |= p | dict(zip(counted, holm([p[i] for i in counted]), strict=True))
        for again in set(family) - set(own):
            others = [i for i in counted if claims[i].name != claims[again].restates]
            known[again] = holm([p[again], *(p[i] for i in others)])[0]
    return known


def _asked_by(claim: Claim) -> list[Members]:
    """The groups that a claim needs: those of its test and of its controls."""
    return [*claim.test.groups, *(control.group for control in claim.controls)]


def _families(claims: Sequence[Claim], tested: Sequence[_Tested]) -> list[list[int]]:
    """The claims that are corrected for each other; those on toys, which support nothing, by themselves."""
    known = [
        i
        for i, found in enumerate(tested)
        if found.outcome is not None and not is_counted(claims[i].test.method)
    ]
    return [[i for i in known if (tested[i].scale == TOY_SCALE) is toy] for toy in (False, True)]


@dataclass(frozen=True)
class _Tested:
    outcome: TestOutcome | None
    scale: Scale | None
    why: str
    rows: Sequence[FigureRow] = ()
    """What the controls left, and the test looked at."""


def _test(claim: Claim, rows: Sequence[FigureRow]) -> _Tested:
    """The test on the rows that the claim's controls leave."""
    left, failed = _without_toys(claim, rows)
    unknown: list[str] = []
    for control in claim.controls:
        after = control.apply(left, claim.test.groups)
        left, failed, unknown = after.kept, failed + after.failed, unknown + after.unknown
    require_fields(claim.name, claim.test, left)
    if without_count := runs_without_count(claim.test, claim.test.groups, left):
        failed.append(without_count)
    outcome = None if without_count else claim.test.outcome_of(left)
    why = "; ".join(failed if outcome is None else failed + unknown)
    if outcome is None and not why:
        why = "; ".join(
            f"there are no {members.label}"
            for members in claim.test.groups
            if not members.of(rows) and members.whatever_came_out().of(rows)
        ) or why_nothing_to_compare(claim.test, claim.test.groups, left)
    scale = _scale(claim, rows if outcome is None else left)
    return _Tested(outcome, scale, f"left out: {why}" if why and outcome is not None else why, left)


def without_planned_toys(claim: Claim, planned: Sequence[FigureRow]) -> list[FigureRow]:
    """The cases that a claim will be judged on: as `_without_toys`, before anything has run."""
    kept = [case for case in planned if case.get("scale") != TOY_SCALE]
    return kept if all(members.planned(kept) for members in claim.test.groups) else list(planned)


def _without_toys(claim: Claim, rows: Sequence[FigureRow]) -> tuple[list[FigureRow], list[str]]:
    """The rows without those at toy sizes, and that these are left out; all rows if nothing else is there."""
    kept = [row for row in rows if row.get("scale") != TOY_SCALE]
    groups = claim.test.groups
    toys = sum(len(members.of(rows)) - len(members.of(kept)) for members in groups)
    if not toys or not all(members.of(kept) for members in groups):
        return list(rows), []
    return kept, ["1 run that is a toy" if toys == 1 else f"{toys} runs that are toys"]


def _scale(claim: Claim, rows: Sequence[FigureRow]) -> Scale | None:
    scales = [row["scale"] for members in claim.test.groups for row in members.of(rows) if row.get("scale")]
    return scale_of_all(scales) if scales else None


def two_sided(p: float) -> float:
    return min(1.0, 2 * p)


def strictest_level(claims: Sequence[Claim], alpha: float = ALPHA) -> float:
    """The one-sided level that suffices whatever the other claims give: what plans are made with."""
    return alpha / 2 / max(1, len(claims))
