"""Appendix E: removing states from the left or from the right, and whether absolute positions are to blame."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from internalize.display.charts import success_bars
from internalize.display.plots import new_figure
from internalize.figures.claims import Claim
from internalize.figures.comparison_tests import MoreOften
from internalize.figures.figure import Figure, Material
from internalize.figures.grids import Grid, Tiers
from internalize.figures.rate_tests import RateBelow, RateBetween
from internalize.figures.rows import group, rate
from internalize.figures.settings import (
    ADAPTIVE,
    CELL,
    JUDGING_SEEDS,
    PAPER,
    PAPER_SEEDS,
    SIX_SEEDS,
    SMALL_MODEL,
    SMOKE,
    SMOKE_SEEDS,
    TEN_SEEDS,
    TOY,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

LARGE_HEADS = replace(ADAPTIVE, iterations=20_000, model=replace(SMALL_MODEL, heads=8))
"""Heads of size 8, on which rotary positions can act; 20,000 iterations see less than a tenth of the inputs."""
TASKS = {"task": ["C2", "C3"], "horizon": [25, 16]}
METHODS = ("left", "inductive", "right")
OTHER_POSITIONS = ("rotary", "none")
POSITIONS = ("absolute", *OTHER_POSITIONS)
ABLATION = {"method": ("left", "right"), "model.positions": OTHER_POSITIONS}

TIERS: Tiers = {
    "smoke": [
        Grid(SMOKE, {"task": ["C2"], "method": METHODS}, seeds=SMOKE_SEEDS),
        Grid(SMOKE, {"task": ["C2"], **ABLATION}, seeds=SMOKE_SEEDS),
    ],
    "toy": [
        Grid(TOY, {"task": ["C2"], "method": METHODS}, seeds=range(10)),
        Grid(TOY, {"task": ["C2"], **ABLATION}, seeds=range(10)),
    ],
    "laptop": [
        Grid(CELL, {"method": ["left", "inductive"]}, seeds=JUDGING_SEEDS),
        Grid(CELL, {"method": ["right"]}, seeds=TEN_SEEDS),
        Grid(LARGE_HEADS, {"method": ["left", "right"], "model.positions": POSITIONS}, TASKS, seeds=SIX_SEEDS),
    ],
    "paper": [
        Grid(PAPER, {"task": ["C3", "C5", "C7"], "method": METHODS}, seeds=PAPER_SEEDS),
        Grid(PAPER, {"task": ["C3", "C5", "C7"], **ABLATION}, seeds=PAPER_SEEDS),
    ],
}

LEFT, INDUCTIVE, RIGHT = (group(name, method=name, model__positions="absolute") for name in METHODS)
LEFT_OF_THE_PAPER = group("left", method="left", model__positions="absolute", task=("C3", "C5", "C7"))
ROTARY = group("right, rotary", method="right", model__positions="rotary")
NO_POSITIONS = group("right, no positions", method="right", model__positions="none")

CLAIMS = [
    Claim(
        "left-above-right",
        "A curriculum that removes tokens from the right is strictly worse than one that goes from the left.",
        MoreOften(LEFT, RIGHT, "succeeded"),
    ),
    Claim(
        "inductive-above-right",
        "Removing from the right is strictly worse than the inductive curriculum.",
        MoreOften(INDUCTIVE, RIGHT, "succeeded"),
    ),
    Claim(
        "left-a-third",
        "The left curriculum succeeds approximately one third of the time.",
        # said of these tasks; on others it is not judged
        RateBetween(LEFT_OF_THE_PAPER, "succeeded", 1 / 3 - 0.2, 1 / 3 + 0.2),
    ),
    Claim("right-never", "The right curriculum failed in every case.", RateBelow(RIGHT, "succeeded", 1 / 3)),
    Claim(
        "rotary-mends-right",
        "The shortcoming of the right curriculum comes from absolute positions: rotary ones should mend it.",
        MoreOften(ROTARY, RIGHT, "succeeded"),
    ),
    Claim(
        "no-positions-mend-right",
        "The shortcoming of the right curriculum comes from absolute positions: having none should mend it.",
        MoreOften(NO_POSITIONS, RIGHT, "succeeded"),
    ),
]


def draw(material: Material) -> Drawing:
    """Left: the curricula for each task. Right: left and right for each position encoding, tasks pooled."""
    figure, (by_task, by_positions) = new_figure(1, 2, width=10.5, height=4.2, sharey=True)
    tasks = list(dict.fromkeys(row["task"] for row in material.rows))
    absolute = group("", model__positions="absolute").of(material.rows)
    series = {
        method: [rate(group("", task=task, method=method).of(absolute), "succeeded") for task in tasks]
        for method in METHODS
    }
    success_bars(by_task, tasks, series)
    by_task.set_title("absolute positions")
    kinds = ("absolute", *OTHER_POSITIONS)
    pooled = {
        method: [
            rate(group("", model__positions=kind, method=method).of(material.rows), "succeeded")
            for kind in kinds
        ]
        for method in METHODS
    }
    success_bars(by_positions, ["absolute", "rotary", "no positions"], pooled)
    by_positions.set(title="by position encoding, tasks pooled", ylabel="")
    figure.legend(*by_task.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


FIGURE = Figure(
    name="left-vs-right",
    paper="Appendix E, left against right",
    shows="curricula from the left, from the right and inductive; three position encodings",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Share of runs with more than 95 % final-state accuracy when states are removed from the left, from "
        "the right, or by growing leaps (inductive). The paper blames absolute positions for the failure of "
        "right, since the place of the hard step moves; the other two encodings test this (Wilson "
        "intervals, 95 %)."
    ),
    claims=CLAIMS,
    notes=["The runs with other position encodings are not in the paper."],
)
