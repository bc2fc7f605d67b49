"""Appendix D: the attention of the theorem's layer picks up the hidden support, one in each phase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from internalize.errors import BadInput
from internalize.figures.cases import JUDGING_SEEDS, Grid, Tiers
from internalize.figures.claims import MOSTLY, Claim
from internalize.figures.figure import DrawingMaterial, Figure
from internalize.figures.rates import RateAbove
from internalize.figures.rows import FigureRow, group
from internalize.kinds.parity.config import ParityConfig
from internalize.runs.folder import Run
from internalize.tasks.parity import HiddenParity

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PAPER = ParityConfig(regime="threshold", contrast=False)
"""d = 20, k = 9, B = 1024, η = 0.001; the paper does not give the threshold: 1e-8, at which no phase stalls."""

TIERS: Tiers = {
    "smoke": [Grid(ParityConfig(d=6, k=3, regime="threshold", contrast=False))],
    "laptop": [Grid(PAPER, seeds=JUDGING_SEEDS)],
    "paper": [Grid(PAPER, seeds=JUDGING_SEEDS)],
}

CLAIMS = [
    Claim(
        "one-coordinate-a-phase",
        "The attention gradually recovers the hidden support, one coordinate with every phase "
        "(phases end at a threshold that the paper does not give; ours is 1e-8).",
        RateAbove(group("all runs"), "one_a_phase", MOSTLY),
    ),
]


def phase_columns(row: FigureRow, run: Run) -> dict[str, Any]:
    """one_a_phase: after every phase t, row d attends to the support's first t coordinates and no other."""
    phases = run.metrics("evaluation")
    return {"one_a_phase": len(phases) == row["k"] and all(phase["prefix_recovered"] for phase in phases)}


def draw(material: DrawingMaterial) -> Drawing:
    """W after every phase, of the lowest seed whose weights were kept."""
    from internalize.kinds.parity.drawing import draw_attention

    for row in sorted(material.rows, key=lambda r: r["seed"]):
        run = material.run(row)
        phases = [phase["phase"] for phase in material.evaluations(row)]
        if set(phases) <= set(run.stages()):
            support = run.summary()["support"]
            weights = {phase: run.weights(phase)["W"] for phase in phases}
            return draw_attention(HiddenParity(row["d"], tuple(support)), weights)
    raise BadInput("figure", f"no run of attention-parity in {material.out} kept its weights of every phase")


FIGURE = Figure(
    name="attention-parity",
    paper="Appendix D, attention over the phases",
    shows="the weights of one linear-attention layer after every phase",
    tiers=TIERS,
    draw=draw,
    caption=(
        "The trained rows of W after every phase, without rounding, the lowest seed. Each phase takes "
        "one token of the "
        "chain away, and the row that answers takes up one more coordinate of the hidden support (triangles). "
        "The claims are judged over all seeds."
    ),
    claims=CLAIMS,
    notes=["The paper does not give the threshold that ends a phase; 1e-8 is ours, see docs/parity.md."],
    columns_of_run=phase_columns,
    keeps_stages=True,
)
