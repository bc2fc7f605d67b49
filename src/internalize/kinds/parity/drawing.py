"""Pictures of the theorem at work: W after every phase, the watch, and the phase diagrams."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from internalize.display.plots import LINES, MARKERS, PALETTE, new_figure
from internalize.kinds.parity.stall import predicted_loss
from internalize.kinds.parity.watch import QUANTITIES
from internalize.runs.table import Table
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


Rows = Sequence[Mapping[str, Any]]


def draw_theorem(table: Table) -> Figure:
    """Success over B/d³ for several d, and the two maps over η·d."""
    figure, axes = new_figure(1, 3, 13.5, 4.3)
    sizes = sorted({(row["d"], row["k"]) for row in table.where(diagram="batch")})
    for i, (d, k) in enumerate(sizes):
        rows = list(table.where(diagram="batch", d=d))
        _line(axes[0], [row["B/d³"] for row in rows], rows, "exact", i, f"d = {d}, k = {k}")
    axes[0].set_xscale("log", base=2)
    axes[0].set_xlabel("B / d³")
    axes[0].set_ylabel("share of seeds, exact on all inputs")
    axes[0].set_title("Examples (η = 1/d, T = 20 d)")
    axes[0].legend(loc="lower right")
    _map(axes[1], table.where(diagram="batch-step"), "B/d³", "η·d", "Examples and step size (T = 20 d)")
    _map(axes[2], table.where(diagram="length-step"), "T/d", "η·d", "Steps and step size (B = 4 d³)")
    chosen = {"color": PALETTE[1], "fill": False, "linewidth": 2}
    _frame(axes[1], table.where(diagram="batch-step"), {"B/d³": 4.0, "η·d": 1.0}, chosen)
    _frame(axes[2], table.where(diagram="length-step"), {"T/d": 20.0, "η·d": 1.0}, chosen)
    row = table.where(diagram="batch-step")[0]
    figure.suptitle(f"With rounding: exact recovery; maps for d = {row['d']}, k = {row['k']}, {_seeds(table)}")
    return figure


def draw_threshold(table: Table) -> Figure:
    """Without rounding: the threshold against the step size, and against the batch."""
    figure, axes = new_figure(1, 2, 11.0, 4.5)
    step, batch = table.where(diagram="threshold-step"), table.where(diagram="threshold-batch")
    _map(axes[0], step, "threshold", "η", f"Threshold and step size (B = {step[0]['B']:,})")
    _map(axes[1], batch, "threshold", "batch", f"Threshold and batch (η = {batch[0]['eta']:g})")
    axes[1].set_ylabel("B")
    for axis in axes:
        axis.invert_xaxis()
        axis.set_xlabel("threshold of the training loss")
    row = table[0]
    figure.suptitle(f"Without rounding: exact recovery; d = {row['d']}, k = {row['k']}, {_seeds(table)}")
    return figure


def draw_stall(table: Table, d: int) -> Figure:
    """What decides whether phase 2 stalls: the leftover's direction and size, not the step."""
    figure, axes = new_figure(1, 3, 13.5, 4.2)
    sized = table.where(varied="size")
    for i, threshold in enumerate(sorted({row["direction_from_threshold"] for row in sized}, reverse=True)):
        rows = list(sized.where(direction_from_threshold=threshold))
        _line(axes[0], [row["leftover_loss"] for row in rows], rows, "reached", i, f"as left at {threshold:g}")
    axes[0].set_title("The leftover's direction and size")
    stepped = table.where(varied="step")
    for i, eta in enumerate(sorted({row["eta"] for row in stepped})):
        rows = list(stepped.where(eta=eta))
        label = f"η = {eta:g}, B = {rows[0]['B']:,}"
        _line(axes[1], [row["leftover_loss"] for row in rows], rows, "reached", i, label)
    rows = list(table.where(varied="batch"))
    label = f"η = {rows[0]['eta']:g}, B = {rows[0]['B']:,}"
    _line(axes[1], [row["leftover_loss"] for row in rows], rows, "reached", 4, label)
    direction = rows[0]["direction_from_threshold"]
    axes[1].set_title(f"Step size and batch of phase 2 (direction of {direction:g})")
    for axis in axes[:2]:
        axis.set_xscale("log")
        axis.set_xlabel("size of the leftover, as a loss")
        axis.set_ylabel("share of seeds that finish phase 2")
        axis.legend(loc="lower left", fontsize=8)
    _draw_sides(axes[2], sized)
    figure.suptitle(
        f"Why phase 2 stalls without rounding: d = {d}; a stalled phase rests at a loss of "
        f"{_stalled_loss(table):.4f}, predicted {predicted_loss(d):.4f}"
    )
    return figure


