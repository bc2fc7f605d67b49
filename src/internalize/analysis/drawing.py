"""Pictures of matrix, profile and diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from internalize.analysis.diagnosis import Diagnosis, broken_stage
from internalize.analysis.evidence import Evidence
from internalize.analysis.matrix import Matrix
from internalize.analysis.profile import Point, Profile
from internalize.display.plots import LINES, MARKERS, PALETTE, new_figure
from internalize.statistics import SUCCESS, Rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

READINGS = {"forced": "the model writes all K states", "teacher": "true states given up to the last"}
NUMBERED = 12
"""Up to this many rows and columns a cell has room for its number."""
INK = "#1a1b1c"


def accuracy_shades(chance: float) -> dict[str, Any]:
    """Colour map and scale for accuracies: white at chance, blue above, orange below."""
    from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

    colours = [(0.0, PALETTE[1]), (0.5, "#ffffff"), (0.8, PALETTE[0]), (1.0, "#08306b")]
    shades = LinearSegmentedColormap.from_list("accuracy", colours)
    return {"cmap": shades, "norm": TwoSlopeNorm(min(max(chance, 0.01), 0.99), 0.0, 1.0)}


def draw_matrix(matrix: Matrix) -> Figure:
    """Stage × budget heat maps; of a run with a single stage, accuracy against budget."""
    return _matrix_lines(matrix) if len(matrix.stages) == 1 else _matrix_maps(matrix)


def _matrix_maps(matrix: Matrix) -> Figure:
    T, rows = matrix.horizon, len(matrix.stages)
    width, height = 2.8 + 2 * max(2.4, min(0.36 * T, 5.0)), 2.2 + 2 * max(1.6, min(0.3 * rows, 4.2))
    figure, axes = new_figure(2, 2, width=width, height=height, sharex=True, sharey=True)
    image: Any = None
    for i, (reading, meaning) in enumerate(READINGS.items()):
        for j, name in enumerate(matrix.inputs):
            panel, values = axes[i, j], matrix.select(name, reading)
            image = panel.imshow(values.numpy(), aspect="auto", **accuracy_shades(matrix.chance["id"]))
            panel.grid(False)
            panel.set_title(f"{name.upper()} ({matrix.inputs[name]})\n{meaning}", fontsize=9)
            _outline_own(panel, matrix, name, reading)
            if max(T, rows) <= NUMBERED:
                _write_numbers(panel, values, matrix.chance["id"])
    for panel in axes[1]:
        panel.set_xlabel("budget K: states in the answer")
        places = ticks(T)
        panel.set_xticks(places, [str(k + 1) for k in places])
    for panel in axes[:, 0]:
        panel.set_ylabel("weights at the end of stage")
        places = ticks(rows)
        panel.set_yticks(places, [str(matrix.stages[i]) for i in places])
    figure.colorbar(image, ax=axes, label="last state is $q_T$ (white: chance)", format="{x:.0%}", shrink=0.8)
    what = "which budgets each stage serves; outlined: what the stage trained"
    figure.suptitle(f"{matrix.title}\n{what}", fontsize=10)
    return figure


def _outline_own(panel: Any, matrix: Matrix, inputs: str, reading: str) -> None:
    from matplotlib.patches import Rectangle

    for i, stage in enumerate(matrix.stages):
        for k in range(1, matrix.horizon + 1):
            if matrix.cell(stage, k, inputs, reading).own:
                panel.add_patch(Rectangle((k - 1.5, i - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=1.3))


def _write_numbers(panel: Any, values: Any, chance: float) -> None:
    for i, row in enumerate(values.tolist()):
        for k, value in enumerate(row):
            dark = value > chance + 0.55 * (1 - chance)
            text = f"{100 * value:.0f}"
            panel.text(k, i, text, ha="center", va="center", fontsize=7, color="white" if dark else INK)


def ticks(count: int, most: int = 13) -> list[int]:
    """Indexes for tick labels: all of them where they fit, else every second, third, …"""
    return list(range(0, count, -(-count // most)))


def _matrix_lines(matrix: Matrix) -> Figure:
    figure, axes = new_figure(width=7.0, height=4.2)
    budgets = range(1, matrix.horizon + 1)
    for i, reading in enumerate(READINGS):
        for j, name in enumerate(matrix.inputs):
            cells = [matrix.cell(matrix.stages[0], k, name, reading) for k in budgets]
            rates = [cell.right for cell in cells]
            label = f"{'writes all' if reading == 'forced' else 'true states given'}, {name.upper()}"
            _band(axes, list(budgets), rates, label, style=2 * i + j)
    _accuracy_axis(axes, matrix.chance["id"])
    axes.set_xlabel("budget K: states in the answer")
    places = ticks(matrix.horizon)
    axes.set_xticks([k + 1 for k in places])
    axes.legend(fontsize=8, loc="best")
    axes.set_title(matrix.title, fontsize=10)
    return figure


def _band(axes: Any, x: list[float] | list[int], rates: list[Rate], label: str, style: int) -> None:
    """A line with its 95 % intervals."""
    colour = PALETTE[style % len(PALETTE)]
    values = [rate.value for rate in rates]
    marker, line = MARKERS[style % len(MARKERS)], LINES[style % len(LINES)]
    axes.plot(x, values, marker=marker, markersize=4, linestyle=line, color=colour, label=label)
    low, high = [rate.interval.low for rate in rates], [rate.interval.high for rate in rates]
    axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)


def _accuracy_axis(axes: Any, chance: float | None) -> None:
    from matplotlib.ticker import PercentFormatter

    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("final state right")
    axes.axhline(SUCCESS, color=INK, linewidth=0.8, linestyle="--", alpha=0.6)
    if chance is not None:
        axes.axhline(chance, color=INK, linewidth=0.8, linestyle=":", alpha=0.8)


def draw_profile(profile: Profile) -> Figure:
    """Accuracy against p, against each symbol's probability, and on each final state, rarest first."""
    figure, axes = new_figure(1, 3, width=12.5, height=4.2, sharey=True)
    modes = list(dict.fromkeys(point.mode for point in profile.binomial))
    for style, mode in enumerate(modes):
        _points(axes[0], [p for p in profile.binomial if p.mode == mode], mode, style)
    axes[0].plot(*_chance_line(profile.binomial), color=INK, linestyle=":", linewidth=1.0, label="chance")
    if profile.ood_p is not None:
        axes[0].axvline(profile.ood_p, color=INK, linewidth=0.8, alpha=0.5)
        axes[0].annotate("OOD", (profile.ood_p, 0.0), xytext=(3, 2), textcoords="offset points", fontsize=8)
    axes[0].set(xlabel="p of σ ~ Binomial(|Σ|-1, p)", title="binomial inputs")
    _bias_panel(axes[1], profile, modes)
    _states_panel(axes[2], profile, modes)
    for panel in axes:
        _accuracy_axis(panel, None)
        panel.legend(fontsize=8, loc="best")
    for panel in axes[1:]:
        panel.set_ylabel("")
    figure.suptitle(f"{profile.title}; dashed: the bar of 95 %", fontsize=10)
    return figure


