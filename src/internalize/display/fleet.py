"""Many runs at once: one live table on a terminal, a line for every end elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from internalize.contract import Begun, End, Ended, Event, RunState, Stage, Stepped, Written
from internalize.display.terminal import Pace, duration, errors_console, percent

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
        self.title = title
        self.unit = unit
        self.headline = headline
        self.lines: list[_Line] = []
        self._expected = expected
        self._began = time.perf_counter()

    def begin(self, names: Sequence[str]) -> None:
        expected = [1.0] * len(names) if self._expected is None else self._expected
        self.lines = [_Line(name, weight) for name, weight in zip(names, expected, strict=True)]
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
        text = line.error if line.error and line.state != RunState.DONE else ", ".join(parts)
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
