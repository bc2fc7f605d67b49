"""Theorem 1 at work: a hidden parity learned out loud and internalized, every quantity of the proof watched."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from internalize.figures.claims import Claim
from internalize.figures.derived import no_columns
from internalize.figures.figure import Figure, Material
from internalize.figures.grids import Grid, Tiers
from internalize.figures.rate_tests import RateAbove, RateBelow
from internalize.figures.rows import group
from internalize.figures.settings import JUDGING_SEEDS
from internalize.kinds.parity.config import ParityConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

SIZES = {"d": [8, 12, 16, 20], "k": [3, 5, 7, 9]}
GRID = Grid(ParityConfig(), zipped=SIZES, seeds=range(15))

TIERS: Tiers = {
    "smoke": [Grid(ParityConfig(d=6, k=3, contrast=False))],
    "laptop": [replace(GRID, seeds=JUDGING_SEEDS)],
    "paper": [GRID],
}

ALL = group("all runs")
CLAIMS = [
    Claim(
        "learns-the-chain",
        "After phase 1 the model writes the whole chain, right on every input.",
        RateAbove(ALL, "chain_exact", 2 / 3),
    ),
    Claim(
        "answers-at-once",
        "After phase k one step gives the parity of every input.",
        RateAbove(ALL, "exact", 2 / 3),
    ),
    Claim(
        "internalizes-strictly",
        "The final weights internalize the chain in the strict sense of the definition.",
        RateAbove(ALL, "internalized", 2 / 3),
    ),
    Claim(
        "direct-training-fails",
        "Learning the parity directly, without the chain, fails.",
        RateBelow(ALL, "direct_training_exact", 1 / 3),
    ),
]


def draw(material: Material) -> Drawing:
    """The watch of the largest size's lowest seed."""
    from internalize.kinds.parity.drawing import draw_watch

    row = min(material.rows, key=lambda r: (-r["d"], r["seed"]))
    return draw_watch(material.evaluations(row))


FIGURE = Figure(
    name="parity-watch",
    paper="Theorem 1 and its lemmas",
    shows="every quantity of the proof beside its bound, phase by phase",
    tiers=TIERS,
    draw=draw,
    caption=(
        "The quantities of the proof after every phase, for the largest size and the lowest seed: bounds that "
        "fail do so while recovery is exact. The claims are judged over all sizes and seeds."
    ),
    claims=CLAIMS,
    notes=["The theorem leaves its constants open; ours are those of docs/parity.md, with far fewer examples."],
    columns=no_columns,
)
