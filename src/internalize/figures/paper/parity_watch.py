"""Theorem 1 at work: a hidden parity learned out loud and internalized, every quantity of the proof watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from internalize.display.plots import INK, PALETTE, new_figure
from internalize.figures.cases import JUDGING_SEEDS, Grid, Tiers
from internalize.figures.claims import MOSTLY, Claim
from internalize.figures.figure import DrawingMaterial, Figure, nothing_more
from internalize.figures.rates import RateAbove, RateBelow
from internalize.figures.rows import group
from internalize.kinds.parity.config import ParityConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

SIZES = {"d": [8, 12, 16, 20], "k": [3, 5, 7, 9]}
GRID = Grid(ParityConfig(), zipped=SIZES, seeds=JUDGING_SEEDS)

TIERS: Tiers = {
    "smoke": [Grid(ParityConfig(d=6, k=3, contrast=False))],
    "laptop": [GRID],
    "paper": [GRID],
}

ALL = group("all runs")
CLAIMS = [
    Claim(
        "learns-the-chain",
        "After phase 1 the model writes the whole chain, right on every input.",
        RateAbove(ALL, "chain_exact", MOSTLY, by="d"),
    ),
    Claim(
        "internalizes-strictly",
        "After phase k one step gives the parity of every input: the chain is internalized in the strict "
        "sense.",
        RateAbove(ALL, "internalized", MOSTLY, by="d"),
        headline=True,
    ),
    Claim(
        "direct-training-fails",
        "Learning the parity directly, without the chain, fails.",
        RateBelow(ALL, "direct_training_exact", MOSTLY, by="d"),
    ),
]


COLUMNS = 5
NAMES = {
    "λ_min(Σ̂)": r"$\lambda_{\min}(\hat\Sigma)$",
    "λ_max(Σ̂)": r"$\lambda_{\max}(\hat\Sigma)$",
    "max ⟨u_pop,x⟩": r"max $\langle u_{\mathrm{pop}}, x\rangle$",
    "max |⟨u-u_pop,x⟩|": r"max $|\langle u - u_{\mathrm{pop}}, x\rangle|$",
    "max ‖u-u_pop‖": r"max $\Vert u - u_{\mathrm{pop}}\Vert$",
    "max ‖u-e‖/(1-ηλ)^s": r"max $\Vert u - e\Vert / (1-\eta\lambda)^s$",
    "‖u-e‖_∞, at the end": r"$\Vert u - e\Vert_\infty$ at the end",
}
"""Quantities whose plain names have indices."""


def draw(material: DrawingMaterial) -> Drawing:
    """One panel for each quantity: every seed of the largest size, each phase, and the bound that the proof
    wants."""
    from internalize.kinds.parity.watch import QUANTITIES

    largest = max(row["d"] for row in material.rows)
    runs = [material.evaluations(row) for row in material.rows if row["d"] == largest]
    names = [name for name in QUANTITIES if name != "step_size"]
    lines = -(-len(names) // COLUMNS)
    figure, axes = new_figure(lines, COLUMNS, 13.0, 2.4 * lines + 0.4, squeeze=False)
    for axis, name in zip(axes.flat, names, strict=False):
        _draw_quantity(axis, QUANTITIES[name], [_measured(run, name) for run in runs])
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    figure.suptitle(
        f"d = {largest}, {len(runs)} runs: ● the bound holds, × it does not; dashed the bound, shaded "
        f"where it fails",
        fontsize=11,
    )
    return figure


def _measured(run: list[dict[str, Any]], name: str) -> list[tuple[int, dict[str, Any]]]:
    """(phase, what was measured of the quantity), phase after phase."""
    return [(row["phase"], next(m for m in row["watch"] if m["quantity"] == name)) for row in run]


def _draw_quantity(axis: Axes, name: str, runs: list[list[tuple[int, dict[str, Any]]]]) -> None:
    from matplotlib.ticker import MaxNLocator

    measured = [entry for run in runs for entry in run]
    bound, relation = measured[0][1]["bound"], measured[0][1]["relation"]
    for marker, colour, holds in (("o", PALETTE[0], True), ("x", PALETTE[1], False)):
        kept = [(phase, m["value"]) for phase, m in measured if m["holds"] is holds]
        if kept:
            axis.plot(*zip(*kept, strict=True), marker, color=colour, markersize=4, alpha=0.5)
    values = [bound, *(m["value"] for _, m in measured)]
    if min(values) > 0 and max(values) / min(values) > 20:
        axis.set_yscale("log")
        low, high = min(values) / 1.6, max(values) * 1.6
    else:
        spread = max(values) - min(values) or 1.0
        low, high = min(values) - 0.2 * spread, max(values) + 0.2 * spread
    bad = {"≥": [(low, bound)], "≤": [(bound, high)], "<": [(bound, high)], "=": []}
    for bottom, top in bad[relation]:
        axis.axhspan(bottom, top, color=PALETTE[1], alpha=0.08, linewidth=0)
    axis.axhline(bound, color=INK, linestyle="--", linewidth=1)
    axis.set(ylim=(low, high), xlabel="phase")
    axis.set_title(f"{NAMES.get(name, name)} {relation} {bound:.3g}", fontsize=9)
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))


FIGURE = Figure(
    name="parity-watch",
    paper="Theorem 1 and its lemmas",
    shows="every quantity of the proof beside its bound, phase by phase",
    tiers=TIERS,
    draw=draw,
    caption=(
        "The quantities of the proof after every phase, every seed of the largest size: bounds that fail do so "
        "while recovery is exact. The claims are judged at every size."
    ),
    claims=CLAIMS,
    notes=["The theorem leaves its constants open; ours are those of docs/parity.md, with far fewer examples."],
    columns_of_run=nothing_more,
)
