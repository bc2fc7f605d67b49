"""Figure 4: final accuracy in distribution against out of distribution, run by run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from internalize.display.charts import accuracy_scatter, task_name
from internalize.display.plots import INK, MARKERS, PALETTE, new_figure
from internalize.figures.cases import (
    CELL,
    JUDGING_SEEDS,
    LONG_RECIPE,
    PAPER,
    PAPER_SEEDS,
    SMOKE,
    SMOKE_SEEDS,
    TEN_SEEDS,
    TOY,
    TOY_ADAPTIVE,
    TOY_HORIZONS,
    Grid,
    Tiers,
    with_horizons,
)
from internalize.figures.claims import EXISTS, Claim, chain_learned, succeeds_first
from internalize.figures.figure import DrawingMaterial, Figure
from internalize.figures.numbers import MeanBeyond, WithField
from internalize.figures.rates import MoreOften, RateAbove
from internalize.figures.rows import FigureRow, chain_columns, group
from internalize.models.config import ModelConfig

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
        Grid(LONG_RECIPE, {"task": ["C3", "C5"]}, seeds=TEN_SEEDS),
        Grid(LONG_RECIPE, {"model.depth": [2], "task": ["C3", "C5"]}, seeds=TEN_SEEDS, later=True),
    ],
    "paper": [
        Grid(NARROW, {"model.depth": [1, 2, 4], "method": ["inductive"]}, seeds=PAPER_SEEDS),
        Grid(WIDE, {"method": ["inductive"]}, seeds=PAPER_SEEDS),
        Grid(PAPER, {"task": ["C3", "C5"], "model.depth": [4, 10]}, seeds=PAPER_SEEDS),
        Grid(NARROW, {"method": ["left"]}, seeds=PAPER_SEEDS, ours=True),
        Grid(WIDE, {"method": ["left"]}, seeds=PAPER_SEEDS, ours=True),
    ],
}

INDUCTIVE = group("inductive C_2 runs", task="C2", method="inductive")
ON_C2 = group("C_2 runs", task="C2")
ON_C2_THROUGH = group("C_2 runs that succeed ID", task="C2", succeeded=True)
DEEP = group("deepest runs beyond C_2", beyond_c2=True, deepest=True, deep=True)
SHALLOW_INDUCTIVE = group("inductive at depth 1", model__depth=1, method="inductive", both_methods=True)
SHALLOW_LEFT = group("left at depth 1", model__depth=1, method="left", both_methods=True)

CLAIMS = [
    Claim(
        "id-does-not-imply-ood",
        "Succeeding in distribution does not imply good performance out of distribution (C_2).",
        RateAbove(ON_C2_THROUGH, "ood_failed", EXISTS),
        [succeeds_first(ON_C2)],
        seen="changed",  # in what OOD accuracy is: docs/figures.md
    ),
    Claim(
        "id-does-not-imply-ood-beyond-c2",
        "The same for the other counters, C_3 and C_5, at depth 1.",
        RateAbove(
            group("runs that succeed ID", beyond_c2=True, model__depth=1, succeeded=True),
            "ood_failed",
            EXISTS,
            by="task",
        ),
        [succeeds_first(group("runs", beyond_c2=True, model__depth=1), by="task")],
        seen="added",  # they are the runs of `methods`
    ),
    Claim(
        "id-does-not-imply-ood-in-deeper-models",
        "The same for C_3 and C_5 in deeper models.",
        RateAbove(
            group("deeper runs that succeed ID", beyond_c2=True, deeper=True, succeeded=True),
            "ood_failed",
            EXISTS,
            by="task",
        ),
        [succeeds_first(group("deeper runs", beyond_c2=True, deeper=True), by="task")],
    ),
    Claim(
        "depth-helps-ood-of-c2",
        "For C_2, increasing depth has a positive effect on OOD performance.",
        WithField(
            group("inductive C_2 runs that succeed ID", task="C2", method="inductive", succeeded=True),
            "model.depth",
            "ood_gap",
            "falls",
            number=True,
        ),
        [succeeds_first(INDUCTIVE, by="model.depth")],
    ),
    Claim(
        "deep-stays-weak-beyond-c2",
        "For the other counters the OOD weakness persists even for deeper networks.",
        MeanBeyond(
            group("deepest runs beyond C_2 that succeed ID", **dict(DEEP.where), succeeded=True),
            "ood_gap",
            "above",
            by="task",
        ),
        [succeeds_first(DEEP, by="task")],
    ),
    Claim(
        "depth-one-suffices",
        "Internalization can succeed even with transformers of depth 1.",
        RateAbove(
            group("inductive at depth 1", model__depth=1, method="inductive"), "internalized", EXISTS, by="task"
        ),
        headline=True,
    ),
    Claim(
        "inductive-beats-left-at-depth-one",
        "At depth 1 the inductive curriculum achieves stronger internalization than left.",
        MoreOften(SHALLOW_INDUCTIVE, SHALLOW_LEFT, "internalized", strata="task"),
        chain_learned(SHALLOW_INDUCTIVE, SHALLOW_LEFT, by="task"),
        headline=True,
    ),
]


FEWEST_DEEP = 4
"""Layers from which on the paper calls a network deep."""


def columns(row: FigureRow, cases: Sequence[FigureRow]) -> dict[str, Any]:
    """beyond_c2; deeper: than one layer; deepest: of its task's cases; both_methods: both curricula are run on
    its task and shape."""
    of_task = [case for case in cases if case["task"] == row["task"]]
    alike = [case for case in of_task if _shape(case) == _shape(row)]
    return {
        **chain_columns(row, cases),
        "beyond_c2": row["task"] != "C2",
        "deeper": row["model.depth"] > 1,
        "deepest": row["model.depth"] == max(case["model.depth"] for case in of_task),
        "deep": row["model.depth"] >= FEWEST_DEEP,
        "both_methods": {case["method"] for case in alike} >= {"left", "inductive"},
    }


def _shape(row: FigureRow) -> list[Any]:
    return [row[f"model.{name}"] for name in ("depth", "width", "heads")]


Points = Sequence[tuple[float, float, str, str]]
"""Of each run its ID accuracy, its OOD accuracy, its colour and its marker."""
CORNER = 0.85
"""Where a panel begins low, what is above this is drawn once more: most runs that learn at all end there."""
HIGH = 0.7
"""A panel that begins here or above needs no second one."""


def draw(material: DrawingMaterial) -> Drawing:
    """A panel for each task, from its worst run on, and where that is low one of the upper corner; a colour for
    each depth, a marker for each method."""
    tasks = list(dict.fromkeys(row["task"] for row in material.rows))
    depths = sorted({row["model.depth"] for row in material.rows})
    methods = list(dict.fromkeys(row["method"] for row in material.rows))
    colours = {depth: PALETTE[i % len(PALETTE)] for i, depth in enumerate(depths)}
    markers = {method: MARKERS[i % len(MARKERS)] for i, method in enumerate(methods)}
    panels = []
    for task in tasks:
        rows = group("", task=task).of(material.rows)
        points = [
            (row["id_accuracy"], row["ood_judged"], colours[row["model.depth"]], markers[row["method"]])
            for row in rows
        ]
        low = _low_end(points, rows[0]["chance"])
        name = f"{task_name(task)}, T = {rows[0]['horizon']}, {len(rows)} runs"
        panels.append((points, rows[0]["chance"], low, f"{name}\n{_above_the_bar(rows)}"))
        inside = sum(min(x, y) >= CORNER for x, y, _, _ in points)
        if inside and low < HIGH:
            title = f"{task_name(task)}, the upper corner:\n{inside} of the {len(rows)} runs"
            panels.append((points, rows[0]["chance"], CORNER, title))
    size = {"width": 0.8 + 3.5 * len(panels), "height": 4.3}
    figure, axes = new_figure(1, len(panels), squeeze=False, **size)
    for axis, (points, chance, low, title) in zip(axes[0], panels, strict=True):
        accuracy_scatter(axis, points, chance, low)
        axis.set_title(title, fontsize=9)
    entries = _legend(colours, markers)
    figure.legend(handles=entries, loc="outside upper center", ncols=min(len(entries), 2 * len(panels)))
    return figure


def _low_end(points: Points, chance: float) -> float:
    """Below chance where a run ends near it, else a step of 5 points below the worst run."""
    worst = min(min(x, y) for x, y, _, _ in points)
    return max(0.0, min(chance, worst) - 0.15 if worst < chance + 0.2 else math.floor(20 * worst - 0.5) / 20)


def _above_the_bar(rows: Sequence[FigureRow]) -> str:
    """Counted, since marks in one place hide each other."""
    both = sum(row["succeeded"] and row["ood_succeeded"] for row in rows)
    alone = sum(bool(row["succeeded"]) for row in rows) - both
    told = f"above 95 %: {both} ID and OOD, {alone} ID alone"
    near = sum(bool(row["near_chance"]) for row in rows)
    return f"{told}; {near} near chance" if near else told


def _legend(colours: dict[int, str], markers: dict[str, str]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    style: dict[str, Any] = {"linestyle": "none", "markersize": 7}
    return [
        *(Patch(color=colour, label=f"depth {depth}") for depth, colour in colours.items()),
        *(
            Line2D([], [], marker=marker, color=INK, fillstyle="none", label=method, **style)
            for method, marker in markers.items()
        ),
    ]


FIGURE = Figure(
    name="scatter",
    paper="Figure 4",
    shows="final ID against OOD accuracy of every run, by depth",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Final accuracy in distribution against out of distribution, one open mark for each run; how many "
        "are above 95 % is counted, since marks in one place hide each other, and so is how many are within "
        "10 points of chance. Axes begin below the worst run of a task. Where that is far down, the upper "
        "corner is drawn once more. Dashed: the bar of 95 %; dotted: chance; a run below the diagonal does "
        "worse out of distribution."
    ),
    claims=CLAIMS,
    notes=[
        "T = 25 and the depths of C_2 are our reading of the paper. OOD accuracy of C_2 is that on all inputs, "
        "held out or not (docs/figures.md)."
    ],
    columns=columns,
)
