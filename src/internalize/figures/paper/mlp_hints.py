"""Figure 5, top: a network learns a noisy parity with hints that are taken away, or mixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from internalize.figures.cases import JUDGING_SEEDS, Grid, Tiers
from internalize.figures.claims import MOSTLY, Claim, PositiveControl
from internalize.figures.figure import Curve, DrawingMaterial, Figure, nothing_more
from internalize.figures.numbers import MeanBeyond
from internalize.figures.rates import RateAbove
from internalize.figures.rows import NEAR_CHANCE, FigureRow, group
from internalize.kinds.hints.config import HintsConfig, HintsEvaluation
from internalize.runs.folder import Run
from internalize.statistics import SUCCESS

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

METHODS = ("direct", "curriculum", "mixture")
SMOKE = HintsConfig(
    d=5,
    k=3,
    width=8,
    lr=0.02,
    steps=20,
    batch=8,
    log_every=10,
    evaluation=HintsEvaluation(every=10, samples=20, final_samples=40),
)

TIERS: Tiers = {
    "smoke": [Grid(SMOKE, {"method": METHODS})],
    "toy": [Grid(HintsConfig(preset="laptop"), {"method": METHODS}, seeds=range(12))],
    "laptop": [Grid(HintsConfig(preset="laptop"), {"method": METHODS}, seeds=range(200, 212))],
    "paper": [Grid(HintsConfig(preset="paper"), {"method": METHODS}, seeds=JUDGING_SEEDS)],
}

DIRECT, CURRICULUM, MIXTURE = (group(name, method=name) for name in METHODS)
LEARNS = PositiveControl("the curriculum learns the target without hints", CURRICULUM, "succeeded")
CLAIMS = [
    Claim(
        "direct-fails",
        "Direct training on the target parity fails.",
        MeanBeyond(DIRECT, "above_chance", "below", NEAR_CHANCE, by="d"),
        [LEARNS],
    ),
    Claim(
        "curriculum-succeeds",
        "Learning with hints and then internalizing succeeds in learning the target.",
        RateAbove(CURRICULUM, "succeeded", MOSTLY, by="d"),
        headline=True,
    ),
    Claim(
        "mixture-succeeds",
        "The mixture over all stages succeeds too.",
        RateAbove(MIXTURE, "succeeded", MOSTLY, by="d"),
    ),
    Claim(
        "subnetwork-predicts",
        "The subnetwork h(x) that reads the original bits alone is then the predictor.",
        RateAbove(CURRICULUM, "h_succeeded", MOSTLY, by="d"),
        [LEARNS],
    ),
    Claim(
        "folded-subnetwork-predicts",
        "h(x) predicts once the neutral hints are folded into its bias, as the bipolar form needs it (not in "
        "the paper).",
        RateAbove(CURRICULUM, "h_folded_succeeded", MOSTLY, by="d"),
        [LEARNS],
        ours=True,
    ),
    Claim(
        "subnetwork-of-the-mixture-predicts",
        "The subnetwork of the network that learns the mixture is a predictor, too (with the neutral hints "
        "folded in, which is not in the paper).",
        RateAbove(MIXTURE, "h_folded_succeeded", MOSTLY, by="d"),
        seen="added",
        ours=True,
    ),
]


def columns(row: FigureRow, cases: Sequence[FigureRow]) -> dict[str, Any]:
    """Of finished runs: accuracy above chance, and whether h(x) succeeds as defined and with hints folded
    in."""
    if "accuracy" not in row:
        return {}
    found = {"above_chance": row["accuracy"] - 0.5}
    return found | {
        name: row[accuracy] > SUCCESS
        for name, accuracy in (
            ("h_succeeded", "subnetwork_accuracy"),
            ("h_folded_succeeded", "folded_accuracy"),
        )
        if accuracy in row
    }


def accuracies(run: Run) -> Curve:
    """What the picture shows of a run."""
    return [{name: row[name] for name in ("step", "samples", "accuracy")} for row in run.metrics("evaluation")]


def draw(material: DrawingMaterial) -> Drawing:
    """Accuracy without hints over training samples, a line for each run."""
    from internalize.display.plots import draw_hint_accuracy

    first = material.rows[0]
    title = f"Parity of {first['k']} of {first['d']} bits"
    curves = {
        method: [[(point["samples"], point["accuracy"]) for point in material.curve(row)] for row in rows]
        for method in METHODS
        if (rows := group("", method=method, d=first["d"]).of(material.rows))
    }
    return draw_hint_accuracy(curves, first["label_noise"], title)


FIGURE = Figure(
    name="mlp-hints",
    paper="Figure 5, top",
    shows="a ReLU network learns a noisy parity: directly, with a curriculum of hints, with a mixture",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Accuracy without hints over training samples, one line for each run. A run succeeds with more than "
        "95 % on the clean label."
    ),
    claims=CLAIMS,
    notes=[
        "The paper runs three seeds, too few for a test to confirm anything. It sees every input 1.1 "
        "times; the "
        "laptop tier sees one in five once."
    ],
    columns=columns,
    columns_of_run=nothing_more,
    curve_of_run=accuracies,
)
