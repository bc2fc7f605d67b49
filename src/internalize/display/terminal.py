"""What a run looks like while it runs: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as RichTable
from rich.text import Text

from internalize.contract import Begun, End, Ended, Event, Row, RunState, Stage, Stepped, Written
from internalize.statistics.intervals import percentage


class PlainConsole(Console):
    """Every text that is printed passes `plain`: a terminal obeys our own styles, and nothing from a file."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(plain(text), **options)


def errors_console() -> Console:
    """Progress goes to the error stream, so that results can be piped."""
    return PlainConsole(stderr=True)


def duration(seconds: float) -> str:
    """`45 s`, `12 min 5 s`, `3 h 20 min`, `2 d 4 h`; a dash for what is no time."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def plain(text: Any) -> str:
    """Text from a file or a name as it can be shown: what a terminal would obey is spelled out.

    Control characters, and those that turn the direction of writing; lines stay lines.
    """
    return "".join(letter if letter == "\n" or _is_shown(letter) else _spelled(letter) for letter in str(text))


def _is_shown(letter: str) -> bool:
    return unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _spelled(letter: str) -> str:
    return letter.encode("unicode_escape").decode() if letter != "\t" else " "


def percent(value: Any) -> str:
    """`98.3 %`; a dash for what is no number. See `percentage` for what is nearly none or nearly all."""
    return f"{percentage(value)} %" if isinstance(value, float) else "–"


class Pace:
    """Steps a second, over the last few seconds, and how long the rest will take."""

    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []

    def mark(self, step: int) -> None:
        now = time.perf_counter()
        if not self._marks or now - self._marks[-1][0] >= 0.5:
            self._marks = [*self._marks[-40:], (now, step)]

    def rate(self) -> float | None:
        if len(self._marks) < 2:
            return None
        (start, first), (end, last) = self._marks[0], self._marks[-1]
        return (last - first) / (end - start)

    def left(self, stage: Stage) -> str:
        rate = self.rate()
        return f"{duration((stage.steps - stage.step) / rate)} left" if rate else "…"


class RunView:
    """The parts that both views share: the newest numbers and the pace."""

    def __init__(self, title: str, headline: Mapping[str, str], samples_per_step: int) -> None:
        """headline: which entries of a row are shown, key → heading."""
        self.title = plain(title)
        self.headline = headline
        self.samples_per_step = samples_per_step
        self.numbers: dict[str, float] = {}
        self.pace = Pace()

    def take(self, row: Mapping[str, Any]) -> None:
        self.numbers |= {key: row[key] for key in self.headline if isinstance(row.get(key), float)}

    def shown_numbers(self) -> list[str]:
        parts = []
        for key, heading in self.headline.items():
            if key in self.numbers:
                value = self.numbers[key]
                parts.append(f"{heading} {percent(value) if 'accuracy' in key else f'{value:.4f}'}")
        return parts

    def speed(self) -> str:
        rate = self.pace.rate()
        return f"{rate * self.samples_per_step:,.0f} samples/s" if rate else "…"


class LiveView(RunView):
    """A few lines on a terminal that are drawn anew four times a second."""

    def __init__(self, title: str, headline: Mapping[str, str], samples_per_step: int) -> None:
        super().__init__(title, headline, samples_per_step)
        self._stage: Stage | None = None
        self._live = Live(
            get_renderable=self._draw, console=errors_console(), refresh_per_second=4, transient=True
        )

    def begin(self, folder: Path, stage: Stage) -> None:
        self._stage = stage
        self._live.start()

    def stepped(self, stage: Stage) -> None:
        self._stage = stage
        self.pace.mark(stage.step)

    def row(self, row: Row, stage: Stage) -> None:
        self.take(row)

    def end(self, state: RunState, summary: Row) -> None:
        self._live.stop()

    def _draw(self) -> RenderableType:
        stage = self._stage
        if stage is None:
            return Text(self.title)
        bars = RichTable.grid(padding=(0, 2))
        for name, done, total, note in (
            ("stage", stage.index - 1, stage.total, f"{stage.index} of {stage.total}: {stage.label}"),
            (stage.unit, stage.step, stage.steps, f"{stage.step:,} of {stage.steps:,}"),
        ):
            bars.add_row(name, ProgressBar(total=total, completed=done, width=30), note)
        numbers = "   ".join([*self.shown_numbers(), self.speed(), self.pace.left(stage)])
        return Group(Text(self.title, style="bold"), bars, Text(numbers))


class LineView(RunView):
    """A timestamped line for every evaluation, and a sign of life every half minute."""

    QUIET_SECONDS = 30.0

    def __init__(self, title: str, headline: Mapping[str, str], samples_per_step: int) -> None:
        super().__init__(title, headline, samples_per_step)
        self._last_line = time.perf_counter()

    def begin(self, folder: Path, stage: Stage) -> None:
        again = f", going on at {stage.unit[:-1]} {stage.step:,}" if stage.step else ""
        self._print(f"{self.title}{again}")

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
        self._print(", ".join([where, *self.shown_numbers(), self.speed(), self.pace.left(stage)]))

    def _print(self, text: str) -> None:
        self._last_line = time.perf_counter()
        print(f"{datetime.now():%H:%M:%S} {plain(text)}", file=sys.stderr, flush=True)


def run_view(title: str, headline: Mapping[str, str], samples_per_step: int) -> LiveView | LineView:
    """A live view where progress goes to a terminal, lines where it goes to a file or a pipe."""
    view = LiveView if sys.stderr.isatty() else LineView
    return view(title, headline, samples_per_step)


def results_table(title: str, columns: list[str], rows: list[list[str]]) -> RichTable:
    """A small table of results: first column left, the others right."""
    table = RichTable(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*row)
    return table


MOST_ROWS = 24
STATES = {
    End.DONE: RunState.DONE,
    End.FAILED: RunState.FAILED,
    End.LOST: RunState.INTERRUPTED,
    End.INTERRUPTED: RunState.INTERRUPTED,
    End.RETRY: RunState.WAITING,
    End.BUSY: RunState.ELSEWHERE,
}
"""What the end of an attempt makes of a run."""
OVER = (RunState.DONE, RunState.FAILED, RunState.INTERRUPTED)
ALWAYS_COUNTED = (RunState.DONE, RunState.RUNNING, RunState.FAILED, RunState.WAITING)
COUNTED_IF_ANY = (RunState.ELSEWHERE, RunState.INTERRUPTED)


@dataclass
class _Line:
    """What is known of one run."""

    name: str
    weight: float = 1.0
    state: RunState = RunState.WAITING
    stage: Stage | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)
    error: str = ""
    share_before: float = 0.0
    """How much of it was done when it was first heard of."""

    @property
    def share(self) -> float:
        """How much of it is done, of 1."""
        if self.state == RunState.DONE:
            return 1.0
        return 0.0 if self.stage is None else self.stage.step / max(1, self.stage.steps)


class Fleet:
    """The newest of every run, from what it says of itself."""

    def __init__(
        self,
        title: str,
        headline: Mapping[str, str],
        expected: Sequence[float] | None = None,
        unit: str = "steps",
    ) -> None:
        """expected: seconds of every run, to weigh them by; all alike if not given. unit: of a run's steps."""
        self.title = plain(title)
        self.unit = unit
        self.headline = headline
        self.lines: list[_Line] = []
        self._expected = expected
        self._began = time.perf_counter()

    def begin(self, names: Sequence[str]) -> None:
        expected = [1.0] * len(names) if self._expected is None else self._expected
        self.lines = [_Line(plain(name), weight) for name, weight in zip(names, expected, strict=True)]
        self._began = time.perf_counter()

    def totals(self) -> str:
        """`12 done, 2 running, 86 waiting, about 3 h left`."""
        counts = Counter(line.state for line in self.lines)
        states = [*ALWAYS_COUNTED, *(state for state in COUNTED_IF_ANY if counts[state])]
        parts = [f"{counts[state]} {state}" for state in states]
        return ", ".join([*parts, *([f"about {left} left"] if (left := self._left()) else [])])

    def _left(self) -> str:
        """By how fast the whole has moved since the beginning."""
        moved = sum(line.weight * (line.share - line.share_before) for line in self.lines)
        rest = sum(line.weight * (1 - line.share) for line in self.lines if line.state not in OVER)
        spent = time.perf_counter() - self._began
        return duration(rest * spent / moved) if moved > 0 and spent > 5 and rest > 0 else ""

    def event(self, index: int, event: Event) -> None:
        line = self.lines[index]
        match event:
            case Ended():
                line.state, line.error = STATES[event.how], event.error or line.error
            case Begun() | Stepped() | Written():
                line.state = RunState.RUNNING
                new = line.stage is None
                line.stage = event.stage
                line.share_before = line.share if new else line.share_before
                line.pace.mark(line.stage.step)
        if isinstance(event, Written):
            found = {key: event.row.get(key) for key in self.headline}
            line.numbers |= {key: value for key, value in found.items() if isinstance(value, float)}

    def end(self) -> None: ...

    def numbers(self, line: _Line) -> list[str]:
        cells = []
        for key in self.headline:
            value = line.numbers.get(key)
            cells.append("" if value is None else percent(value) if "accuracy" in key else f"{value:.4f}")
        return cells


