"""Charts of success rates and accuracies, in the house style. Told apart by hatch, marker and line as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from internalize.display.plots import HATCHES, INK, LINES, MARKERS, PALETTE
from internalize.statistics import SUCCESS, Rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUIET = "#888888"
CORNER = 0.85
"""Accuracies above this are drawn once more, enlarged: most runs that learn at all end there."""


def success_bars(
    axis: Axes, places: Sequence[str], series: Mapping[str, Sequence[Rate | None]], counts: bool = True
) -> None:
    """Bars of rates, a cluster a place and a bar a series, with Wilson's intervals; None leaves a gap.

    counts: write k/n above each bar.
    """
    width = 0.8 / max(1, len(series))
    for i, (name, rates) in enumerate(series.items()):
        xs = [place + (i - (len(series) - 1) / 2) * width for place in range(len(places))]
        shown = [(x, rate) for x, rate in zip(xs, rates, strict=True) if rate is not None and rate.trials]
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
                axis.annotate(
                    text, (x, interval.high), (0, 2), textcoords="offset points", ha="center", fontsize=7
                )
    axis.set_xticks(range(len(places)), places)
    rate_axis(axis)
    axis.grid(axis="x", visible=False)


def rate_lines(axis: Axes, series: Mapping[str, Sequence[tuple[float, Rate]]]) -> None:
    """Rates over a number on a logarithmic axis, a line a series, with Wilson's intervals.

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
    rate_axis(axis)


def rate_axis(axis: Axes) -> None:
    axis.set_ylim(0, 1.12)
    axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    axis.set_ylabel("success rate")


def accuracy_scatter(
    axis: Axes, series: Mapping[str, Sequence[tuple[float, float]]], names: Sequence[str], chance: float
) -> None:
    """ID against OOD accuracy, a point a run; the paper's bar and chance as lines; the upper corner enlarged.

    names: the series of all panels, so that a name looks the same in each.
    """
    low = max(0.0, chance - 0.15)
    corner = axis.inset_axes((0.13, 0.47, 0.5, 0.5))
    for place, least in ((axis, low), (corner, CORNER)):
        for name, points in series.items():
            i = names.index(name)
            place.scatter(
                [x for x, _ in points],
                [y for _, y in points],
                label=name,
                facecolors=PALETTE[i % len(PALETTE)],
                edgecolors="white",
                linewidths=0.5,
                marker=MARKERS[i % len(MARKERS)],
                s=42,
                alpha=0.85,
                zorder=3,
            )
        for bar, line in ((SUCCESS, "--"), (chance, ":")):
            place.axvline(bar, color=QUIET, linewidth=0.8, linestyle=line, zorder=0)
            place.axhline(bar, color=QUIET, linewidth=0.8, linestyle=line, zorder=0)
        place.plot([0, 1], [0, 1], color=QUIET, linewidth=0.8, alpha=0.5, zorder=0)
        place.set(xlim=(least, 1.01), ylim=(least, 1.01), aspect="equal")
    axis.set(xlabel="ID accuracy", ylabel="OOD accuracy")
    ticks = [CORNER, SUCCESS, 1.0]
    corner.set(xticks=ticks, yticks=ticks)
    corner.tick_params(labelsize=7)
    axis.indicate_inset_zoom(corner, edgecolor=QUIET)


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
