"""One style for every plot: colour-blind safe, legible in grey, the same on a light and a dark page."""

from __future__ import annotations

import html
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from internalize.configs.files import write_output
from internalize.statistics import SUCCESS, Rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
"""Okabe and Ito's colours, which people with any common colour blindness can tell apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")
HATCHES = ("", "////", "....", "xx", "--", "++", "oo")
"""What tells bars apart where there is no colour."""

INK = "#1a1b1c"
"""The colour of text and axes; on a page it becomes the page's own text colour."""

_STYLE = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "internalize",
    "figure.dpi": 100,
}


def new_figure(
    rows: int = 1, columns: int = 1, width: float = 7.0, height: float = 4.0, **grid: Any
) -> tuple[Figure, Any]:
    """A figure in the house style and its axes, shaped (rows, columns) as an array unless there is one.

    width, height: inches. Made without pyplot, so that nothing global changes and notebooks are left alone.
    """
    import matplotlib
    from cycler import cycler
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        matplotlib.rcParams["axes.prop_cycle"] = cycler(color=PALETTE)
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, **grid)
    return figure, axes


def _house_style(figure: Figure) -> None:
    """What was added to a figure after it was made (legends, titles, notes) gets the style too."""
    from matplotlib.colors import same_color
    from matplotlib.legend import Legend
    from matplotlib.text import Text

    for legend in figure.findobj(Legend):
        legend.set_frame_on(False)
    for text in figure.findobj(Text):
        if same_color(text.get_color(), "black"):
            text.set_color(INK)


def save(
    figure: Figure,
    stem: Path,
    formats: Sequence[str] = ("png", "svg"),
    write: Callable[[Path, bytes], None] = write_output,
) -> list[Path]:
    """Write the figure as stem.png, stem.svg, …; the same figure gives the same bytes."""
    import matplotlib

    _house_style(figure)
    paths = []
    for kind in formats:
        path, buffer = stem.with_name(f"{stem.name}.{kind}"), io.BytesIO()
        dates: dict[str, None] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
        with matplotlib.rc_context(_STYLE):
            figure.savefig(buffer, format=kind, dpi=160, facecolor="white", metadata=dates)
        write(path, buffer.getvalue())
        paths.append(path)
    return paths


def inline_svg(figure: Figure, alt: str) -> str:
    """The figure as an <svg> element for a page: transparent, text in the page's own colour."""
    import matplotlib

    _house_style(figure)
    buffer = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return saved_svg_inline(buffer.getvalue(), alt)


def saved_svg_inline(svg: str, alt: str) -> str:
    """The text of a file that `save` wrote, as such an element: no background, nothing that names a host."""
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, count=1, flags=re.DOTALL)
    svg = svg.replace('style="fill: #ffffff"', 'style="fill: none"')  # behind the figure and its panels
    svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'class="plot"', svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" ', 1)


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


def outline(panel: Any, cells: Sequence[tuple[int, int]]) -> None:
    """A frame around these (row, column) of a heat map."""
    from matplotlib.patches import Rectangle

    for row, column in cells:
        corner = (column - 0.5, row - 0.5)
        panel.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=INK, linewidth=1.3))


def write_numbers(panel: Any, values: Sequence[Sequence[float]], chance: float) -> None:
    """Per cent into every cell of a heat map in `accuracy_shades(chance)`."""
    for i, row in enumerate(values):
        for k, value in enumerate(row):
            dark = value > chance + 0.55 * (1 - chance)
            colour = "white" if dark else INK
            panel.text(k, i, f"{100 * value:.0f}", ha="center", va="center", fontsize=7, color=colour)