def _points(axes: Any, points: list[Point], label: str, style: int) -> None:
    _band(axes, [point.x for point in points], [point.right for point in points], label, style)


def _chance_line(points: tuple[Point, ...]) -> tuple[list[float], list[float]]:
    by_x = {point.x: point.chance for point in points}
    return list(by_x), list(by_x.values())


def _bias_panel(axes: Any, profile: Profile, modes: list[str]) -> None:
    style = 0
    for symbol, points in profile.bias.items():
        for mode in modes:
            label = f"symbol {symbol}" + (f", {mode}" if len(modes) > 1 else "")
            _points(axes, [p for p in points if p.mode == mode], label, style)
            style += 1
    axes.set(xlabel="probability of the symbol, others equally often", title="one symbol too often or too rare")


def _states_panel(axes: Any, profile: Profile, modes: list[str]) -> None:
    """Final states, rarest OOD first, with intervals."""
    order = [s.state for s in profile.states if (s.inputs, s.mode) == ("ood", modes[0])]
    share = {s.state: s.frequency for s in profile.states if s.inputs == "ood"}
    series = [(inputs, mode) for inputs in ("id", "ood") for mode in modes]
    for style, (inputs, mode) in enumerate(series):
        found = {s.state: s.right for s in profile.states if (s.inputs, s.mode) == (inputs, mode)}
        rates = [(order.index(state), rate) for state, rate in found.items() if rate]
        aside = 0.5 * (style - (len(series) - 1) / 2) / len(series)  # side by side, not on top of one another
        errors = [
            [max(0.0, rate.value - rate.interval.low) for _, rate in rates],
            [max(0.0, rate.interval.high - rate.value) for _, rate in rates],
        ]
        axes.errorbar(
            [i + aside for i, _ in rates],
            [rate.value for _, rate in rates],
            errors,
            fmt=MARKERS[style],
            color=PALETTE[style],
            markersize=4,
            capsize=2,
            label=inputs.upper() + (f", {mode}" if len(modes) > 1 else ""),
        )
    places = ticks(len(order), 8)
    axes.set_xticks(places, [f"{order[i]}\n{100 * share[order[i]]:.1f} %" for i in places], fontsize=8)
    axes.grid(False, axis="x")
    axes.set(xlabel="final state, and how often it comes OOD", title="each final state by itself")


