"""Figure 5, top: a network learns a noisy parity with hints that are taken away, or mixed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from internalize.figures.claims import Claim
from internalize.figures.derived import no_columns
from internalize.figures.figure import Figure, Material
from internalize.figures.grids import Grid, Tiers
from internalize.figures.rate_tests import RateAbove, RateBelow
from internalize.figures.rows import group
from internalize.kinds.hints.config import HintsConfig, HintsEvaluation

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
    "laptop": [
        Grid(HintsConfig(preset="laptop"), {"method": METHODS}, seeds=range(200, 212)),
        Grid(HintsConfig(preset="paper"), {"method": METHODS}, seeds=[200], later=True),
    ],
    "paper": [Grid(HintsConfig(preset="paper"), {"method": METHODS}, seeds=range(15))],
}

DIRECT, CURRICULUM, MIXTURE = (group(name, method=name) for name in METHODS)
CLAIMS = [
    Claim("direct-fails", "Direct training on the target parity fails.", RateBelow(DIRECT, "succeeded", 1 / 3)),
    Claim(
        "curriculum-succeeds",
        "Learning with hints and then internalizing succeeds in learning the target.",
        RateAbove(CURRICULUM, "succeeded", 2 / 3),
    ),
    Claim(
        "mixture-succeeds",
        "The mixture over all stages succeeds too.",
        RateAbove(MIXTURE, "succeeded", 2 / 3),
    ),
]


def draw(material: Material) -> Drawing:
    """Accuracy without hints over training samples: a line the mean over seeds, a band from least to most."""
    from internalize.display.learning_curves import draw_hint_accuracy
    from internalize.kinds.hints.comparing import curve_rows, curves, in_order

    first = material.rows[0]
    runs = in_order([material.run(row) for row in material.rows])
    title = f"Parity of {first['k']} of {first['d']} bits"
    return draw_hint_accuracy(curves(curve_rows(runs)), first["label_noise"], title)


FIGURE = Figure(
    name="mlp-hints",
    paper="Figure 5, top",
    shows="a ReLU network learns a noisy parity: directly, with a curriculum of hints, with a mixture",
    tiers=TIERS,
    draw=draw,
    caption=(
        "Accuracy without hints over training samples, the mean over seeds and the range between the worst and "
        "the best. A run succeeds with more than 95 % on the clean label."
    ),
    claims=CLAIMS,
    notes=[
        "The paper runs three seeds, too few for a test to confirm anything. At the laptop tier ten seeds were "
        "planned and two more added when most had been seen: with ten, all alike, each p would be 0.10."
    ],
    columns=no_columns,
)
