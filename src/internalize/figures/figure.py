"""What a figure is: cases at three tiers, a drawing, a caption, claims. A figure never trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from internalize.errors import require
from internalize.figures.claims import Claim
from internalize.figures.derived import chain_columns
from internalize.figures.differences import differences
from internalize.figures.grids import Tier, Tiers, planned_rows, shapes_of, sweep_from
from internalize.figures.rows import FigureRow
from internalize.runs.folder import Run
from internalize.sweeps import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PAPER_TIER: Tier = "paper"
Columns = Callable[[FigureRow, Sequence[FigureRow]], dict[str, Any]]


@dataclass(frozen=True)
class Material:
    """All that a drawing is made of."""

    tier: Tier
    rows: Sequence[FigureRow]
    """One a finished run, with derived columns; of a figure without runs, whatever it computes."""
    out: Path
    """The folder that holds the runs."""

    def run(self, row: FigureRow) -> Run:
        return Run(self.out / row["run"])

    def evaluations(self, row: FigureRow) -> list[dict[str, Any]]:
        """What was measured on the way, in order."""
        return list(self.run(row).metrics("evaluation"))


ColumnsOfRun = Callable[[FigureRow, Run], dict[str, Any]]


def nothing_more(row: FigureRow, run: Run) -> dict[str, Any]:
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
    """The cases of each tier; a figure of one's own may have fewer than three."""
    draw: Callable[[Material], Drawing]
    caption: str
    claims: Sequence[Claim]
    notes: Sequence[str] = ()
    """Readings and other facts that belong under the caption."""
    columns: Columns = chain_columns
    """Columns from a row's own fields, given all cases of the tier; also for cases that have not run."""
    columns_of_run: ColumnsOfRun = nothing_more
    """Further columns of a finished run, from its folder."""
    table: Callable[[Tier], list[dict[str, Any]]] | None = None
    """Of a figure that needs no runs: its rows."""
    keeps_stages: bool = False
    """Whether the drawing needs the weights at stage ends."""

    def sweep(self, tier: Tier) -> Sweep:
        known = ", ".join(self.tiers)
        require(tier in self.tiers, "tier", f"{self.name} has no cases for {tier}; it has {known}")
        return sweep_from(f"{self.name}-{tier}", self.tiers[tier])

    def planned(self, sweep: Sweep) -> list[dict[str, Any]]:
        """The cases as rows: fields and derived columns, no results."""
        cases = planned_rows(sweep)
        return [{**case, **self.columns(case, cases)} for case in cases]

    def rows(self, found: Sequence[FigureRow], sweep: Sweep, out: Path) -> list[dict[str, Any]]:
        """The rows of finished runs with every derived column."""
        cases = planned_rows(sweep)
        return [
            {**row, **self.columns(row, cases), **self.columns_of_run(row, Run(out / row["run"]))}
            for row in found
        ]

    def differences(self, tier: Tier) -> list[str]:
        """What this tier has other than the paper."""
        if tier == PAPER_TIER or self.table is not None or PAPER_TIER not in self.tiers:
            return []
        ours, paper = (shapes_of(self.tiers[which]) for which in (tier, PAPER_TIER))
        return differences(ours, paper)

    def caption_lines(self, tier: Tier) -> list[str]:
        """The caption, the notes, and what differs from the paper."""
        different = self.differences(tier)
        lines = [self.caption, *self.notes]
        return [*lines, f"Differs from the paper: {'; '.join(different)}."] if different else lines