class LiveFleet(Fleet):
    """A table on a terminal, drawn anew four times a second."""

    def __init__(
        self,
        title: str,
        headline: Mapping[str, str],
        expected: Sequence[float] | None = None,
        unit: str = "steps",
    ) -> None:
        super().__init__(title, headline, expected, unit)
        self._live = Live(
            get_renderable=self.draw, console=errors_console(), refresh_per_second=4, transient=True
        )

    def begin(self, names: Sequence[str]) -> None:
        super().begin(names)
        self._live.start()

    def end(self) -> None:
        self._live.stop()

    def draw(self) -> RenderableType:
        table = RichTable()
        for i, name in enumerate(["run", "", "stage", self.unit, *self.headline.values(), ""]):
            table.add_column(name, justify="left" if i < 2 else "right")
        for line in self._shown():
            stage = line.stage
            cells = ["", "", ""]
            if stage is not None:
                left = line.pace.left(stage) if line.state == RunState.RUNNING else ""
                cells = [f"{stage.index}/{stage.total}", f"{stage.step:,}/{stage.steps:,}", left]
            table.add_row(Text(line.name), line.state, *cells[:2], *self.numbers(line), cells[2])
        return Group(Text(f"{self.title}: {self.totals()}", style="bold"), table)

    def _shown(self) -> list[_Line]:
        """All of them, or where they are too many those that run, then those that failed."""
        if len(self.lines) <= MOST_ROWS:
            return self.lines
        running = [line for line in self.lines if line.state == RunState.RUNNING]
        failed = [line for line in self.lines if line.state in (RunState.FAILED, RunState.INTERRUPTED)]
        return [*running, *failed][:MOST_ROWS]


