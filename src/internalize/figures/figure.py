"""What a figure is: cases for each tier, a drawing, a caption, claims. A figure never trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from internalize.errors import require
from internalize.figures.cases import (
    Grid,
    Tier,
    Tiers,
    coverage,
    differences,
    planned_rows,
    shapes_of,
    sweep_from,
)
from internalize.figures.rows import (
    PAPER_SCALE,
    TOY_SCALE,
    FigureRow,
    Members,
    Scale,
    chain_columns,
    chain_outcomes,
    counted,
    part_of,
    rate,
    scale_of,
    scale_of_all,
    values_at,
)
from internalize.runs.folder import Run
from internalize.statistics import holm
from internalize.sweeps import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PAPER_TIER: Tier = "paper"
Columns = Callable[[FigureRow, Sequence[FigureRow]], dict[str, Any]]
ColumnsOfRun = Callable[[FigureRow, Run], dict[str, Any]]


@dataclass(frozen=True)
class DrawingMaterial:
    """All that a drawing is made of."""

    tier: Tier
    rows: Sequence[FigureRow]
    """One for each finished run, with derived columns; of a figure without runs, whatever it computes."""
    out: Path
    """The folder that holds the runs."""

    def run(self, row: FigureRow) -> Run:
        folder = self.out / row["run"]
        needed = "this figure draws curves, which the tables of finished figures do not hold: train its runs"
        require(folder.is_dir(), "recorded", needed)
        return Run(folder)

    def evaluations(self, row: FigureRow) -> list[dict[str, Any]]:
        """What was measured on the way, in order."""
        return list(self.run(row).metrics("evaluation"))


def nothing_more(row: FigureRow, run: Run) -> dict[str, Any]:
    """For kinds of experiment whose summary says all."""
    return {}


@dataclass(frozen=True)
class Figure:
    """One figure, of the paper or of one's own."""

    name: str
    paper: str
    """Where it is in the paper; what it is for, if it is not there."""
    shows: str
    """What one sees, in a line."""
    tiers: Tiers
    """The cases of each tier; not every figure has all of them."""
    draw: Callable[[DrawingMaterial], Drawing]
    caption: str
    claims: Sequence[Claim]
    notes: Sequence[str] = ()
    """Readings and other facts that belong under the caption."""
    columns: Columns = chain_columns
    """Columns from a row's own fields, given all cases of the tier; also for cases that have not run."""
    columns_of_run: ColumnsOfRun = chain_outcomes
    """Further columns of a finished run, from its folder."""
    table: Callable[[Tier], list[dict[str, Any]]] | None = None
    """Of a figure that needs no runs: its rows."""
    keeps_stages: bool = False
    """Whether the drawing needs the weights at stage ends."""

    def sweep(self, tier: Tier, later: bool = False) -> Sweep:
        """The runs of a tier; later: also those that are only planned."""
        return sweep_from(f"{self.name}-{tier}", self.grids(tier), later)

    def grids(self, tier: Tier) -> Sequence[Grid]:
        """The cases of a tier, which it must have."""
        known = ", ".join(self.tiers)
        require(tier in self.tiers, "tier", f"{self.name} has no cases for {tier}; it has {known}")
        return self.tiers[tier]

    def planned(self, sweep: Sweep) -> list[dict[str, Any]]:
        """The cases as rows: fields and derived columns, no results."""
        cases = planned_rows(sweep)
        return [{**case, **self.columns(case, cases)} for case in cases]

    def rows(self, found: Sequence[FigureRow], sweep: Sweep, out: Path | None) -> list[dict[str, Any]]:
        """The rows of finished runs with every derived column.

        out: the folder of the runs; None for rows that hold what is derived from a run's curves already.
        """
        cases, paper = planned_rows(sweep), self._paper_cases()
        rows = []
        for plain in found:
            row = {**plain, **self.columns(plain, cases)}
            if out is not None:
                row |= self.columns_of_run(row, Run(out / row["run"]))
            rows.append({**row, "scale": scale_of(row, paper)})
        return rows

    def table_rows(self, tier: Tier) -> list[dict[str, Any]]:
        """Of a figure that needs no runs. What is computed exactly is as large as the paper wants it."""
        assert self.table is not None
        return [{**row, "scale": PAPER_SCALE} for row in self.table(tier)]

    def _paper_cases(self) -> list[dict[str, Any]]:
        """The paper's cases, each once: seeds do not matter."""
        if PAPER_TIER not in self.tiers:
            return []
        from internalize.runs.table import dotted_fields

        return [dotted_fields(config) for config in shapes_of(self.tiers[PAPER_TIER])]

    def differences(self, tier: Tier) -> list[str]:
        """What this tier has other than the paper."""
        if tier == PAPER_TIER or self.table is not None or PAPER_TIER not in self.tiers:
            return []
        ours, paper = (shapes_of(self.tiers[which], later=True) for which in (tier, PAPER_TIER))
        return differences(ours, paper)

    def caption_lines(self, tier: Tier) -> list[str]:
        """The caption, the notes, and what differs from the paper."""
        different = self.differences(tier)
        lines = [self.caption, *self.notes, *coverage(self.tiers.get(tier, ()), self.columns)]
        return [*lines, f"Differs from the paper: {'; '.join(different)}."] if different else lines


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


