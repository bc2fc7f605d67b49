"""Appendix E: more attention heads, more success."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from internalize.display.charts import rate_lines
from internalize.display.plots import new_figure
from internalize.figures.cases import CELL, PAPER, PAPER_SEEDS, SMOKE, SMOKE_SEEDS, TEN_SEEDS, TOY, Grid, Tiers
from internalize.figures.claims import Claim, chain_learned
from internalize.figures.figure import DrawingMaterial, Figure
from internalize.figures.numbers import WithField
from internalize.figures.rows import group, rate

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

ALL = group("all runs")
CLAIMS = [
    Claim(
        "more-heads-more-success",
        "For a fixed width, increasing the number of heads consistently improves the success rate.",
        WithField(ALL, "model.heads", "succeeded", "rises", ("model.width", "model.depth")),
        chain_learned(ALL, by="model.heads"),
        headline=True,
    ),
]


def draw(material: DrawingMaterial) -> Drawing:
    """Success over heads on a logarithmic axis; a panel for each width, a line for each depth."""
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
        rate_lines(axis, series, "runs that succeed ID")
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
    notes=[
        "The paper says several depths and head counts; which ones, and T = 25, is our reading. Head "
        "counts whose runs do not even learn the chain in stage 1 are "
        "left out of the test: they have nothing to internalize."
    ],
)
