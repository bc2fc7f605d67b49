"""Figure 2: chain of thought, end to end, and internalization by the left curriculum."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from internalize.display.charts import success_bars
from internalize.display.plots import PALETTE, new_figure
from internalize.figures.claims import Claim
from internalize.figures.comparison_tests import MoreOften, OftenWithout
from internalize.figures.figure import Figure, Material
from internalize.figures.grids import Grid, Tiers
from internalize.figures.rate_tests import OnItsSide, RateAbove, RateBelow
from internalize.figures.rows import group, rate
from internalize.figures.settings import (
    ADAPTIVE,
    CELL,
    HORIZONS,
    ONE_STAGE,
    PAPER,
    PAPER_SEEDS,
    S3_ITERATIONS,
    SMOKE,
    SMOKE_SEEDS,
    TEN_SEEDS,
    TOY_ADAPTIVE,
    TOY_HORIZONS,
    with_horizons,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

METHODS = {"cot": "CoT", "e2e": "E2E", "left": "left"}
PAPER_HORIZONS = (15, 20, 25)
OTHERS = ["C4", "C5", "C7", "C8", "C11", "S3"]
"""Tasks beyond C_2 and C_3; there the small model needs more than a plain curriculum."""

TIERS: Tiers = {
    "smoke": [Grid(SMOKE, {"task": ["C2", "C3"], "method": list(METHODS)}, seeds=SMOKE_SEEDS)],
    "toy": [
        Grid(
            TOY_ADAPTIVE,
            {"method": ["cot", "e2e", "left"]},
            with_horizons(["C2", "C3", "C5", "S3"], TOY_HORIZONS),
            seeds=range(6),
        )
    ],
    "laptop": [
        Grid(CELL, {"method": ["cot", "e2e", "left", "inductive"]}, seeds=TEN_SEEDS),
        Grid(ADAPTIVE, {"method": ["left"]}, seeds=TEN_SEEDS),
        Grid(ONE_STAGE, {"method": ["cot", "e2e"]}, seeds=TEN_SEEDS),
        Grid(ADAPTIVE, {"method": ["left"]}, with_horizons(OTHERS, HORIZONS), seeds=TEN_SEEDS, later=True),
        Grid(
            ONE_STAGE, {"method": ["cot", "e2e"]}, with_horizons(OTHERS, HORIZONS), seeds=TEN_SEEDS, later=True
        ),
    ],
    "paper": [
        Grid(
            PAPER,
            {"task": ["C2", "C3", "C5", "C7", "C18"], "horizon": PAPER_HORIZONS, "method": list(METHODS)},
            seeds=PAPER_SEEDS,
        ),
        Grid(
            replace(PAPER, task="S3", iterations=S3_ITERATIONS),
            {"horizon": PAPER_HORIZONS, "method": list(METHODS)},
            seeds=PAPER_SEEDS,
        ),
    ],
}

COT, E2E, LEFT = group("CoT", method="cot"), group("E2E", method="e2e"), group("left", method="left")
COUNTERS = ("prime", "prime power", "other composite")

CLAIMS = [
    Claim("e2e-fails", "E2E training fails.", RateBelow(E2E, "succeeded", 1 / 3)),
    Claim("cot-succeeds", "CoT training succeeds in distribution.", RateAbove(COT, "succeeded", 2 / 3)),
    Claim(
        "cot-succeeds-ood", "CoT training succeeds out of distribution.", RateAbove(COT, "ood_succeeded", 2 / 3)
    ),
    Claim(
        "left-internalizes",
        "The left curriculum often succeeds in distribution without any intermediate token.",
        MoreOften(LEFT, E2E, "internalized"),
    ),
    Claim(
        "left-ood-below-cot",
        "The OOD success rates of internalization are much lower than those of CoT training.",
        MoreOften(COT, LEFT, "ood_succeeded"),
    ),
    Claim(
        "left-loses-ood",
        "Internalized models that succeed in distribution often fail out of it.",
        OftenWithout(LEFT, "succeeded", "ood_succeeded"),
    ),
    Claim(
        "nearly-binary",
        "Internalization runs are effectively binary: solid accuracy or chance.",
        RateBelow(LEFT, "in_the_middle", 1 / 3),
    ),
    Claim(
        "order-does-not-matter",
        "The order of the counter does not affect whether CoT or E2E training learns.",
        OnItsSide(
            group("CoT", method="cot", order_kind=COUNTERS),
            group("E2E", method="e2e", order_kind=COUNTERS),
            "succeeded",
            "task",
        ),
    ),
]


def draw(material: Material) -> Drawing:
    """Success rates ID and OOD, and the length of the answers; a cluster a task and horizon."""
    places = list(dict.fromkeys((row["task"], row["horizon"]) for row in material.rows))
    names = [f"{task}\nT={horizon}" for task, horizon in places]
    figure, axes = new_figure(3, 1, width=max(6.5, 0.7 * len(places) + 2), height=8.2, sharex=True)
    for axis, (outcome, title) in zip(
        axes[:2],
        (("succeeded", "in distribution"), ("ood_succeeded", "out of distribution")),
        strict=True,
    ):
        series = {
            label: [
                rate(group("", task=task, horizon=horizon, method=method).of(material.rows), outcome)
                for task, horizon in places
            ]
            for method, label in METHODS.items()
        }
        success_bars(axis, names, series, counts=len(places) <= 6)
        axis.set_title(title)
    axes[0].legend(loc="upper center", bbox_to_anchor=(0.5, 1.28), ncols=3)
    for i, (method, label) in enumerate(METHODS.items()):
        means = []
        for task, horizon in places:
            rows = group("", task=task, horizon=horizon, method=method).of(material.rows)
            means.append(sum(row["response_length"] for row in rows) / len(rows) if rows else 0.0)
        xs = [place + (i - 1) * 0.8 / 3 for place in range(len(places))]
        axes[2].vlines(xs, 0, means, color=PALETTE[i], linewidth=2)
        axes[2].scatter(xs, means, color=PALETTE[i], marker="osv"[i], s=36, label=label, zorder=3)
    axes[2].set(title="tokens of an answer, EOS included", ylabel="tokens", ylim=(0, None))
    axes[2].set_xticks(range(len(places)), names)
    axes[2].tick_params(labelbottom=True)
    return figure


FIGURE = Figure(
    name="methods",
    paper="Figure 2",
    shows="CoT, E2E and internalization: success ID and OOD, and tokens",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Chain of thought (CoT), end to end (E2E) and internalization by the left curriculum: the share of "
        "runs with more than 95 % final-state accuracy, in distribution and out of it (Wilson intervals, "
        "95 %), and the mean length of the answers."
    ),
    claims=CLAIMS,
    notes=["The paper names S_3 and speaks of C_2, C_7 and C_18; which others it ran is our reading."],
)