class LineFleet(Fleet):
    """A timestamped line for each evaluation and when a run ends; with many runs for the ends alone."""

    def event(self, index: int, event: Event) -> None:
        super().event(index, event)
        line = self.lines[index]
        many = len(self.lines) > MOST_ROWS
        evaluated = isinstance(event, Written) and event.row.get("event") == "evaluation" and not many
        if not evaluated and not isinstance(event, Ended):
            return
        parts = [f"{h} {n}" for h, n in zip(self.headline.values(), self.numbers(line), strict=True) if n]
        if line.stage is not None:
            parts.insert(
                0, f"stage {line.stage.index}/{line.stage.total}, {line.stage.step:,} {line.stage.unit}"
            )
        text = plain(line.error) if line.error and line.state != RunState.DONE else ", ".join(parts)
        total = f" ({self.totals()})" if many else ""
        print(
            f"{datetime.now():%H:%M:%S} {line.name}: {line.state}, {text}{total}", file=sys.stderr, flush=True
        )


def fleet_view(
    title: str, headline: Mapping[str, str], expected: Sequence[float] | None = None, unit: str = "steps"
) -> Fleet:
    """A live table where progress goes to a terminal, lines where it goes to a file or a pipe.

    expected: seconds of every run, for the time left of all. unit: what a step of these runs is called.
    """
    return (LiveFleet if sys.stderr.isatty() else LineFleet)(title, headline, expected, unit)
