"""Accuracies in pictures: shades that begin at chance, lines with their intervals, ticks that fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from internalize.display.plots import INK, LINES, MARKERS, PALETTE
from internalize.statistics import SUCCESS, Rate


def accuracy_shades(chance: float) -> dict[str, Any]:
    """Colour map and scale for accuracies: white at chance, blue above, orange below."""
    from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

    colours = [(0.0, PALETTE[1]), (0.5, "#ffffff"), (0.8, PALETTE[0]), (1.0, "#08306b")]
    shades = LinearSegmentedColormap.from_list("accuracy", colours)
    return {"cmap": shades, "norm": TwoSlopeNorm(min(max(chance, 0.01), 0.99), 0.0, 1.0)}


def accuracy_axis(axes: Any, chance: float | None) -> None:
    """From never to always, with the bar of 95 % and, where it is given, chance."""
    from matplotlib.ticker import PercentFormatter

    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("final state right")
    axes.axhline(SUCCESS, color=INK, linewidth=0.8, linestyle="--", alpha=0.6)
    if chance is not None:
        axes.axhline(chance, color=INK, linewidth=0.8, linestyle=":", alpha=0.8)


def rate_line(axes: Any, x: Sequence[float], rates: Sequence[Rate], label: str, style: int) -> None:
    """A line with its 95 % intervals; style: which colour, marker and line it has."""
    colour = PALETTE[style % len(PALETTE)]
    values = [rate.value for rate in rates]
    marker, line = MARKERS[style % len(MARKERS)], LINES[style % len(LINES)]
    axes.plot(x, values, marker=marker, markersize=4, linestyle=line, color=colour, label=label)
    low, high = [rate.interval.low for rate in rates], [rate.interval.high for rate in rates]
    axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)


def ticks(count: int, most: int = 13) -> list[int]:
    """Indexes for tick labels: all of them where they fit, else every second, third, …"""
    return list(range(0, count, -(-count // most)))
