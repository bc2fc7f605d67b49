"""Charts of rates, accuracies and waiting times, in the house style; told apart by hatch, marker and line
too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from internalize.display.plots import HATCHES, INK, LINES, MARKERS, PALETTE
from internalize.statistics import SUCCESS, Rate, Waiting, kaplan_meier

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUIET = "#888888"
COUNTS_AT = 1.03
"""Height at which the counts of bars stand: above every interval."""


def task_name(task: str) -> str:
    """`C$_{2}$` for C2, as the paper writes it, and C$_{2}$×C$_{3}$ for C2xC3; other names as they are."""
    factors = task.split("x")
    if not all(re.fullmatch(r"[A-Z]\d+", factor) for factor in factors):
        factors = [task]
    return "×".join(re.sub(r"\b([A-Z])(\d+)\b", r"\1$_{\2}$", factor) for factor in factors)


def success_bars(
    axis: Axes,
    places: Sequence[str],
    series: Mapping[str, Sequence[Rate | None]],
    counts: bool = True,
    what: str = "runs that succeed",
) -> None:
    """Bars of rates with Wilson's intervals: a cluster for each place, with a bar of each series that has one.

    counts: write k/n above each bar. what: the name of the axis, which says what was counted.
    """
    xs, width = clustered(
        [[rate is not None and rate.trials > 0 for rate in rates] for rates in series.values()]
    )
    for i, (name, rates) in enumerate(series.items()):
        shown = [(x, rate) for x, rate in zip(xs[i], rates, strict=True) if rate is not None and rate.trials]
        style: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)], "hatch": HATCHES[i % len(HATCHES)]}
        axis.bar(
            [x for x, _ in shown],
            [rate.value for _, rate in shown],
            width * 0.9,
            label=name,
            edgecolor="white",
            linewidth=0.6,
            **style,
        )
        for x, rate in shown:
            interval = rate.interval
            axis.plot([x, x], [interval.low, interval.high], color=INK, linewidth=1.0, zorder=3)
            if rate.successes == 0:  # no bar would be seen: a mark says whose it is
                mark: dict[str, Any] = {"marker": MARKERS[i % len(MARKERS)], "clip_on": False}
                axis.plot([x], [0], color=PALETTE[i % len(PALETTE)], markersize=6, zorder=4, **mark)
            if counts:
                text = f"{rate.successes}/{rate.trials}"
                axis.annotate(text, (x, COUNTS_AT), ha="center", fontsize=7)
    axis.set_xticks(range(len(places)), places)
    rate_axis(axis, what)
    axis.grid(axis="x", visible=False)


def clustered(there: Sequence[Sequence[bool]]) -> tuple[list[list[float]], float]:
    """For each series where it stands at each place: side by side in the middle, those that are there. And the
    width of one.

    there: of each series, whether it has something at each place.
    """
    places = list(zip(*there, strict=True))
    width = 0.8 / max([1, *map(sum, places)])
    xs = [
        [place + (sum(here[:i]) - (sum(here) - 1) / 2) * width for place, here in enumerate(places)]
        for i in range(len(there))
    ]
    return xs, width


def rate_lines(
    axis: Axes, series: Mapping[str, Sequence[tuple[float, Rate]]], what: str = "runs that succeed"
) -> None:
    """Rates over a number on a logarithmic axis, a line for each series, with Wilson's intervals.

    Each line stands a few percent beside the last, so that equal ones are both seen.
    """
    for i, (name, points) in enumerate(series.items()):
        known = [(x, rate) for x, rate in points if rate.trials]
        if not known:
            continue
        colour = PALETTE[i % len(PALETTE)]
        xs = [x * 1.06 ** (i - (len(series) - 1) / 2) for x, _ in known]
        below = [rate.value - rate.interval.low for _, rate in known]
        above = [rate.interval.high - rate.value for _, rate in known]
        axis.errorbar(
            xs,
            [rate.value for _, rate in known],
            [[max(0.0, e) for e in below], [max(0.0, e) for e in above]],
            label=name,
            color=colour,
            marker=MARKERS[i % len(MARKERS)],
            linestyle=LINES[i % len(LINES)],
            markersize=6,
            capsize=2,
            elinewidth=1,
        )
    axis.set_xscale("log", base=2)
    axis.minorticks_off()
    rate_axis(axis, what)


def rate_axis(axis: Axes, what: str) -> None:
    axis.set_ylim(0, 1.12)
    axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    axis.set_ylabel(what)


def waiting_curves(
    axis: Axes,
    series: Mapping[str, Sequence[Waiting]],
    until: float | None = None,
    what: str = "runs that have internalized",
) -> None:
    """The share that has seen the event by each time, with Kaplan and Meier's intervals; a mark at the end.

    until: the end of the axis, such as the budget of all runs; the longest time if not given.
    """
    from matplotlib.ticker import MaxNLocator

    end = until or max((wait.time for waits in series.values() for wait in waits), default=1.0)
    for i, (name, waits) in enumerate(series.items()):
        if not waits:
            continue
        points = kaplan_meier(waits)
        times = [*(point.time for point in points), end]
        shares = [1 - point.share for point in points]
        low, high = ([1 - getattr(point.interval, side) for point in points] for side in ("high", "low"))
        colour = PALETTE[i % len(PALETTE)]
        label = f"{name} ({sum(wait.happened for wait in waits)} of {len(waits)})"
        style: dict[str, Any] = {"color": colour, "where": "post"}
        axis.step(times, [*shares, shares[-1]], LINES[i % len(LINES)], label=label, clip_on=False, **style)
        band: dict[str, Any] = {"step": "post", "color": colour, "alpha": 0.12, "linewidth": 0}
        axis.fill_between(times, [*low, low[-1]], [*high, high[-1]], **band)
        axis.plot([end], [shares[-1]], MARKERS[i % len(MARKERS)], color=colour, markersize=5, clip_on=False)
    axis.set(xlim=(0, end), xlabel="thousand iterations")
    axis.xaxis.set_major_locator(MaxNLocator(4))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}")
    rate_axis(axis, what)
    axis.set_ylim(-0.02, 1.02)


def waiting_marks(
    axis: Axes, places: Sequence[str], series: Mapping[str, Sequence[Sequence[Waiting]]], apart: bool = True
) -> None:
    """One mark for each run at its time, open where the event never came; a cluster for each place.

    apart: series stand side by side at a place; otherwise in its middle, where each place has one of them.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    width = 0.8 / max(1, len(series)) if apart else 0.0
    for i, (name, clusters) in enumerate(series.items()):
        colour, marker = PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)]
        for place, waits in enumerate(clusters):
            x = place + (i - (len(series) - 1) / 2) * width
            for shown, face in ((True, colour), (False, "none")):
                times = [wait.time for wait in waits if wait.happened == shown]
                style: dict[str, Any] = {"facecolors": face, "edgecolors": colour, "marker": marker}
                axis.scatter([x] * len(times), times, s=22, alpha=0.6, linewidths=0.9, zorder=3, **style)
        axis.scatter([], [], color=colour, marker=marker, s=22, label=name)
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 4)))
    axis.yaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}")
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_xticks(range(len(places)), places)
    axis.set_ylabel("thousand iterations until internalized")
    axis.grid(axis="x", visible=False)


