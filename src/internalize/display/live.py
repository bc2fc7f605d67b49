"""What one run looks like while it trains: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.text import Text

from internalize.contract import Row, RunState, Stage
from internalize.display.plots import text_plot
from internalize.display.terminal import Pace, errors_console, newest_numbers, own_target, percent, plain

Samples = Callable[[Path], Sequence[Sequence[str]]]
"""The run's folder to a few answers of its newest model: rows of stage, input, answer and truth."""
SAID = 2
"""Answers that a terminal shows."""


@dataclass(frozen=True)
class Watched:
    """What is known of a run before it begins."""

    title: str
    headline: Mapping[str, str]
    """Which entries of a row are shown, key → heading."""
    samples_per_step: int = 1
    chance: float | None = None
    """How often always giving the commonest answer is right."""
    answers: Samples | None = None


def step_of(row: Mapping[str, Any]) -> int:
    """Where on the way a row was written, by whichever name its kind has for it."""
    return int(row.get("iteration", row.get("step", 0)))


def placed(row: Row, stage: Stage) -> Row:
    """The row, with the step at which it was written if it does not say so itself."""
    return {"step": stage.step, **row}


def rows_so_far(folder: Path) -> list[dict[str, Any]]:
    """The rows of metrics that a run which goes on has already written."""
    try:
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]
    except (OSError, ValueError):  # there is none yet
        return []


class RunView:
    """The parts that both views share: the newest numbers and the pace."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.title = plain(watched.title)
        self.numbers: dict[str, str] = {}
        self.pace = Pace()

    def take(self, row: Mapping[str, Any]) -> None:
        self.numbers |= newest_numbers(row, self.watched.headline)

    def shown_numbers(self) -> list[str]:
        headline = self.watched.headline.items()
        return [f"{heading} {self.numbers[key]}" for key, heading in headline if key in self.numbers]

    def speed(self, stage: Stage) -> list[str]:
        """Samples a second and how long the rest takes; nothing before it is known."""
        rate = self.pace.rate()
        return [f"{rate * self.watched.samples_per_step:,.0f} samples/s", self.pace.left(stage)] if rate else []


class LiveView(RunView):
    """A curve, the newest numbers and an answer on a terminal, drawn anew four times a second."""

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._stage: Stage | None = None
        self._folder = Path()
        self._curves: dict[str, list[tuple[float, float]]] = {}
        self._said: Sequence[Sequence[str]] = ()
        self._live = Live(
            get_renderable=self.draw, console=errors_console(), refresh_per_second=4, transient=True
        )

    def begin(self, folder: Path, stage: Stage) -> None:
        self._stage, self._folder = stage, folder
        for row in rows_so_far(folder):
            self._keep(row)
        self._live.start()

    def stepped(self, stage: Stage) -> None:
        self._stage = stage
        self.pace.mark(stage.step)
        if stage.just_ended and self.watched.answers is not None:  # by now the stage's weights may be kept
            self._said = self.watched.answers(self._folder)

    def row(self, row: Row, stage: Stage) -> None:
        self._keep(placed(row, stage))

    def end(self, state: RunState, summary: Row) -> None:
        self._live.stop()

    def _keep(self, row: Mapping[str, Any]) -> None:
        self.take(row)
        for key, heading in self.watched.headline.items():
            if key.endswith("accuracy") and isinstance(row.get(key), float):
                points = self._curves.setdefault(f"{heading} right, in %", [])
                own = own_target(row, key)  # the curve tells what the number above it tells
                points.append((step_of(row), 100 * (row[key] if own is None else own)))

    def draw(self) -> RenderableType:
        stage = self._stage
        if stage is None:
            return Text(self.title)
        bars = RichTable.grid(padding=(0, 2))
        for name, done, total, note in (
            ("stage", stage.index - 1, stage.total, f"{stage.index} of {stage.total}: {stage.label}"),
            (stage.unit, stage.step, stage.steps, f"{stage.step:,} of {stage.steps:,}"),
        ):
            bars.add_row(name, ProgressBar(total=total, completed=done, width=30), note)
        numbers = "   ".join([*self.shown_numbers(), *self.speed(stage)])
        parts: list[RenderableType] = [Text(self.title, style="bold"), bars, Text(numbers)]
        return Group(*parts, *self._picture(), *self._answers())

    def _picture(self) -> list[RenderableType]:
        """Right answers over iterations, as soon as there are two measurements."""
        if max(map(len, self._curves.values()), default=0) < 2:
            return []
        chance = self.watched.chance
        level = None if chance is None else (f"chance {percent(chance)}", 100 * chance)
        return [Text(text_plot(self._curves, 56, 7, (0.0, 100.0), level), style="dim")]

    def _answers(self) -> list[RenderableType]:
        """The first few: stage, input, answer, truth."""
        if not self._said:
            return []
        grid = RichTable.grid(padding=(0, 2))
        for stage, asked, said, truth in self._said[:SAID]:
            judged = Text("right", style="green") if said == truth else Text(f"should be {plain(truth)}", "red")
            grid.add_row(f"stage {stage} says", Text(plain(asked)), Text(plain(said), style="bold"), judged)
        return [grid]


class LineView(RunView):
    """A timestamped line for every evaluation, and a sign of life every half minute."""

    QUIET_SECONDS = 30.0

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._last_line = time.perf_counter()

    def begin(self, folder: Path, stage: Stage) -> None:
        again = f", going on at {stage.unit[:-1]} {stage.step:,}" if stage.step else ""
        chance = self.watched.chance
        known = "" if chance is None else f", chance {percent(chance)}"
        self._print(f"{self.title}{again}{known}")

    def stepped(self, stage: Stage) -> None:
        self.pace.mark(stage.step)
        if time.perf_counter() - self._last_line > self.QUIET_SECONDS:
            self._print_progress(stage)

    def row(self, row: Row, stage: Stage) -> None:
        self.take(row)
        if row.get("event") == "evaluation":
            self._print_progress(stage)

    def end(self, state: RunState, summary: Row) -> None:
        self._print(f"{self.title}: {state}")

    def _print_progress(self, stage: Stage) -> None:
        where = (
            f"stage {stage.index}/{stage.total} ({stage.label}), {stage.step:,}/{stage.steps:,} {stage.unit}"
        )
        self._print(", ".join([where, *self.shown_numbers(), *self.speed(stage)]))

    def _print(self, text: str) -> None:
        self._last_line = time.perf_counter()
        print(f"{datetime.now():%H:%M:%S} {plain(text)}", file=sys.stderr, flush=True)


def run_view(watched: Watched) -> LiveView | LineView:
    """A live view where progress goes to a terminal, lines where it goes to a file or a pipe."""
    return (LiveView if sys.stderr.isatty() else LineView)(watched)
