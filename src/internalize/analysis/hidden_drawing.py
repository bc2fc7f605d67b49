"""Pictures of what is inside a model: probe maps, logit lens, attention."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from internalize.analysis.drawing import accuracy_shades, ticks
from internalize.analysis.hidden import Hidden
from internalize.display.plots import PALETTE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHADES = "Blues"
MOST_LAYERS = 6
"""Deeper models are shown at evenly spread layers."""
LABEL = "read rightly, from chance (0) to always (1)"


def draw_probes(hidden: Hidden) -> Figure:
    """For each layer, which state (row) can be read at which position (column); below, before training."""
    layers = some_layers(hidden.trained.hits.shape[0])
    positions, T = len(hidden.positions), hidden.horizon
    width = max(7.5, 1.6 + len(layers) * max(2.4, min(0.2 * positions, 4.4)))
    height = 1.6 + 2 * max(1.5, min(0.2 * T, 4.0))
    figure, axes = new_figure(
        2, len(layers), width=width, height=height, squeeze=False, sharex=True, sharey=True
    )
    image: Any = None
    for i, (name, probes) in enumerate((("trained", hidden.trained), ("before training", hidden.untrained))):
        for j, layer in enumerate(layers):
            panel = axes[i, j]
            image = panel.imshow(
                probes.above_chance()[layer].T.numpy(), cmap=SHADES, vmin=0, vmax=1, aspect="auto"
            )
            panel.set_title(f"{name}, {_layer(layer)}", fontsize=9)
            _frame(panel, hidden)
            _mark_spoken(panel, hidden)
            marks = ticks(T, 9)
            panel.set_yticks(marks, [f"q{t + 1}" for t in marks], fontsize=8)
        axes[i, 0].set_ylabel("state")
    _name_positions(axes[1], hidden)
    figure.colorbar(image, ax=axes, label=LABEL, shrink=0.8)
    what = "linear probes; right of the orange steps $q_t$ is spoken"
    figure.suptitle(f"{hidden.title}, stage {hidden.stage}: {what}", fontsize=10)
    return figure


def draw_layer_maps(hidden: Hidden) -> Figure:
    """For each state q_t a map of layers × positions."""
    T, layers = hidden.horizon, hidden.trained.hits.shape[0]
    columns = min(range(3, 6), key=lambda c: (-T % c, -c)) if T > 5 else T  # as few empty places as can be
    rows = -(-T // columns)
    width, height = 1.4 + 2.5 * columns, 1.2 + rows * (0.75 + 0.2 * min(layers, 10))
    figure, axes = new_figure(
        rows, columns, width=width, height=height, squeeze=False, sharex=True, sharey=True
    )
    image: Any = None
    shares = hidden.trained.above_chance()
    for t, panel in enumerate(axes.flat, start=1):
        if t > T:
            panel.set_visible(False)
            continue
        image = panel.imshow(
            shares[..., t - 1].numpy(), cmap=SHADES, vmin=0, vmax=1, aspect="auto", origin="lower"
        )
        _frame(panel, hidden)
        panel.axvline(t - 1.5, color=PALETTE[1], linewidth=0.9)  # σ_t stands right of it
        best = hidden.best(t)
        panel.set_title(f"q{t}: best {best.right.value:.0%} (chance {best.chance:.0%})", fontsize=8)
        marks = ticks(layers, 5)
        panel.set_yticks(marks, ["input" if i == 0 else f"layer {i}" for i in marks], fontsize=7)
    lowest = list(axes.flat)[max(0, T - columns) : T]
    for panel in lowest:
        panel.tick_params(labelbottom=True)
    _name_positions(lowest, hidden)
    figure.colorbar(image, ax=axes, label=LABEL, shrink=0.8)
    what = "linear probes for each state; from the orange line on, $σ_t$ has been read"
    figure.suptitle(f"{hidden.title}, stage {hidden.stage}: {what}", fontsize=10)
    return figure


def draw_lens(hidden: Hidden) -> Figure:
    """Left: what each layer would say next in the answer. Right: which state where the answer begins."""
    lens, T = hidden.lens, hidden.horizon
    layers = lens.next_token.shape[0]
    wide, height = max(3.0, 0.3 * lens.next_token.shape[1]), 1.9 + 0.3 * min(layers, 12)
    right_wide = max(3.0, 0.3 * T)
    figure, (left, right) = new_figure(
        1, 2, width=2.6 + wide + right_wide, height=height, gridspec_kw={"width_ratios": [wide, right_wide]}
    )
    start = len(hidden.positions) - len(hidden.shown) - 1
    shades = accuracy_shades(float(hidden.trained.chance[-1]))
    image = left.imshow(lens.next_token.cpu().numpy(), aspect="auto", origin="lower", **shades)
    names = [*(f"q{t}" for t in hidden.shown), "EOS"]
    marks = ticks(len(names), 12)
    left.set_xticks(marks, [names[i] for i in marks], fontsize=8)
    left.set_title("next token of the answer is the likeliest", fontsize=9)
    right.imshow(lens.states[:, start].cpu().numpy(), aspect="auto", origin="lower", **shades)
    marks = ticks(T, 12)
    right.set_xticks(marks, [f"q{t + 1}" for t in marks], fontsize=8)
    right.set_title(f"likeliest state at {hidden.positions[start]}, where the answer begins, is …", fontsize=9)
    for panel in (left, right):
        panel.grid(False)
        marks = ticks(layers, 8)
        panel.set_yticks(marks, ["input" if i == 0 else f"layer {i}" for i in marks], fontsize=8)
    figure.colorbar(image, ax=[left, right], label="share of inputs (white: chance)", format="{x:.0%}")
    figure.suptitle(f"{hidden.title}, stage {hidden.stage}: logit lens", fontsize=10)
    return figure


def draw_attention(hidden: Hidden) -> Figure:
    """Where the places that say the answer look: mean over heads, and the head most on what they need."""
    layers = some_layers(len(hidden.lens.attention))
    count, positions = len(hidden.shown), len(hidden.positions)
    width = max(6.5, 1.8 + len(layers) * max(3.0, min(0.22 * positions, 4.6)))
    figure, axes = new_figure(
        2, len(layers), width=width, height=2.0 + 2 * max(0.7, 0.22 * count), squeeze=False, sharex=True
    )
    start = positions - count - 1
    image: Any = None
    for j, layer in enumerate(layers):
        pattern = hidden.lens.attention[layer][:, start : start + count]
        head = _most_needed(pattern, hidden)
        ways = (("mean of heads", pattern.mean(0)), (f"head {head + 1}: most on the needed σ", pattern[head]))
        for i, (how, values) in enumerate(ways):
            panel = axes[i, j]
            image = panel.imshow(values.cpu().numpy(), cmap=SHADES, vmin=0, vmax=1, aspect="auto")
            _frame(panel, hidden)
            panel.set_title(f"layer {layer + 1}, {how}", fontsize=9)
            marks = ticks(count, 9)
            panel.set_yticks(marks, [f"says q{hidden.shown[t]}" for t in marks], fontsize=8)
    _name_positions(axes[1], hidden, "attended position")
    figure.colorbar(image, ax=axes, label="attention")
    figure.suptitle(
        f"{hidden.title}, stage {hidden.stage}: attention of the answer, mean over inputs", fontsize=10
    )
    return figure


def _most_needed(pattern: Tensor, hidden: Hidden) -> int:
    """The head of (heads, shown, positions) that attends most to what is needed, over all states it says.

    To say q_j after q_i are needed σ_{i+1} … σ_j, which stand at the positions i … j-1.
    """
    spans = enumerate(pairwise((0, *hidden.shown)))
    return int(torch.stack([pattern[:, row, i:j].sum(1) for row, (i, j) in spans]).sum(0).argmax())


def _frame(panel: Any, hidden: Hidden) -> None:
    panel.grid(False)
    # the prompt ends here
    panel.axvline(len(hidden.positions) - len(hidden.shown) - 0.5, color="#1a1b1c", linewidth=0.7, alpha=0.6)


def _mark_spoken(panel: Any, hidden: Hidden) -> None:
    """A short line at the place where q_t is spoken."""
    for t in hidden.shown:
        place = hidden.unspoken(t)
        panel.plot([place - 0.5, place - 0.5], [t - 1.5, t - 0.5], color=PALETTE[1], linewidth=1.6)


def _name_positions(panels: Any, hidden: Hidden, label: str = "position") -> None:
    places = ticks(len(hidden.positions), 9)
    for panel in panels:
        panel.set_xticks(places, [hidden.positions[i] for i in places], fontsize=7, rotation=60)
        panel.set_xlabel(label, fontsize=9)


def _layer(layer: int) -> str:
    return "embedding" if layer == 0 else f"after layer {layer}"


def some_layers(count: int) -> list[int]:
    """All layers of a shallow model, else evenly spread ones with the first and the last."""
    if count <= MOST_LAYERS:
        return list(range(count))
    return sorted({round(i * (count - 1) / (MOST_LAYERS - 1)) for i in range(MOST_LAYERS)})
