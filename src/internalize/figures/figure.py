"""What a figure is: cases for each tier, a drawing, a caption, claims. A figure never trains."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from internalize.errors import require
from internalize.figures.cases import (
    Grid,
    Shapes,
    Tier,
    Tiers,
    coverage,
    differences,
    planned_rows,
    shapes_of,
    sweep_from,
)
from internalize.figures.claims import Claim
from internalize.figures.rows import (
    PAPER_SCALE,
    FigureRow,
    chain_columns,
    chain_outcomes,
    scale_of,
)
from internalize.kinds import prepare
from internalize.runs.folder import Run
from internalize.sweeps import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PAPER_TIER: Tier = "paper"
Columns = Callable[[FigureRow, Sequence[FigureRow]], dict[str, Any]]
ColumnsOfRun = Callable[[FigureRow, Run], dict[str, Any]]
Curve = Sequence[Mapping[str, Any]]
"""Points that were measured on the way of a run, in order."""


@dataclass(frozen=True)
class DrawingMaterial:
    """All that a drawing is made of."""

    tier: Tier
    rows: Sequence[FigureRow]
    """One for each finished run, with derived columns; of a figure without runs, whatever it computes."""
    out: Path
    """The folder that holds the runs."""
    curves: Mapping[str, Curve] = field(default_factory=dict)
    """By the run's name: what the figure's `curve_of_run` takes from it."""

    def run(self, row: FigureRow) -> Run:
        folder = self.out / row["run"]
        needed = f"this figure is drawn from run folders, and {row['run']} is not there: leave --recorded out"
        require(folder.is_dir(), "recorded", needed)
        return Run(folder)

    def curve(self, row: FigureRow) -> Curve:
        """Of a run that is here, or that a table of curves knows."""
        needed = f"this figure draws curves, and no table has that of {row['run']}: leave --recorded out"
        require(row["run"] in self.curves, "recorded", needed)
        return self.curves[row["run"]]

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
    curve_of_run: Callable[[Run], Curve] | None = None
    """Of a figure that draws curves: its points of a finished run. They are kept in a table beside the picture,
    so that it can be drawn again when the run is gone."""
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
        """The cases as rows: fields, derived columns and the scale, no results."""
        cases, paper = planned_rows(sweep), self._paper_cases()
        rows = [{**case, **self.columns(case, cases)} for case in cases]
        return [{**row, "scale": scale_of(row, paper)} for row in rows]

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
        """The paper's cases, each once: seeds do not matter. What we run beside them is none of them."""
        from internalize.runs.table import dotted_fields

        return [dotted_fields(config) for config, _ in shapes_of(self._paper_grids())]

    def _paper_grids(self) -> list[Grid]:
        return [grid for grid in self.tiers.get(PAPER_TIER, ()) if not grid.ours]

    def differences(self, tier: Tier, runs: Collection[str] | None = None) -> list[str]:
        """What this tier has other than the paper. runs: the names of those that are there; all if None."""
        if tier == PAPER_TIER or self.table is not None or PAPER_TIER not in self.tiers:
            return []
        paper = shapes_of(self._paper_grids(), later=True)
        return differences(self._shapes(tier, runs), paper)

    def _shapes(self, tier: Tier, runs: Collection[str] | None) -> Shapes:
        """The cases of the tier, those for later too. runs: the names of those that are there; all if None."""
        shapes = shapes_of(self.tiers.get(tier, ()), later=True)
        return shapes if runs is None else _that_ran(shapes, runs)

    def notes_at(self, tier: Tier, runs: Collection[str] | None = None) -> list[str]:
        """The notes, and how often a run sees an input. runs: as for `differences`."""
        return [*self.notes, *coverage(self._shapes(tier, runs), self.columns)]

    def caption_lines(self, tier: Tier, runs: Collection[str] | None = None) -> list[str]:
        """The caption, the notes, and what differs from the paper. runs: as for `differences`."""
        different = self.differences(tier, runs)
        lines = [self.caption, *self.notes_at(tier, runs)]
        return [*lines, f"Differs from the paper: {'; '.join(different)}."] if different else lines


def _that_ran(shapes: Shapes, runs: Collection[str]) -> Shapes:
    """The shapes of which runs are there, with the seeds that are: what nobody ran differs from nothing yet."""
    found = []
    for config, seeds in shapes:
        there = tuple(
            seed
            for seed in seeds
            if prepare(replace(config, seed=seed)).folder(Path()).name in runs  # type: ignore[type-var]
        )
        found += [(config, there)] if there else []
    return found
