"""Pictures of a construction beside a trained model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from internalize.constructions.against import Comparison, Side
from internalize.constructions.drawing import SHADES, plain, some
from internalize.display.plots import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LAYERS = 8
"""Deeper models are shown at evenly spread layers."""
MOST_MODULI = 4


def draw_attention_comparison(comparison: Comparison) -> Figure:
    """Attention per layer: the construction's two heads together, mean and most over the trained one's."""
    rows: list[tuple[str, Side, str]] = [
        ("construction", comparison.construction, "strongest"),
        ("trained, mean of heads", comparison.trained, "mean"),
        ("trained, most over heads", comparison.trained, "strongest"),
    ]
    depth = max(len(side.attention) for _, side, _ in rows)
    columns = min(depth, MOST_LAYERS)
    figure, axes = new_figure(3, columns, width=1.8 + 1.9 * columns, height=6.4, squeeze=False)
    image: Any = None
    for row, (name, side, how) in enumerate(rows):
        layers = some(len(side.attention), columns)
        axes[row, 0].set_ylabel(name, fontsize=9)
        for column in range(columns):
            panel = axes[row, column]
            plain(panel)
            if column >= len(layers):
                panel.set_visible(False)
                continue
            pattern = _over_heads(side.attention[layers[column]], how)
            image = panel.imshow(pattern.numpy(), cmap=SHADES, vmin=0, vmax=1)
            panel.set_title(f"layer {layers[column] + 1}", fontsize=9)
    axes[-1, 0].set_xlabel("key, σ1 … q0", fontsize=9)
    figure.colorbar(image, ax=axes, shrink=0.5, label="attention, mean over inputs")
    figure.suptitle(f"Attention: the construction and {comparison.trained.name}")
    return figure


def draw_readable_comparison(comparison: Comparison) -> Figure:
    """How often the state so far can be read, by layer and position, for every modulus; white is chance."""
    moduli = list(comparison.construction.readable)[:MOST_MODULI]
    sides = (comparison.construction, comparison.trained)
    depth = max(len(side.attention) for side in sides)
    width = max(9.0, min(0.44 * len(comparison.trained.positions) + 3.0, 14.0))
    height = 1.2 + len(moduli) * (0.9 + 0.24 * (depth + 1))
    figure, axes = new_figure(len(moduli), 2, width=width, height=height, squeeze=False)
    image: Any = None
    for row, modulus in enumerate(moduli):
        for column, side in enumerate(sides):
            panel = axes[row, column]
            chance = 1 / modulus
            above = (side.readable[modulus] - chance) / max(1 - chance, 1e-9)
            image = panel.imshow(above.numpy(), cmap=SHADES, vmin=0, vmax=1, aspect="auto")
            panel.set_title(f"{side.name}: {comparison.quantity(modulus)}", fontsize=9)
            _name_axes(panel, side)
    figure.colorbar(image, ax=axes, shrink=0.7, label="read rightly, from chance (0) to always (1)")
    first = f"its first word is the final state on {comparison.trained.accuracy:.0%} of the inputs"
    figure.suptitle(f"Where the state so far can be read; {comparison.trained.name}: {first}", fontsize=11)
    return figure


def _over_heads(attention: Tensor, how: str) -> Tensor:
    """(heads, positions, positions) to (positions, positions)."""
    return attention.mean(dim=0) if how == "mean" else attention.amax(dim=0)


def _name_axes(panel: Any, side: Side) -> None:
    panel.grid(False)
    layers = some(len(side.attention) + 1, 9)
    panel.set_yticks(layers, ["input" if i == 0 else f"layer {i}" for i in layers], fontsize=8)
    places = some(len(side.positions), 10)
    panel.set_xticks(places, [side.positions[i] for i in places], fontsize=8)
