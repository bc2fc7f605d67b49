"""Pictures of a parity run: W after every phase, and the watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from internalize.display.plots import PALETTE, new_figure
from internalize.kinds.parity.watch import QUANTITIES
from internalize.tasks.parity import HiddenParity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 5
"""Panels of the watch beside each other, and of W."""
ATTENTION_COLUMNS = 3
HOLDS, FAILS = PALETTE[0], PALETTE[1]


def draw_attention(parity: HiddenParity, weights: Mapping[int, Tensor]) -> Figure:
    """The paper's figure: W after every phase (its trained rows d … d+k-1), phase → (D, D).

    Triangles above row d mark the hidden support, the filled ones what the phase should have internalized.
    """
    from matplotlib import colormaps

    d, k = parity.d, parity.k
    columns = min(ATTENTION_COLUMNS, len(weights))
    lines = -(-len(weights) // columns)
    width = min(5.0, 0.09 * (d + k) + 1.2)
    height = width * (k + 2) / (d + k) + 0.55
    figure, axes = new_figure(lines, columns, width * columns + 0.8, height * lines, squeeze=False)
    colours = colormaps["RdBu_r"].with_extremes(bad="#dddddd")
    future = np.triu(np.ones((k, d + k)), d).astype(bool)
    for axis, (phase, W) in zip(axes.flat, weights.items(), strict=False):
        shown = np.ma.masked_array(W[d - 1 : d + k - 1].numpy(), future)
        image = axis.imshow(shown, cmap=colours, vmin=-1, vmax=1, interpolation="nearest")
        _mark_support(axis, parity, phase)
        _label_attention(axis, parity, phase)
    for axis in axes.flat[len(weights) :]:
        axis.set_visible(False)
    figure.colorbar(image, ax=axes, shrink=0.5, fraction=0.03, pad=0.01, label="W", ticks=[-1, 0, 1])
    figure.suptitle(
        "W after every phase: rows d … d+k-1, grey what the mask hides; ▼ hidden support, filled once due",
        fontsize=10,
    )
    return figure


def _mark_support(axis: Axes, parity: HiddenParity, phase: int) -> None:
    inside, later = parity.columns[:phase], parity.columns[phase:]
    style: dict[str, Any] = {"marker": "v", "s": 16, "clip_on": False, "linewidths": 0.8, "zorder": 3}
    axis.scatter(inside, [-1.3] * len(inside), color=PALETTE[2], **style)
    axis.scatter(later, [-1.3] * len(later), facecolors="none", edgecolors=PALETTE[2], **style)


def _label_attention(axis: Axes, parity: HiddenParity, phase: int) -> None:
    d, k = parity.d, parity.k
    axis.axvline(d - 0.5, color="#1a1b1c", linewidth=0.8)
    axis.grid(visible=False)
    axis.set_title("phase 1: the chain" if phase == 1 else f"phase {phase}", fontsize=9, pad=3)
    axis.set_xticks([0, d - 1, d + k - 1], ["$x_1$", f"$x_{{{d}}}$", f"$z_{{{k}}}$"], fontsize=8)
    axis.set_yticks([0, k - 1] if k > 1 else [0], [f"{d}", f"{d + k - 1}"][: min(k, 2)], fontsize=8)
    axis.set_ylabel("row", fontsize=8, labelpad=1)
    axis.set_ylim(k - 0.5, -2.2)


def draw_watch(phases: Sequence[Mapping[str, Any]]) -> Figure:
    """A panel a quantity: its value after every phase, and its bound (phases: the run's evaluation rows)."""
    names = [name for name in QUANTITIES if name != "step_size"]
    lines = -(-len(names) // COLUMNS)
    figure, axes = new_figure(lines, COLUMNS, 13.0, 2.25 * lines, squeeze=False, sharex=True)
    for axis, name in zip(axes.flat, names, strict=False):
        _draw_quantity(axis, name, phases)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("phase")
    for axis in axes[-2, COLUMNS - (lines * COLUMNS - len(names)) :]:
        axis.tick_params(labelbottom=True)
        axis.set_xlabel("phase")
    figure.suptitle(
        "The quantities of the proof: dashed the bound, shaded where it fails; ● holds, ✕ does not", fontsize=11
    )
    return figure


def _draw_quantity(axis: Axes, name: str, phases: Sequence[Mapping[str, Any]]) -> None:
    from matplotlib.ticker import MaxNLocator

    found = [next(m for m in row["watch"] if m["quantity"] == name) for row in phases]
    numbers = [row["phase"] for row in phases]
    values, bound, relation = [m["value"] for m in found], found[0]["bound"], found[0]["relation"]
    for marker, colour, holds in (("o", HOLDS, True), ("X", FAILS, False)):
        kept = [(n, m["value"]) for n, m in zip(numbers, found, strict=True) if m["holds"] is holds]
        if kept:
            axis.plot(*zip(*kept, strict=True), marker, color=colour, markersize=5)
    axis.axhline(bound, color="#1a1b1c", linestyle="--", linewidth=1)
    if min(values) > 0 and bound > 0 and max([*values, bound]) / min([*values, bound]) > 20:
        axis.set_yscale("log")
    else:
        spread = max([*values, bound]) - min([*values, bound]) or 1.0
        axis.set_ylim(min([*values, bound]) - 0.2 * spread, max([*values, bound]) + 0.2 * spread)
    low, high = axis.get_ylim()
    bad = {"≥": [(low, bound)], "≤": [(bound, high)], "<": [(bound, high)], "=": [(low, bound), (bound, high)]}
    for bottom, top in bad[relation]:
        axis.axhspan(bottom, top, color=FAILS, alpha=0.08, linewidth=0)
    axis.set_ylim(low, high)
    axis.set_title(f"{QUANTITIES[name]} {relation} {bound:.3g}", fontsize=9)
    axis.margins(x=0.08)
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
