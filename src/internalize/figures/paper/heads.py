"""Appendix E: more attention heads, more success."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from internalize.display.charts import rate_lines
from internalize.display.plots import new_figure
from internalize.figures.claims import Claim
from internalize.figures.comparison_tests import MoreOften
from internalize.figures.derived import chain_columns
from internalize.figures.figure import Figure, Material
from internalize.figures.grids import Grid, Tiers
from internalize.figures.rows import FigureRow, group, rate
from internalize.figures.settings import CELL, PAPER, PAPER_SEEDS, SMOKE, SMOKE_SEEDS, TEN_SEEDS, TOY
from internalize.figures.trend_tests import WithField

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

SMALL_PAPER = replace(PAPER, task="C2", method="inductive")
TIERS: Tiers = {
    "smoke": [Grid(SMOKE, {"model.heads": [1, 4]}, seeds=SMOKE_SEEDS)],
    "toy": [Grid(TOY, {"method": ["inductive"], "model.heads": [1, 2, 8, 32]}, seeds=range(6))],
    "laptop": [Grid(CELL, {"method": ["inductive"], "model.heads": [1, 4, 16, 32]}, seeds=TEN_SEEDS)],
    "paper": [
        Grid(
            SMALL_PAPER,
            {"model.width": [64], "model.depth": [1, 2, 4], "model.heads": [1, 2, 4, 8, 16, 32, 64]},
            seeds=PAPER_SEEDS,
        ),
        Grid(
            SMALL_PAPER,
            {"model.width": [128], "model.depth": [1, 2, 4], "model.heads": [1, 2, 4, 8, 16, 32, 64, 128]},
            seeds=PAPER_SEEDS,
        ),
    ],
}

CLAIMS = [
    Claim(
        "more-heads-more-success",
        "For a fixed width, increasing the number of heads consistently improves the success rate.",
        WithField(group("all runs"), "model.heads", "succeeded", "rises", ("model.width", "model.depth")),
    ),
    Claim(
        "many-above-one",
        "The number of attention heads is highly important: heads of size two against a single head.",
        MoreOften(group("heads of size 2", head_size=2), group("one head", model__heads=1), "succeeded"),
    ),
]


def columns(row: FigureRow, cases: Sequence[FigureRow]) -> dict[str, Any]:
    return {**chain_columns(row, cases), "head_size": row["model.width"] // row["model.heads"]}


def draw(material: Material) -> Drawing:
    """Success over heads on a logarithmic axis; a panel a width, a line a depth."""
    widths = sorted({row["model.width"] for row in material.rows})
    figure, axes = new_figure(
        1, len(widths), width=1.5 + 4.2 * len(widths), height=3.9, squeeze=False, sharey=True
    )
    for axis, width in zip(axes[0], widths, strict=True):
        here = group("", model__width=width).of(material.rows)
        series = {}
        for depth in sorted({row["model.depth"] for row in here}):
            at_depth = group("", model__depth=depth).of(here)
            heads = sorted({row["model.heads"] for row in at_depth})
            series[f"depth {depth}"] = [
                (count, rate(group("", model__heads=count).of(at_depth), "succeeded")) for count in heads
            ]
        rate_lines(axis, series)
        counts = sorted({row["model.heads"] for row in here})
        axis.set_xticks(counts, [str(count) for count in counts])
        axis.set(title=f"width {width}", xlabel="attention heads")
        axis.legend(loc="upper left")
    return figure


FIGURE = Figure(
    name="heads",
    paper="Appendix E, number of heads",
    shows="success over the number of attention heads at a fixed width",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Share of runs on C_2 with more than 95 % final-state accuracy against the number of attention heads, "
        "which share a fixed width; the MLP is four times as wide (Wilson intervals, 95 %)."
    ),
    claims=CLAIMS,
    notes=["The paper says several depths and head counts; which ones, and T = 25, is our reading."],
    columns=columns,
)