def ticks(count: int, most: int = 13) -> list[int]:
    """Indexes for tick labels: all of them where they fit, else every second, third, …"""
    return list(range(0, count, -(-count // most)))


MARKS = "●○▲△■□"
"""One for each curve; told apart by shape, not by colour."""
MEETING = "◆"
LEVEL = "·"

Points = Sequence[tuple[float, float]]


def text_plot(
    curves: Mapping[str, Points],
    width: int = 60,
    height: int = 10,
    between: tuple[float, float] | None = None,
    level: tuple[str, float] | None = None,
    logarithmic: bool = False,
) -> str:
    """Curves of (x, y) points as lines of text: an axis on the left, a legend below. Empty without points.

    Where two curves meet in one place stands a mark of its own. between: the ends of the axis, found if not
    given. level: the name and height of a dotted line. On a logarithmic axis a value of 0 or less is drawn at
    the lowest of the others.
    """
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return ""
    xs, ys = ([point[i] for point in points] for i in (0, 1))
    x_range, y_range = (min(xs), max(xs)), between or (min(ys), max(ys))
    logarithmic = logarithmic and y_range[1] > 0
    least = min((y for y in ys if y > 0), default=1.0)
    y_range = (least, y_range[1]) if logarithmic else y_range

    def scale(y: float) -> float:
        return math.log(max(y, least)) if logarithmic else y

    scaled = (scale(y_range[0]), scale(y_range[1]))
    grid = [[" "] * width for _ in range(height)]
    if level is not None:
        grid[height - 1 - _place(scale(level[1]), scaled, height)] = [LEVEL] * width
    for mark, curve in zip(MARKS, curves.values(), strict=False):
        for x, y in curve:
            row, column = grid[height - 1 - _place(scale(y), scaled, height)], _place(x, x_range, width)
            row[column] = mark if row[column] in (" ", LEVEL, mark) else MEETING
    labels = {0: _number(y_range[1]), height - 1: _number(y_range[0])}
    margin = max(map(len, labels.values()))
    lines = [f"{labels.get(i, ''):>{margin}} │{''.join(row).rstrip()}" for i, row in enumerate(grid)]
    first, last = _number(x_range[0]), _number(x_range[1])
    below = f"{first}{last:>{max(1, width - len(first))}}"
    named = [*zip(MARKS, curves, strict=False)]
    named += [(MEETING, "several in one place")] if any(MEETING in row for row in grid) else []
    named += [(LEVEL, level[0])] if level is not None else []
    legend = "   ".join(f"{mark} {name}" for mark, name in named)
    return "\n".join([*lines, f"{'':>{margin}} └{'─' * width}", f"{'':>{margin}}  {below}", legend])


def _place(value: float, between: tuple[float, float], cells: int) -> int:
    low, high = between
    return 0 if high == low else round((value - low) / (high - low) * (cells - 1))


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"


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


def plot_every_seed(axes: Any, curves: Curves) -> None:
    """A thin line for every seed: where some learn and others do not, the mean is no run's."""
    for style, (name, seeds) in enumerate(curves.items()):
        colour, line = PALETTE[style % len(PALETTE)], LINES[style % len(LINES)]
        alone: dict[str, Any] = {"linewidth": 1.8} if len(seeds) == 1 else {"linewidth": 0.9, "alpha": 0.7}
        for points in seeds:
            axes.plot(*zip(*sorted(points), strict=True), line, color=colour, **alone)
        axes.plot([], [], line, color=colour, label=f"{name} ({len(seeds)} runs)" if len(seeds) > 1 else name)
    axes.set_xlabel("training samples")
    axes.xaxis.set_major_formatter(_short_count)


def _short_count(value: float, _: int = 0) -> str:
    """1500000 as 1.5 M."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def draw_hint_accuracy(curves: Curves, label_noise: float, title: str) -> Figure:
    """Accuracy on the clean label without hints, against training samples: the paper's figure 5, top, run by
    run.

    An answer that is right on the clean label with rate a is right on a label flipped with rate η with rate
    η + (1-2η) a. So the same curves can be read against noisy labels, on the right: their ceiling is 1-η.
    """
    figure, axes = new_figure(width=7.2, height=4.2)
    plot_every_seed(axes, curves)
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
