"""Curves over training samples: the mean over seeds, and how far the seeds spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from internalize.display.curves import Points
from internalize.display.plots import LINES, PALETTE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curves = Mapping[str, Sequence[Points]]
"""name of a curve → for every seed its (samples, value) points."""


def over_seeds(seeds: Sequence[Points]) -> list[tuple[float, float, float, float]]:
    """(samples, mean, least, most) wherever every seed was measured."""
    values = [dict(points) for points in seeds]
    shared = sorted(set(values[0]).intersection(*values[1:]))
    return [
        (x, fmean(found), min(found), max(found)) for x in shared for found in [[seed[x] for seed in values]]
    ]


def plot_over_seeds(axes: Any, curves: Curves, first_style: int = 0) -> None:
    """A line for the mean of every curve and a band from its least to its most seed."""
    for style, (name, seeds) in enumerate(curves.items(), start=first_style):
        x, mean, least, most = zip(*over_seeds(seeds), strict=True)
        colour, line = PALETTE[style % len(PALETTE)], LINES[style % len(LINES)]
        axes.plot(x, mean, line, color=colour, label=f"{name} ({len(seeds)} seeds)" if len(seeds) > 1 else name)
        axes.fill_between(x, least, most, color=colour, alpha=0.18, linewidth=0)
    axes.set_xlabel("training samples")
    axes.xaxis.set_major_formatter(_short_count)


def _short_count(value: float, _: int = 0) -> str:
    """1500000 as 1.5 M."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def draw_hint_accuracy(curves: Curves, label_noise: float, title: str) -> Figure:
    """Accuracy on the clean label without hints, against training samples; the paper's figure 5, top.

    An answer that is right on the clean label with rate a is right on a label flipped with rate η with rate
    η + (1-2η) a. So the same curves can be read against noisy labels, on the right: their ceiling is 1-η.
    """
    figure, axes = new_figure(width=7.2, height=4.2)
    plot_over_seeds(axes, curves)
    axes.axhline(1.0, color=PALETTE[-1], linestyle="--", linewidth=1.2, zorder=1)
    axes.axhline(0.5, color=PALETTE[-1], linestyle=":", linewidth=1.2, zorder=1)
    ceiling = f"ceiling: 100 % of clean labels, {100 * (1 - label_noise):g} % of noisy ones"
    for height, text in ((1.0, ceiling if label_noise else "ceiling: 100 %"), (0.5, "chance")):
        axes.annotate(
            text, (0.01, height), xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points",
            fontsize=8,
        )  # fmt: skip
    axes.set_ylim(0.42, 1.06)
    axes.set_ylabel("accuracy without hints, clean label")
    axes.yaxis.set_major_formatter(_percents)
    if label_noise:
        scale = 1 - 2 * label_noise
        right = axes.secondary_yaxis(
            "right", functions=(lambda a: label_noise + scale * a, lambda n: (n - label_noise) / scale)
        )
        right.set_ylabel(f"against noisy labels (flipped: {100 * label_noise:g} %)")
        right.yaxis.set_major_formatter(_percents)
    figure.legend(loc="outside lower center", ncols=len(curves))
    axes.set_title(title)
    return figure


def draw_target_loss(panels: Mapping[str, Curves], best: float, title: str) -> Figure:
    """Target loss against training samples, a panel for each inference budget; `best` is the class's own."""
    figure, axes = new_figure(1, len(panels), 3.6 + 3.4 * len(panels), 4.0, squeeze=False, sharey=True)
    for panel, (name, curves) in zip(axes[0], panels.items(), strict=True):
        plot_over_seeds(panel, curves)
        panel.axhline(best, color=PALETTE[-1], linestyle="--", linewidth=1.2, zorder=1)
        panel.annotate(
            f"best in the class: {best:g}", (0.01, best), xycoords=("axes fraction", "data"), xytext=(0, -4),
            textcoords="offset points", fontsize=8, va="top",
        )  # fmt: skip
        panel.set_title(name, fontsize=10)
    handles, labels = axes[0, 0].get_legend_handles_labels()  # the first budget is the one that all arms serve
    figure.legend(handles, labels, loc="outside lower center", ncols=len(handles), fontsize=9)
    axes[0, 0].set_ylim(-0.05, None)
    axes[0, 0].set_ylabel("target loss (share of wrong answers)")
    figure.suptitle(title, fontsize=11)
    return figure


def _percents(value: float, _: int = 0) -> str:
    return f"{100 * value:.0f} %"
