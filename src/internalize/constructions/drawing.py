"""Pictures of constructions: what attends to what, what is held, the margins and the sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from internalize.constructions.construction import Construction
from internalize.constructions.general import Sizes
from internalize.constructions.margins import PRECISIONS, Margins
from internalize.constructions.weights import Shape
from internalize.display.plots import LINES, MARKERS, PALETTE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHADES = "Blues"
MOST_REGISTERS = 6
"""More registers than this would make a page of panels; the first ones are drawn."""
MOST_NUMBERS = 32
"""Up to this horizon the cells of a drawing have room for their numbers."""


@torch.no_grad()
def draw_attention(construction: Construction, symbols: Tensor) -> Figure:
    """Weights of both heads in every layer on one input, symbols (T,); rows are queries, columns keys."""
    records = construction.network.record(construction.tokens(symbols[None]))
    depth, T = len(records), construction.horizon
    figure, axes = new_figure(2, depth, width=1.6 + 1.9 * depth, height=4.4, squeeze=False)
    image: Any = None
    for layer, record in enumerate(records, start=1):
        stride = construction.plan.stride(layer)
        for head, name in enumerate(["stays", f"looks back {stride}"]):
            panel = axes[head, layer - 1]
            image = panel.imshow(record.weights[0, head].float().numpy(), cmap=SHADES, vmin=0, vmax=1)
            panel.set_title(f"layer {layer}: {name}" if head == 0 else name, fontsize=9)
            plain(panel)
            # Dummies end here.
            panel.axhline(T - 0.5, color=PALETTE[1], linewidth=0.7)
            panel.axvline(T - 0.5, color=PALETTE[1], linewidth=0.7)
    axes[0, 0].set_ylabel("query")
    axes[1, 0].set_ylabel("query")
    axes[1, 0].set_xlabel("key (dummies before the line)")
    figure.colorbar(image, ax=axes, shrink=0.6, label="attention")
    figure.suptitle(f"{construction.name}, T = {T}: attention of the construction")
    return figure


@torch.no_grad()
def draw_registers(construction: Construction, symbols: Tensor) -> Figure:
    """What every position holds after every layer on one input, symbols (T,); dummies are left out."""
    tokens = construction.tokens(symbols[None])
    T, directions = construction.horizon, construction.directions
    start = construction.held(symbols[None], 0)[0, T:].double()
    after = [r.output[0, T:, directions.held].double() for r in construction.network.record(tokens)]
    held = torch.stack([start, *after])
    names = construction.register_names()[:MOST_REGISTERS]
    width = max(6.0, min(0.32 * (T + 1) + 1.6, 13.0))
    height = 1.0 + len(names) * (0.9 + 0.25 * len(held))
    figure, axes = new_figure(len(names), 1, width=width, height=height, squeeze=False, sharex=True)
    for register, name in enumerate(names):
        panel = axes[register, 0]
        values = held[:, :, register]
        top = max(1.0, float(values.max()))
        panel.imshow(
            values.numpy(), cmap=SHADES, vmin=0, vmax=1.6 * top, aspect="auto"
        )  # dark text stays legible
        if T <= MOST_NUMBERS:
            _write_numbers(panel, values)
        panel.set_title(name, fontsize=9)
        panel.set_yticks(range(len(held)), ["input", *(f"layer {i}" for i in range(1, len(held)))])
        panel.grid(False)
    labels = construction.position_names()
    places = some(len(labels), 26)
    axes[-1, 0].set_xticks(places, [labels[i] for i in places], fontsize=8)
    more = construction.directions.registers - len(names)
    note = f" (first {len(names)} of {construction.directions.registers} registers)" if more else ""
    figure.suptitle(f"{construction.name}, T = {T}: what each position holds{note}")
    return figure


def draw_margins(margins: Margins, title: str) -> Figure:
    """Share of right answers against β, precision and weight noise; the edges found are marked."""
    figure, (beta, precision, noise) = new_figure(1, 3, width=11.0, height=3.8)
    shares, right = zip(*margins.beta_curve, strict=True)
    beta.plot(shares, right, marker=MARKERS[0], markersize=4)
    if margins.smallest_beta is not None:
        edge = margins.smallest_beta / margins.theorem_beta
        beta.axvline(edge, color=PALETTE[1], linestyle="--", linewidth=1.2)
        beta.text(edge * 1.12, 0.5, f"exact from\n{edge:.3f} on", color=PALETTE[1], va="center")
    beta.set(xscale="log", xlabel="β / theorem's β", ylabel="share of right answers", title="attention scale β")
    values = [margins.precisions[name] for name in PRECISIONS]
    colours = [PALETTE[0] if value == 1.0 else PALETTE[1] for value in values]
    precision.bar(range(len(values)), values, color=colours, width=0.6)
    precision.set_xticks(range(len(values)), PRECISIONS, fontsize=9)
    for place, value in enumerate(values):
        text = "exact" if value == 1.0 else f"{value:.0%}"
        precision.text(place, value + 0.02, text, ha="center", fontsize=9)
    precision.set(title="precision")
    for i, (kind, curve) in enumerate(margins.noise_curves.items()):
        levels, right = zip(*curve, strict=True)
        edge_found = margins.largest_noise[kind]
        label = kind if edge_found is None else f"{kind}: exact up to {edge_found:.1e}"
        noise.plot(levels, right, LINES[i], marker=MARKERS[i], markersize=4, label=label)
    noise.set(xscale="log", xlabel="standard deviation ε", title="weight noise (worst draw)")
    noise.legend(loc="lower left", fontsize=8, frameon=False)
    for panel in (beta, precision, noise):
        panel.set_ylim(-0.03, 1.12)
    figure.suptitle(title)
    return figure


def draw_sizes(sizes: Sequence[Sizes], horizon: int) -> Figure:
    """MLP width and number of weights of both constructions against n, on doubly logarithmic axes."""
    figure, panels = new_figure(1, 2, width=10.5, height=4.6)
    orders = [entry.n for entry in sizes]
    for panel, name in zip(panels, ("MLP width", "weights"), strict=True):
        general = [_size(entry.general, name) for entry in sizes]
        panel.plot(orders, general, color=PALETTE[6], marker=MARKERS[1], markersize=3, label="general, any n")
        for i, kind in enumerate(("prime", "prime power", "other composite")):
            chosen = [entry for entry in sizes if entry.kind == kind]
            xs, ys = [entry.n for entry in chosen], [_size(entry.counter, name) for entry in chosen]
            colour, marker = PALETTE[(1, 3, 0)[i]], MARKERS[(2, 3, 0)[i]]
            panel.scatter(xs, ys, color=colour, marker=marker, s=22, label=f"theorem 3, n {kind}", zorder=3)
        panel.set(xlabel="order n", ylabel=name, xscale="log", yscale="log", title=name)
        panel.set_xticks([2**k for k in range(1, 20) if orders[0] <= 2**k <= orders[-1]])
        panel.xaxis.set_major_formatter("{x:.0f}")
        panel.minorticks_off()
    for power, anchor in ((1, 4 * orders[-1] - 4), (2, 4 * orders[-1] ** 2)):
        line = [anchor * 1.6 * (n / orders[-1]) ** power for n in orders]
        panels[0].plot(orders, line, color="black", linestyle=":", linewidth=1.0)
        place = 3 * len(orders) // 10
        text = "slope of n" + ("²" if power == 2 else "")
        panels[0].text(orders[place], line[place] * 1.2, text, fontsize=9, rotation=16 * power + 2)
    panels[0].legend(loc="upper left", fontsize=9, frameon=False)
    figure.suptitle(f"Size of both constructions of C_n, T = {horizon}")
    return figure


def _size(shape: Shape, name: str) -> int:
    return shape.mlp_width if name == "MLP width" else shape.parameters


def _write_numbers(panel: Any, values: Tensor) -> None:
    for row, line in enumerate((values.round() + 0.0).tolist()):  # + 0.0: no cell reads "-0"
        for column, value in enumerate(line):
            panel.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=8)


def some(count: int, most: int) -> list[int]:
    """At most `most` indices spread over 0 … count-1, the last one among them."""
    step = -(-count // most)
    return sorted({count - 1 - i for i in range(0, count, step)})


def plain(panel: Any) -> None:
    panel.grid(False)
    panel.set_xticks([])
    panel.set_yticks([])
