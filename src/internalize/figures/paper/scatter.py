"""Figure 4: final accuracy in distribution against out of distribution, run by run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from internalize.display.charts import accuracy_scatter
from internalize.display.plots import new_figure
from internalize.figures.claims import Claim
from internalize.figures.comparison_tests import MoreOften
from internalize.figures.derived import chain_columns
from internalize.figures.figure import Figure, Material
from internalize.figures.grids import Grid, Tiers
from internalize.figures.rate_tests import EXISTS, RateAbove, RateBelow
from internalize.figures.rows import FigureRow, group
from internalize.figures.settings import (
    ADAPTIVE,
    CELL,
    HORIZONS,
    JUDGING_SEEDS,
    PAPER,
    PAPER_SEEDS,
    SMOKE,
    SMOKE_SEEDS,
    TEN_SEEDS,
    TOY,
    TOY_ADAPTIVE,
    TOY_HORIZONS,
    with_horizons,
)
from internalize.figures.trend_tests import WithField
from internalize.models.gpt2 import ModelConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

NARROW = replace(PAPER, task="C2", model=ModelConfig(depth=1, width=64, heads=32))
WIDE = replace(PAPER, task="C3", model=ModelConfig(depth=1, width=2048, heads=512))

TIERS: Tiers = {
    "smoke": [
        Grid(SMOKE, {"model.depth": [1, 2]}, seeds=SMOKE_SEEDS),
        Grid(SMOKE, {"method": ["left", "inductive"]}, seeds=SMOKE_SEEDS),
        Grid(SMOKE, {"task": ["C3"]}, seeds=SMOKE_SEEDS),
    ],
    "toy": [
        Grid(TOY, {"method": ["inductive"], "model.depth": [1, 2]}, seeds=range(10, 20)),
        Grid(TOY, {"method": ["left"]}, seeds=range(10, 20)),
        Grid(
            TOY_ADAPTIVE,
            {"model.depth": [1, 2]},
            with_horizons(["C3", "C5"], TOY_HORIZONS),
            seeds=range(10, 20),
        ),
    ],
    "laptop": [
        Grid(CELL, {"method": ["inductive"], "model.depth": [1, 2]}, seeds=JUDGING_SEEDS),
        Grid(CELL, {"method": ["left"]}, seeds=JUDGING_SEEDS),
        Grid(
            ADAPTIVE,
            {"model.depth": [1, 2]},
            with_horizons(["C3", "C5"], HORIZONS),
            seeds=TEN_SEEDS,
            later=True,
        ),
    ],
    "paper": [
        Grid(NARROW, {"model.depth": [1, 2, 4], "method": ["inductive"]}, seeds=PAPER_SEEDS),
        Grid(WIDE, {"method": ["inductive"]}, seeds=PAPER_SEEDS),
        Grid(PAPER, {"task": ["C3", "C5"], "model.depth": [4, 10]}, seeds=PAPER_SEEDS),
        Grid(NARROW, {"method": ["left"]}, seeds=PAPER_SEEDS),
        Grid(WIDE, {"method": ["left"]}, seeds=PAPER_SEEDS),
    ],
}

CLAIMS = [
    Claim(
        "id-does-not-imply-ood",
        "Succeeding in distribution does not imply good performance out of distribution.",
        RateAbove(group("runs that succeed ID", succeeded=True), "ood_failed", EXISTS),
    ),
    Claim(
        "depth-helps-ood-of-c2",
        "For C_2, increasing depth has a positive effect on OOD performance.",
        WithField(
            group("inductive C_2 runs that succeed ID", task="C2", method="inductive", succeeded=True),
            "model.depth",
            "ood_accuracy",
            number=True,
        ),
    ),
    Claim(
        "deep-stays-weak-beyond-c2",
        "For the other counters the OOD weakness persists even for deeper networks.",
        RateBelow(
            group("deepest runs beyond C_2 that succeed ID", beyond_c2=True, deepest=True, succeeded=True),
            "ood_succeeded",
            1 / 2,
        ),
    ),
    Claim(
        "depth-one-suffices",
        "Internalization can succeed even with transformers of depth 1.",
        RateAbove(group("depth 1", model__depth=1), "internalized", EXISTS),
    ),
    Claim(
        "inductive-beats-left-at-depth-one",
        "At depth 1 the inductive curriculum achieves stronger internalization than left.",
        MoreOften(
            group("inductive at depth 1", model__depth=1, method="inductive", both_methods=True),
            group("left at depth 1", model__depth=1, method="left", both_methods=True),
            "internalized",
        ),
    ),
]


def columns(row: FigureRow, cases: Sequence[FigureRow]) -> dict[str, Any]:
    """beyond_c2; deepest: of its task's cases; both_methods: both curricula are run on its task and shape."""
    of_task = [case for case in cases if case["task"] == row["task"]]
    alike = [case for case in of_task if _shape(case) == _shape(row)]
    return {
        **chain_columns(row, cases),
        "beyond_c2": row["task"] != "C2",
        "deepest": row["model.depth"] == max(case["model.depth"] for case in of_task),
        "both_methods": {case["method"] for case in alike} >= {"left", "inductive"},
    }


def _shape(row: FigureRow) -> list[Any]:
    return [row[f"model.{name}"] for name in ("depth", "width", "heads")]


def draw(material: Material) -> Drawing:
    """A panel a task, a marker a depth and curriculum."""
    tasks = list(dict.fromkeys(row["task"] for row in material.rows))
    ordered = sorted(material.rows, key=lambda r: (r["model.depth"], r["method"]))
    names = list(dict.fromkeys(_series(row) for row in ordered))
    figure, axes = new_figure(1, len(tasks), width=0.8 + 3.9 * len(tasks), height=4.6, squeeze=False)
    handles: dict[str, Any] = {}
    for axis, task in zip(axes[0], tasks, strict=True):
        rows = group("", task=task).of(ordered)
        series: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            series.setdefault(_series(row), []).append((row["id_accuracy"], row["ood_accuracy"]))
        accuracy_scatter(axis, series, names, rows[0]["chance"])
        axis.set_title(task)
        marks, labels = axis.get_legend_handles_labels()
        handles |= dict(zip(labels, marks, strict=True))
    figure.legend(
        [handles[name] for name in names], names, loc="outside upper center", ncols=min(5, len(names))
    )
    return figure


def _series(row: FigureRow) -> str:
    return f"depth {row['model.depth']}, {row['method']}"


FIGURE = Figure(
    name="scatter",
    paper="Figure 4",
    shows="final ID against OOD accuracy of every run, by depth",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Final accuracy in distribution against out of distribution, a point a run. Dashed: the bar of 95 %; "
        "dotted: chance; a point below the diagonal does worse out of distribution. Inset: the upper corner."
    ),
    claims=CLAIMS,
    notes=["T = 25 and the depths of C_2 are our reading of the paper."],
    columns=columns,
)
