"""Figure 1, right: out-of-distribution accuracy falls while the words are taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from internalize.display.charts import accuracy_over_stages, below_chance, task_name
from internalize.display.plots import new_figure
from internalize.figures.cases import (
    CELL,
    FRESH_SEEDS,
    JUDGING_SEEDS,
    LONG_RECIPE,
    PAPER,
    SMOKE,
    SMOKE_SEEDS,
    TEN_SEEDS,
    TOY_ADAPTIVE,
    TOY_HORIZONS,
    Grid,
    Tiers,
    with_horizons,
)
from internalize.figures.claims import Claim, chain_learned
from internalize.figures.figure import Curve, DrawingMaterial, Figure
from internalize.figures.numbers import MeanBeyond
from internalize.figures.rows import FigureRow, chain_outcomes, group, stage_ends
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
        Grid(LONG_RECIPE, {"task": ["C3", "C4", "C5"]}, seeds=FRESH_SEEDS),
        Grid(CELL, {"method": ["left", "inductive"]}, seeds=TEN_SEEDS, later=True),
    ],
    "paper": [Grid(PAPER, {"task": ["C3", "C4"]}, seeds=JUDGING_SEEDS)],
}

LEFT = group("left", method="left", task=("C3", "C4", "C5"))
CLAIMS = [
    Claim(
        "ood-falls-with-stages",
        "As the transformer internalizes more of the chain, its OOD accuracy falls away from its ID accuracy.",
        MeanBeyond(LEFT, "ood_gap_trend", "below", by="task"),
        chain_learned(LEFT, by="task"),
        headline=True,
        # first at C_3 T=17, C_4 T=13 and C_5 T=12, where nothing was shown; then at T=25 on seeds 200 … 209,
        # where 10 runs of each task were too few for a second look
        looks=3,
    ),
]


def ood_columns(row: FigureRow, run: Run) -> dict[str, Any]:
    """ood_gap_trend: Spearman's correlation with the stage of OOD minus ID accuracy on the stage's own target.

    Over the stage ends before the run is lost. The gap and not OOD accuracy alone, which from its beginning at
    100 % can only fall, as ID accuracy does.
    """
    gaps: dict[int, float] = {}
    for stage, end in stage_ends(list(run.metrics("evaluation"))).items():
        if end["id_target_accuracy"] <= SUCCESS:
            break
        gaps[stage] = end["ood_target_accuracy"] - end["id_target_accuracy"]
    enough = len(gaps) >= FEWEST_STAGES
    trend = correlation(list(gaps), list(gaps.values())) if enough else None
    return {**chain_outcomes(row, run), "ood_gap_trend": trend, "stages_kept": len(gaps)}


def ends_of_stages(run: Run) -> Curve:
    """What the picture shows of a run."""
    ends = stage_ends(list(run.metrics("evaluation"))).values()
    shown = ("stage", "iteration", "id_target_accuracy", "ood_target_accuracy")
    return [{name: end[name] for name in shown} for end in ends]


def draw(material: DrawingMaterial) -> Drawing:
    """A panel for each task and curriculum, with every seed; faint where the trend of the claim has ended."""
    places = list(dict.fromkeys((row["task"], row["method"]) for row in material.rows))
    size = {"width": 1 + 4.2 * len(places), "height": 3.9}
    figure, axes = new_figure(1, len(places), squeeze=False, sharey=True, **size)
    for axis, (task, method) in zip(axes[0], places, strict=True):
        rows = group("", task=task, method=method).of(material.rows)
        ends = [material.curve(row) for row in rows]
        accuracy_over_stages(axis, ends, [row["stages_kept"] for row in rows], rows[0]["chance"])
        if method == "left":
            axis.set_xlabel("stage t: the answer begins with q$_t$")
        axis.set_title(f"{task_name(task)}, T = {rows[0]['horizon']}, {method}, {len(rows)} runs")
        axis.set_ylabel(axes[0][0].get_ylabel() if axis is axes[0][0] else "")
    axes[0][0].set_ylim(bottom=min(below_chance(row["chance"]) for row in material.rows))  # of all panels
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


FIGURE = Figure(
    name="ood-degradation",
    paper="Figure 1, right",
    shows="ID and OOD accuracy over training while states are taken away",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Accuracy on each stage's own target at its end, in and out of distribution, while states are "
        "taken away: a thin line for each run, a thick one for their median. A run counts in the claim's trend "
        "until its first stage that ends at 95 % or less in distribution; from there to the last stage that "
        "it passes its line is faint. The median is faint where fewer than half of the runs count."
    ),
    claims=CLAIMS,
    notes=[
        "The paper shows one run for each task, C_3 and C_4; more seeds are run here, since one run "
        "proves no trend.",
    ],
    columns_of_run=ood_columns,
    curve_of_run=ends_of_stages,
)