class ClaimTest(Protocol):
    """A statistical test as data: which rows, which method, which direction."""

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

    def apply(self, rows: Sequence[FigureRow]) -> tuple[list[FigureRow], list[str]]:
        """The rows that are left, and what failed, in words. Where there are no runs yet, nothing failed."""
        kept: list[FigureRow] = []
        failed = []
        for value in values_at(rows, self.by):
            part = part_of(rows, self.by, value)
            found = rate(self.group.of(part), self.outcome)
            enough = found.successes >= max(self.fewest, self.least * found.trials) and found.trials > 0
            if enough:
                kept += part
            elif found.trials:
                where = "" if self.by is None else f" at {value}"
                failed.append(f"{self.sentence}{where}: {counted(found)} runs of {self.group.label}")
        return kept, failed


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and the test that judges it."""

    name: str
    sentence: str
    test: ClaimTest
    controls: Sequence[PositiveControl] = ()
    headline: bool = False
    """Whether it stands in the README's table."""


COUNTED = "counted, nothing is random"
"""How the method of a claim ends that needs no test."""
UNDETECTABLE = "nothing by itself: too few runs"
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
    p = claim["p_opposite"] if claim["verdict"] == "contradicted" else claim["p"]
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def judge(
    claims: Sequence[Claim],
    rows: Sequence[FigureRow],
    cost: Callable[[Claim], str] = lambda claim: "",
    alpha: float = ALPHA,
    absent: Sequence[FigureRow] = (),
) -> list[Judgement]:
    """One judgement for each claim. Only claims that have data and need a test are corrected for each other.

    absent: the cases whose runs are not there yet. A claim that waits for one of them is not judged on the
    others: whoever looks before the planned end, and stops when it pleases, confirms too much.
    """
    waits = [any(members.planned(absent) for members in claim.test.groups) for claim in claims]
    tested = [
        _Tested(None, None, "") if waiting else _test(claim, rows)
        for claim, waiting in zip(claims, waits, strict=True)
    ]
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
    left, failed = _without_toys(claim, rows)
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


def _is_counted(claim: Claim) -> bool:
    return claim.test.method.endswith(COUNTED)


def two_sided(p: float) -> float:
    return min(1.0, 2 * p)


def strictest_level(claims: Sequence[Claim], alpha: float = ALPHA) -> float:
    """The one-sided level that suffices whatever the other claims give: what plans are made with."""
    return alpha / 2 / max(1, len(claims))
