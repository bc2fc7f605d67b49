"""The figure: the gap between raw and searched play, closing over the rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from internalize.display.plots import LINES, MARKERS, PALETTE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RAW, SEARCH, CHANCE = PALETTE[1], PALETTE[0], PALETTE[6]
FLOOR = 0.02
"""Percentage points below which a gap is drawn at the bottom: a logarithm has no zero."""

Rounds = Sequence[Mapping[str, Any]]
"""The evaluations of one run, one row a round."""


def draw_gap(games: Mapping[str, Sequence[Rounds]], chances: Mapping[str, float]) -> Figure:
    """Per game one column: rates of optimal moves above, what search still adds below; one line a seed.

    games: game → the runs of its seeds. chances: game → the rate of a player who moves at random.
    """
    figure, axes = new_figure(2, len(games), 4.6 * len(games) + 0.6, 6.0, squeeze=False, sharex="col")
    for column, (game, runs) in enumerate(games.items()):
        _draw_rates(axes[0, column], runs, chances[game])
        _draw_rest(axes[1, column], runs)
        axes[0, column].set_title(f"{game} ({len(runs)} seed{'s' if len(runs) > 1 else ''})")
        axes[1, column].set_xlabel("round")
    axes[0, 0].set_ylabel("optimal moves, %")
    axes[1, 0].set_ylabel("raw network against search,\npercentage points")
    axes[0, 0].legend(loc="lower right")
    axes[1, 0].legend(loc="upper right")
    return figure


def _values(runs: Sequence[Rounds], key: str) -> NDArray[np.float64]:
    """(seeds, rounds), in percent; runs of different lengths up to the shortest."""
    shortest = min(map(len, runs))
    return 100 * np.array([[row[key] for row in rows[:shortest]] for rows in runs])


def _draw_rates(axis: Axes, runs: Sequence[Rounds], chance: float) -> None:
    raw, search = _values(runs, "raw_accuracy"), _values(runs, "search_accuracy")
    rounds = np.arange(raw.shape[1])
    for values, colour, line, marker, label in (
        (search, SEARCH, LINES[0], MARKERS[0], "network with search"),
        (raw, RAW, LINES[1], MARKERS[1], "raw network"),
    ):
        axis.plot(rounds, values.T, color=colour, linewidth=0.7, alpha=0.5)
        axis.plot(rounds, values.mean(0), line, color=colour, marker=marker, markersize=4, label=label)
    axis.fill_between(rounds, raw.mean(0), search.mean(0), color=CHANCE, alpha=0.18, label="the gap")
    axis.axhline(100 * chance, color=CHANCE, linestyle=LINES[3], label="moves at random")
    axis.set_ylim(0, 102)


def _draw_rest(axis: Axes, runs: Sequence[Rounds]) -> None:
    """On a logarithmic scale: the rate of search less that of the raw network, and how often they differ."""
    from matplotlib.ticker import MaxNLocator

    gap = _values(runs, "search_accuracy") - _values(runs, "raw_accuracy")
    differ = 100 - _values(runs, "agreement")
    rounds = np.arange(gap.shape[1])
    for values, colour, line, marker, label in (
        (differ, PALETTE[2], LINES[2], MARKERS[2], "another move than search"),
        (gap, RAW, LINES[1], MARKERS[1], "fewer optimal moves than search"),
    ):
        shown = np.maximum(values, FLOOR)
        axis.plot(rounds, shown.T, color=colour, linewidth=0.7, alpha=0.5)
        middle = np.maximum(values.mean(0), FLOOR)
        axis.plot(rounds, middle, line, color=colour, marker=marker, markersize=4, label=label)
    axis.set_yscale("log")
    ticks = (FLOOR, 0.1, 1, 10, 100)
    axis.set_yticks(ticks, [f"≤ {FLOOR}", *(f"{tick:g}" for tick in ticks[1:])])
    axis.set_ylim(FLOOR * 0.9, 150)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
