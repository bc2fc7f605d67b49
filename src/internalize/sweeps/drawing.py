"""Pictures of a sweep's finished runs: rates, curves, and the share that has internalized by each iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from internalize.configs.files import make_folder
from internalize.contract import Row, named
from internalize.display.charts import task_name
from internalize.display.plots import LINES, PALETTE, new_figure, save
from internalize.errors import BadInput, require
from internalize.runs.folder import Run
from internalize.statistics import SUCCESS, Rate, Waiting
from internalize.sweeps.collection import Collected, groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Picture = Literal["rates", "curves", "survival"]
FORMATS = ("png", "svg", "pdf")
STEPS = ("iteration", "step", "phase", "round")
"""What the rows of the kinds call how far a run is."""


def require_picture(path: Path) -> str:
    """The format that a picture's name asks for; what cannot be had is refused before anything is written."""
    kind = path.suffix.removeprefix(".").lower()
    require(kind in FORMATS, "plot", f"must end in .png, .svg or .pdf, got {path}")
    make_folder(path.parent, "plot")
    return kind


def draw_sweep(
    collected: Collected, by: Sequence[str], results: Sequence[str], picture: Picture, path: Path
) -> Path:
    """Draw the finished runs, told apart by the fields `by`, into a file whose ending says the format."""
    kind = require_picture(path)
    collected.require_rows()
    figure = {"rates": _rates, "curves": _curves, "survival": _survival}[picture](collected, by, results)
    try:
        return save(figure, path.with_suffix(""), [kind])[0]
    except OSError as error:
        raise BadInput("plot", f"cannot write {path}: {error.strerror}") from None


def _rates(collected: Collected, by: Sequence[str], results: Sequence[str]) -> Figure:
    from internalize.display.charts import success_bars

    found = groups(collected, by, results)
    series: dict[str, list[Rate | None]] = {
        named(name): [group.rates.get(name) for group in found] for name in results
    }
    places = [_named(group.fields) for group in found]
    figure, axes = new_figure(1, 1, width=max(4.5, 1.2 * len(places) + 2), height=3.4)
    success_bars(axes, places, series, what="share of finished runs")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _curves(collected: Collected, by: Sequence[str], results: Sequence[str]) -> Figure:
    """In-distribution accuracy of every run over its training; one colour and line for each group."""
    figure, axes = new_figure(1, 1, width=6.5, height=3.6)
    for style, (name, rows) in enumerate(_by_group(collected, by).items()):
        colour, line = PALETTE[style % len(PALETTE)], LINES[style % len(LINES)]
        for number, row in enumerate(rows):
            points = _accuracy_points(_run_of(collected, row))
            label = name if number == 0 else None
            axes.plot(*zip(*points, strict=True), line, color=colour, alpha=0.7, lw=1.2, label=label)
    axes.axhline(SUCCESS, color="#888888", linewidth=0.8, linestyle="--", zorder=0)
    axes.set(xlabel="step", ylabel="accuracy, in distribution", ylim=(0, 1.03))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _survival(collected: Collected, by: Sequence[str], results: Sequence[str]) -> Figure:
    from internalize.display.charts import waiting_curves

    series = {name: [waiting_of(row) for row in rows] for name, rows in _by_group(collected, by).items()}
    figure, axes = new_figure(1, 1, width=6.5, height=3.6)
    waiting_curves(axes, series)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def waiting_of(row: Row) -> Waiting:
    """Until the run internalized; where it never did, its whole budget, also if it was given up before.

    Who was given up has failed. Left out from then on, failures would make their group look the better.
    """
    when = row.get("iterations_to_internalize")
    if isinstance(when, int | float):
        return Waiting(float(when), True)
    known, budget = "iterations_to_internalize" in row, row.get("iterations")
    told = f"{row['run']} does not say when it internalized: draw rates or curves"
    require(known and isinstance(budget, int | float), "show", told)
    return Waiting(float(budget), False)  # type: ignore[arg-type]


def _by_group(collected: Collected, by: Sequence[str]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in collected.rows:
        found.setdefault(_named({name: row.get(name) for name in by}), []).append(row)
    return found


def _named(fields: Mapping[str, Any]) -> str:
    """`left, width 64`: a word speaks for itself, a number needs its name."""
    said = [
        task_name(value) if isinstance(value, str) else f"{name.rpartition('.')[2]} {value}"
        for name, value in fields.items()
    ]
    return ", ".join(said) or "all runs"


def _run_of(collected: Collected, row: Row) -> Run:
    folder = collected.out / str(row["run"])
    require(folder.is_dir(), "show", f"{folder} is not here, and its row has no curve: draw rates or survival")
    return Run.at(folder)


def _accuracy_points(run: Run) -> list[tuple[float, float]]:
    """(step, accuracy) of the run's measurements."""
    points = []
    for row in run.metrics():
        step = next((row[name] for name in STEPS if name in row), None)
        value = row.get("id_accuracy", row.get("accuracy"))
        if isinstance(step, int | float) and isinstance(value, float):
            points.append((float(step), value))
    require(bool(points), "show", f"{run.path} has no measured accuracy: draw rates")
    return points