def _draw_sides(axis: Axes, sized: Table) -> None:
    thresholds = sorted({row["direction_from_threshold"] for row in sized}, reverse=True)
    rows = [sized.where(direction_from_threshold=threshold)[0] for threshold in thresholds]
    for i, bit in enumerate((1, 0)):
        shares = [row[f"right_where_z1_is_{bit}"] for row in rows]
        axis.plot(thresholds, shares, MARKERS[i], linestyle=LINES[i], label=f"inputs with $z_1$ = {bit}")
    axis.set_xscale("log")
    axis.invert_xaxis()
    axis.set_ylim(-0.04, 1.04)
    axis.set_xlabel("threshold of phase 1")
    axis.set_ylabel("share pulled to the right")
    axis.set_title("First pull on the new weight")
    axis.legend(loc="center left", fontsize=8)


def _line(axis: Axes, x: Sequence[float], rows: Rows, key: str, i: int, label: str) -> None:
    rate = np.array([row[key] / row["seeds"] for row in rows])
    spread = np.clip([rate - [row["low"] for row in rows], [row["high"] for row in rows] - rate], 0, None)
    style: dict[str, Any] = {"marker": MARKERS[i], "linestyle": LINES[i % len(LINES)], "color": PALETTE[i]}
    shifted = np.array(x) * 1.04**i  # so that intervals stand beside each other
    axis.errorbar(shifted, rate, spread, capsize=2.5, elinewidth=1, markersize=5, label=label, **style)
    axis.set_ylim(-0.04, 1.04)


def _map(axis: Axes, table: Table, across: str, up: str, title: str) -> None:
    """A heat map of success; the numbers are successes."""
    columns, lines = _values(table, across), _values(table, up)
    exact = np.array([[_cell(table, across, c, up, r)["exact"] for c in columns] for r in lines])
    rate = exact / table[0]["seeds"]
    axis.imshow(rate, cmap="cividis", vmin=0, vmax=1, origin="lower", aspect="auto")
    for (i, j), count in np.ndenumerate(exact):
        colour = "black" if rate[i, j] > 0.6 else "white"
        axis.text(j, i, str(count), ha="center", va="center", fontsize=8, color=colour)
    axis.grid(visible=False)
    axis.set_xticks(range(len(columns)), [_short(value) for value in columns])
    axis.set_yticks(range(len(lines)), [_short(value) for value in lines])
    axis.set_xlabel(across.replace("/", " / "))
    axis.set_ylabel(up)
    axis.set_title(title)


def _frame(axis: Axes, table: Table, chosen: Mapping[str, float], style: Mapping[str, Any]) -> None:
    """Mark the point that the theorem regime uses."""
    from matplotlib.patches import Rectangle

    (across, x), (up, y) = chosen.items()
    corner = (_values(table, across).index(x) - 0.5, _values(table, up).index(y) - 0.5)
    axis.add_patch(Rectangle(corner, 1, 1, **style))


def _values(table: Table, name: str) -> list[float]:
    return sorted({row[name] for row in table})


def _cell(table: Table, across: str, c: float, up: str, r: float) -> Mapping[str, Any]:
    return next(row for row in table if row[across] == c and row[up] == r)


def _short(value: float) -> str:
    if value < 1 and math.log2(value).is_integer():
        return f"1/{1 / value:.0f}"
    return f"{value:,.0f}" if value >= 100 else f"{value:g}"


def _seeds(table: Table) -> str:
    return f"out of {table[0]['seeds']} seeds"


def _stalled_loss(table: Table) -> float:
    found = [row["stalled_loss"] for row in table if row["stalled_loss"] is not None]
    return float(np.mean(found)) if found else float("nan")
