"""A page that renews itself while a training runs: curves by stage, and what the model says by now.

Plain HTML that asks the browser to load it again every few seconds: it opens from disk, and over SSH it can be
copied or served like any file. The terminal's view stays as it is.
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from internalize.contract import Row, RunState, Stage
from internalize.display import page
from internalize.display.terminal import Pace, percent

RENEWED = 3.0
"""Seconds between two versions of the page."""
ACCURACIES = {"id_accuracy": ("ID", "#0072B2", ""), "ood_accuracy": ("OOD", "#D55E00", "6 4")}
LOSSES = {"loss": ("mean", "#0072B2", ""), "worst_loss": ("worst answer position", "#D55E00", "6 4")}
WIDTH, HEIGHT, LEFT, BOTTOM = 640, 200, 56, 24

NAME = "live.html"

Samples = Callable[[Path], Sequence[Sequence[str]]]
"""The run's folder to a few answers of its newest model: rows of stage, input, answer and truth."""


class LivePage:
    """An observer that writes the page `live.html` into the run's folder, and changes nothing else."""

    def __init__(self, title: str, samples: Samples | None = None) -> None:
        self.title = title
        self.samples = samples
        self._folder = Path()
        self._rows: list[Mapping[str, Any]] = []
        self._said: Sequence[Sequence[str]] = ()
        self._pace = Pace()
        self._written = 0.0

    def begin(self, folder: Path, stage: Stage) -> None:
        self._folder = folder
        self._write(stage, "running")

    def stepped(self, stage: Stage) -> None:
        self._pace.mark(stage.step)

    def row(self, row: Row, stage: Stage) -> None:
        self._rows.append(row)
        evaluated = row.get("event") == "evaluation"
        if evaluated:
            self._ask()
        if evaluated or time.monotonic() - self._written > RENEWED:
            self._write(stage, "running")

    def end(self, state: RunState, summary: Row) -> None:
        self._ask()
        self._write(None, state)

    def _ask(self) -> None:
        if self.samples is not None:
            self._said = self.samples(self._folder)

    def _write(self, stage: Stage | None, state: str) -> None:
        self._written = time.monotonic()
        text = live_page(self.title, state, stage, self._rows, self._said, self._pace)
        unfinished = self._folder / f".{NAME}.new"
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(self._folder / NAME)  # a browser never sees half a page


def live_page(
    title: str,
    state: str,
    stage: Stage | None,
    rows: Sequence[Mapping[str, Any]],
    said: Sequence[Sequence[str]],
    pace: Pace,
) -> str:
    """The whole document; while the run goes on, it asks to be loaded again."""
    lead = state
    if stage is not None:
        where = f"{stage.step:,} of {stage.steps:,} {stage.unit}"
        lead = f"stage {stage.index} of {stage.total} ({stage.label}), {where}"
        lead += f", {pace.left(stage)}" if pace.rate() else ""
    trained = [row for row in rows if row.get("event") == "train"]
    measured = [row for row in rows if row.get("event") == "evaluation"]
    sections = [
        page.heading("Right answers"),
        page.figure(
            curve(measured, ACCURACIES, 1.0),
            "Share of right answers as in training (ID) and unlike it (OOD, dashed); dotted: a stage ends.",
        ),
        page.heading("Loss"),
        page.figure(curve(trained, LOSSES, None), "Mean over the answer, and at its worst position (dashed)."),
    ]
    if measured:
        sections += [
            page.heading("Stage by stage"),
            page.table(["stage", "iteration", "ID", "OOD"], _stages(measured)),
        ]
    if said:
        sections += [page.heading("What it says"), page.table(["stage", "input", "answer", "truth"], said)]
    text = page.page(title, lead, sections, f"{time.strftime('%Y-%m-%d %H:%M:%S')}; {state}")
    if stage is None:
        return text
    return text.replace("<head>", f'<head>\n<meta http-equiv="refresh" content="{RENEWED:.0f}">', 1)


def _stages(measured: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The last measurement of every stage."""
    last = {row.get("stage", 1): row for row in measured}
    return [
        [
            str(stage),
            f"{row.get('iteration', 0):,}",
            percent(row.get("id_accuracy")),
            percent(row.get("ood_accuracy")),
        ]
        for stage, row in last.items()
    ]


def curve(
    rows: Sequence[Mapping[str, Any]],
    lines: Mapping[str, tuple[str, str, str]],
    top: float | None,
) -> str:
    """Lines over iterations as an <svg>; top: the largest value, found if None."""
    known = [row for row in rows if any(isinstance(row.get(key), float) for key in lines)]
    if not known:
        return "<p>Nothing was measured yet.</p>"
    values = [row[key] for row in known for key in lines if isinstance(row.get(key), float)]
    high = top if top is not None else max(*values, 1e-9)
    last = max(row.get("iteration", 0) for row in known) or 1

    def x(row: Mapping[str, Any]) -> float:
        return LEFT + (WIDTH - LEFT - 8) * row.get("iteration", 0) / last

    def y(value: float) -> float:
        return 8 + (HEIGHT - 8 - BOTTOM) * (1 - value / high)

    parts = []
    for value in (0.0, high / 2, high):
        name = percent(value) if top is not None else f"{value:.3g}"
        parts.append(_line(LEFT, y(value), WIDTH - 8, y(value), "currentColor", 'stroke-opacity=".15"'))
        parts.append(
            f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{html.escape(name)}</text>'
        )
    for before, after in pairwise(known):
        if before.get("stage") != after.get("stage"):
            parts.append(
                _line(x(before), 8, x(before), HEIGHT - BOTTOM, "currentColor", 'stroke-dasharray="1 4"')
            )
    for key, (name, colour, dash) in lines.items():
        points = " ".join(f"{x(row):.1f},{y(row[key]):.1f}" for row in known if isinstance(row.get(key), float))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}">'
            f"<title>{html.escape(name)}</title></polyline>"
        )
    parts.append(f'<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end">{last:,} iterations</text>')
    keys = ", ".join(f"{name}{' (dashed)' if dash else ''}" for name, _, dash in lines.values())
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(keys)} over training" '
        f'font-size="12" fill="currentColor">{"".join(parts)}</svg>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {more}/>'
