"""Figure 1, right: out-of-distribution accuracy falls while the words are taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from internalize.display.charts import accuracy_over_training
from internalize.display.plots import new_figure
from internalize.figures.claims import Claim
from internalize.figures.comparison_tests import MeanBelowZero
from internalize.figures.figure import Figure, Material
from internalize.figures.grids import Grid, Tiers
from internalize.figures.rows import FigureRow, group
from internalize.figures.settings import (
    ADAPTIVE,
    CELL,
    HORIZONS,
    PAPER,
    SMOKE,
    SMOKE_SEEDS,
    TEN_SEEDS,
    TOY_ADAPTIVE,
    TOY_HORIZONS,
    with_horizons,
)
from internalize.runs.folder import Run
from internalize.statistics import SUCCESS
from internalize.statistics.trends import correlation

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

FEWEST_STAGES = 3
"""A run that kept its accuracy for fewer stages than these says nothing of a trend."""

TIERS: Tiers = {
    "smoke": [Grid(SMOKE, {"task": ["C2", "C3"]}, seeds=SMOKE_SEEDS)],
    "toy": [Grid(TOY_ADAPTIVE, zipped=with_horizons(["C3", "C5"], TOY_HORIZONS), seeds=range(10, 20))],
    "laptop": [
        Grid(CELL, {"method": ["left", "inductive"]}, seeds=TEN_SEEDS),
        Grid(ADAPTIVE, {"method": ["left"]}, seeds=TEN_SEEDS),
        Grid(ADAPTIVE, {"method": ["left"]}, with_horizons(["C4"], HORIZONS), seeds=TEN_SEEDS, later=True),
    ],
    "paper": [Grid(PAPER, {"task": ["C3", "C4"]}, seeds=range(15))],
}

CLAIMS = [
    Claim(
        "ood-falls-with-stages",
        "As the transformer internalizes more of the chain, its OOD accuracy falls away from its ID accuracy.",
        MeanBelowZero(group("runs"), "ood_gap_trend"),
    ),
    Claim(
        "ood-lower-at-the-end",
        "Once all is internalized, OOD accuracy is further below ID accuracy than with the whole chain.",
        MeanBelowZero(group("runs that internalize all"), "ood_gap_change"),
    ),
]


def ood_columns(row: FigureRow, run: Run) -> dict[str, Any]:
    """How the gap, OOD minus ID accuracy, goes over the stage ends at which ID accuracy is still a success.

    The gap and not OOD accuracy alone, which from its beginning at 100 % can only fall, as ID accuracy does.
    ood_gap_trend: Spearman's correlation of the gap with the stage.
    ood_gap_change: from the whole chain to no chain, if both ends were a success in distribution; else None.
    """
    ends: dict[int, dict[str, Any]] = {}
    for evaluation in run.metrics("evaluation"):
        ends[evaluation["stage"]] = evaluation  # the stage's last row stays
    kept = [end for end in ends.values() if end["id_accuracy"] > SUCCESS]
    gaps = {end["stage"]: end["ood_accuracy"] - end["id_accuracy"] for end in kept}
    enough = len(gaps) >= FEWEST_STAGES
    last = row["stages"]
    return {
        "ood_gap_trend": correlation(list(gaps), list(gaps.values())) if enough else None,
        "ood_gap_change": gaps[last] - gaps[1] if enough and {1, last} <= set(gaps) else None,
        "stages_kept": len(kept),
    }


def draw(material: Material) -> Drawing:
    """One run a task, as in the paper: of those that succeed, the one with the lowest seed."""
    tasks = list(dict.fromkeys(row["task"] for row in material.rows))
    figure, axes = new_figure(1, len(tasks), width=1 + 4.6 * len(tasks), height=3.9, squeeze=False, sharey=True)
    for axis, task in zip(axes[0], tasks, strict=True):
        rows = group("", task=task).of(material.rows)
        row = min(rows, key=lambda r: (not r["succeeded"], r["seed"]))
        accuracy_over_training(axis, material.evaluations(row), row["chance"])
        axis.set_title(f"{task}, T = {row['horizon']}, seed {row['seed']}")
        axis.set_ylabel("final-state accuracy" if axis is axes[0][0] else "")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


FIGURE = Figure(
    name="ood-degradation",
    paper="Figure 1, right",
    shows="ID and OOD accuracy over training while states are taken away",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Final-state accuracy over the left curriculum, in and out of distribution. At each dotted line one "
        "more state is no longer shown; strong lines join the ends of stages, faint ones all measurements; the "
        "flat line is chance. Drawn is the lowest seed that succeeds; the "
        "claim takes every run, at the stage ends where it still succeeds in distribution."
    ),
    claims=CLAIMS,
    notes=["The paper shows one run a task; more seeds are run here, since one run proves no trend."],
    columns_of_run=ood_columns,
)