def draw_diagnosis(evidence: Evidence, diagnosis: Diagnosis) -> Figure:
    """The loss at the worst position through the stages, and accuracy at every stage's end."""
    figure, (left, right) = new_figure(1, 2, width=10.5, height=3.9)
    broken = broken_stage(evidence)
    at = 0
    for stage in evidence.stages:
        x = [at + (i + 1) * stage.iterations / max(1, len(stage.losses)) for i in range(len(stage.losses))]
        colour = PALETTE[1] if broken and stage.stage >= broken.stage else PALETTE[0]
        left.plot(x, stage.losses, color=colour, linewidth=1.3)
        at += stage.iterations
        left.axvline(at, color=INK, linewidth=0.5, alpha=0.25)
    left.axhline(evidence.chance_loss, color=INK, linestyle=":", linewidth=1.0)
    where = {"textcoords": "offset points", "xytext": (-3, 3), "ha": "right"}
    left.annotate("chance", (1, evidence.chance_loss), xycoords=("axes fraction", "data"), fontsize=8, **where)
    left.grid(False, axis="x")
    left.set(xlabel="iteration (thin lines: stage ends)", ylabel="training loss, worst answer position")
    left.set_ylim(0, 3 * evidence.chance_loss)  # a new stage often begins far above
    left.set_title("loss", fontsize=10)
    _stage_ends(right, evidence)
    figure.suptitle(f"{diagnosis.title}: {diagnosis.headline}", fontsize=10)
    return figure


def _stage_ends(axes: Any, evidence: Evidence) -> None:
    known = [(stage.stage, stage.target) for stage in evidence.stages if stage.target is not None]
    _band(axes, [s for s, _ in known], [rate for _, rate in known], "on the stage's own last state", 0)
    _accuracy_axis(axes, evidence.chance)
    places = ticks(evidence.total_stages)
    axes.set_xticks([k + 1 for k in places])
    axes.set_xlim(0.5, evidence.total_stages + 0.5)
    axes.set(xlabel="stage", ylabel="last shown state right, ID")
    axes.set_title("accuracy at the end of each stage (dotted: chance)", fontsize=10)