def accuracy_scatter(
    axis: Axes, points: Sequence[tuple[float, float, str, str]], chance: float, low: float
) -> None:
    """ID against OOD accuracy, an open mark for each run (ID, OOD, its colour, its marker), so that others are
    seen through it; the bar and chance as lines.

    low: where both axes begin; runs below it are not drawn.
    """
    for x, y, colour, marker in points:
        if min(x, y) >= low:
            style: dict[str, Any] = {"facecolors": "none", "edgecolors": colour, "marker": marker}
            axis.scatter([x], [y], s=38, linewidths=1.1, zorder=3, clip_on=False, **style)
    for bar, line in ((SUCCESS, "--"), (chance, ":")) if chance > low else ((SUCCESS, "--"),):
        axis.axvline(bar, color=QUIET, linewidth=0.8, linestyle=line, zorder=0)
        axis.axhline(bar, color=QUIET, linewidth=0.8, linestyle=line, zorder=0)
    axis.plot([0, 1], [0, 1], color=QUIET, linewidth=0.8, alpha=0.5, zorder=0)
    top = 1.0 + 0.02 * (1 - low)
    axis.locator_params(nbins=6)
    axis.set(xlim=(low, top), ylim=(low, top), aspect="equal", xlabel="ID accuracy", ylabel="OOD accuracy")


ALPHAS_OF_ONE_RUN = (0.5, 0.15)
"""Of a run's line while a test counts it, and later."""


def below_chance(chance: float) -> float:
    """Where an axis of accuracies may begin if nothing is far below chance."""
    return max(0.0, chance - 0.1)


