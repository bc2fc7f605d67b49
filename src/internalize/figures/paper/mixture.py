"""Figure 5, bottom: one model, trained on a mixture of lengths, answers at once or with the whole chain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from internalize.curricula import ScheduleConfig
from internalize.display.charts import success_bars, task_name
from internalize.display.plots import new_figure
from internalize.figures.cases import (
    ADAPTIVE,
    HORIZONS,
    PAPER,
    PAPER_SEEDS,
    SMOKE,
    SMOKE_SEEDS,
    TEN_SEEDS,
    TOY_ADAPTIVE,
    TOY_HORIZONS,
    Grid,
    Tiers,
    with_horizons,
)
from internalize.figures.figure import EXISTS, Claim, DrawingMaterial, Figure, succeeds_first
from internalize.figures.rates import MoreOften, OftenWithout, RateAbove
from internalize.figures.rows import group, rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

METHODS = ("mixture", "left")
TOY_SAMPLES = replace(TOY_ADAPTIVE, iterations=10_000, schedule=ScheduleConfig())
EQUAL_SAMPLES = replace(ADAPTIVE, schedule=ScheduleConfig())
"""Fixed stages: a run that stops when it has learned would have seen fewer samples."""
TIERS: Tiers = {
    "smoke": [Grid(SMOKE, {"task": ["C2"], "method": METHODS}, seeds=SMOKE_SEEDS)],
    "toy": [
        Grid(TOY_SAMPLES, {"method": METHODS}, with_horizons(["C5"], TOY_HORIZONS), seeds=range(10, 20)),
    ],
    "laptop": [
        Grid(
            EQUAL_SAMPLES,
            {"method": METHODS},
            with_horizons(["C3", "C4"], HORIZONS),
            seeds=TEN_SEEDS,
            later=True,
        )
    ],
    "paper": [Grid(PAPER, {"task": ["C3", "C5", "C7"], "method": METHODS}, seeds=PAPER_SEEDS)],
}

MIXTURE, CURRICULUM = group("mixture", method="mixture"), group("curriculum", method="left")
MIXTURE_THAT_ANSWERS = group("mixture that succeeds ID at once", method="mixture", succeeded=True)
"""A direct answer that was never learned loses nothing out of distribution."""

CLAIMS = [
    Claim(
        "one-model-learns-both",
        "A single model trained on the mixture can both answer directly and generate the full chain.",
        RateAbove(MIXTURE, "both_succeeded", EXISTS, by="task"),
        headline=True,
    ),
    Claim(
        "chain-keeps-ood",
        "With the full chain the mixture model recovers OOD performance, the curriculum model does not.",
        MoreOften(
            group("mixture, full chain", method="mixture"),
            CURRICULUM,
            "chain_ood_succeeded",
            outcome_of_less="ood_succeeded",
            strata="task",
        ),
        [succeeds_first(CURRICULUM, by="task")],
    ),
    Claim(
        "chain-above-direct-ood",
        "The same model does better out of distribution with the full chain than when it answers directly.",
        OftenWithout(MIXTURE_THAT_ANSWERS, "chain_ood_succeeded", "ood_succeeded"),
        [succeeds_first(MIXTURE, by="task")],
    ),
]

WAYS = {
    "mixture, full chain": ("mixture", "chain_succeeded", "chain_ood_succeeded"),
    "mixture, direct": ("mixture", "succeeded", "ood_succeeded"),
    "curriculum (left), direct": ("left", "succeeded", "ood_succeeded"),
}
"""How a model is asked: which runs, and the names of its results ID and OOD."""


def draw(material: DrawingMaterial) -> Drawing:
    tasks = list(dict.fromkeys(row["task"] for row in material.rows))
    figure, axes = new_figure(1, 2, width=max(8.0, 3 + 2.2 * len(tasks)), height=4.0, sharey=True)
    for i, (axis, title) in enumerate(zip(axes, ("in distribution", "out of distribution"), strict=True)):
        series = {
            way: [rate(group("", task=task, method=names[0]).of(material.rows), names[1 + i]) for task in tasks]
            for way, names in WAYS.items()
        }
        success_bars(axis, [task_name(task) for task in tasks], series)
        axis.set_title(title)
    axes[1].set_ylabel("")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


FIGURE = Figure(
    name="mixture",
    paper="Figure 5, bottom",
    shows="a mixture model asked for the whole chain and for a direct answer, beside the curriculum",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Share of seeds with more than 95 % final-state accuracy. The mixture model is told the length of its "
        "answer by a token: LEN_{T+1} asks for the full chain, LEN_2 for a direct answer. The curriculum model "
        "saw as many samples (Wilson intervals, 95 %)."
    ),
    claims=CLAIMS,
    notes=["The paper does not say which counters; ours are those of its other figures."],
)