def accuracy_over_stages(
    axis: Axes, runs: Sequence[Sequence[Mapping[str, Any]]], counted: Sequence[int], chance: float
) -> None:
    """Accuracy on the stage's own target, ID and OOD, at its end: thin for each run, thick for their median.

    runs: the last measurement of each stage, in order. A run is drawn up to the last stage that it passes in
    distribution: of one that is lost, nothing can be said about what it loses outside. counted: how many
    stages of each run a test counts; what is beyond them is faint, and the median beyond the last stage at
    which it counts half of the runs.
    """
    half = sorted(counted, reverse=True)[(len(counted) - 1) // 2]
    for i, (side, label) in enumerate((("id", "in distribution"), ("ood", "out of distribution"))):
        key = f"{side}_target_accuracy"
        style: dict[str, Any] = {"linestyle": LINES[i], "color": PALETTE[i]}
        at: dict[int, list[float]] = {}
        for ends, count in zip(runs, counted, strict=True):
            kept = _until_lost(ends)
            points = [(end["stage"], end[key]) for end in kept]
            _plot_in_two(axis, points, count, ALPHAS_OF_ONE_RUN, lw=0.9, **style)
            for end in kept:
                at.setdefault(end["stage"], []).append(end[key])
        middle = [(stage, median(at[stage])) for stage in sorted(at)]
        style |= {"marker": MARKERS[i], "markersize": 4, "label": f"{label}, median"}
        _plot_in_two(axis, middle, half, (1.0, 0.3), lw=2.2, **style)
    for height, line, name in ((chance, "-", "chance"), (SUCCESS, "--", "95 %")):
        axis.axhline(height, color=QUIET, linewidth=0.8, linestyle=line, zorder=0)
        axis.annotate(name, (0.01, height), xycoords=("axes fraction", "data"), xytext=(0, -9),
                      textcoords="offset points", fontsize=8, color=QUIET, zorder=4,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8})  # fmt: skip
    for alpha, name in zip(ALPHAS_OF_ONE_RUN, ("a run, while it counts", "a run, later"), strict=True):
        axis.plot([], [], color=QUIET, lw=1.2, alpha=alpha, label=name)
    axis.set(xlabel="stage", ylabel="accuracy on the stage's target, at its end")
    axis.set_ylim(below_chance(chance), 1.02)
    axis.set_xlim(left=0.5)


def _plot_in_two(
    axis: Axes, points: Sequence[tuple[int, float]], count: int, alphas: tuple[float, float], **style: Any
) -> None:
    """A line whose first so many points are drawn with the first alpha, the rest with the second."""
    first, rest = points[:count], points[max(0, count - 1) :]
    axis.plot([x for x, _ in first], [y for _, y in first], alpha=alphas[0], **style)
    if len(points) > count:
        axis.plot([x for x, _ in rest], [y for _, y in rest], alpha=alphas[1], **{**style, "label": None})


def _until_lost(ends: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Up to the last stage whose own target the run reached; a stage between may have ended a little short."""
    reached = [i for i, end in enumerate(ends) if end["id_target_accuracy"] > SUCCESS]
    return list(ends[: reached[-1] + 1]) if reached else []


def accuracy_over_training(axis: Axes, rows: Sequence[Mapping[str, Any]], chance: float) -> None:
    """ID and OOD accuracy over iterations from a run's evaluation rows; dotted lines where a stage ended.

    A stage begins badly, since the model has to answer in a new way: what it had learned by its end is drawn
    strongly, what was measured on the way faintly.
    """
    ends = [row for row, after in zip(rows, [*rows[1:], {}], strict=True) if row["stage"] != after.get("stage")]
    for i, (key, label) in enumerate(
        (("id_accuracy", "in distribution"), ("ood_accuracy", "out of distribution"))
    ):
        colour = PALETTE[i]
        axis.plot(
            [row["iteration"] for row in rows],
            [row[key] for row in rows],
            LINES[i],
            color=colour,
            alpha=0.3,
            lw=0.9,
        )
        axis.plot(
            [row["iteration"] for row in ends],
            [row[key] for row in ends],
            LINES[i],
            color=colour,
            label=f"{label}, at stage ends",
            marker=MARKERS[i],
            markersize=5,
        )
    for end in stage_ends(rows):
        axis.axvline(end, color=QUIET, linewidth=0.8, linestyle=":", zorder=0)
    axis.axhline(chance, color=QUIET, linewidth=0.8, zorder=0)
    axis.set(xlabel="iteration", ylabel="final-state accuracy", ylim=(0, 1.03))
    axis.set_xlim(left=0)


def stage_ends(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """The iterations after which the stage changed, from rows in order."""
    return [a["iteration"] for a, b in pairwise(rows) if a["stage"] != b["stage"]]
