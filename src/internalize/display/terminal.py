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
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from internalize.contract import Begun, End, Ended, Event, RunState, Stage, Stepped, Written, named
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


def newest_numbers(row: Mapping[str, Any], headline: Mapping[str, str]) -> dict[str, str]:
    """The entries of a row that a view shows, as text.

    Where a stage's answer does not end in q_T, an accuracy is that on the stage's own last state, and the one
    on q_T stands beside it.
    """
    found = {}
    for key in headline:
        value = row.get(key)
        if isinstance(value, float):
            found[key] = accuracy_told(row, key) if "accuracy" in key else f"{value:.4f}"
    return found


def accuracy_told(row: Mapping[str, Any], key: str) -> str:
    """`98.3 %`; or `99.1 % (q_T 53.0 %)` where the accuracy on the stage's own target is another one."""
    value, own = percent(row[key]), own_target(row, key)
    return value if own is None else f"{percent(own)} (q_T {value})"


def own_target(row: Mapping[str, Any], key: str) -> float | None:
    """How often the stage's own last word is right, where that is another question than the final answer."""
    target = row.get(key.replace("_accuracy", "_target_accuracy")) if key.endswith("_accuracy") else None
    return target if isinstance(target, float) and target != row.get(key) else None


def interval_of(accuracy: str) -> str:
    """What the interval of an accuracy is called: `id_interval` for id_accuracy, `interval` for accuracy."""
    return accuracy.removesuffix("accuracy") + "interval"


def interval_beside(name: str, summary: Mapping[str, Any]) -> str:
    """` [98.1 %, 98.6 %]` for an accuracy whose interval the summary has too."""
    interval = summary.get(interval_of(name))
    if not (name.endswith("accuracy") and isinstance(interval, list) and len(interval) == 2):
        return ""
    return f" [{percent(interval[0])}, {percent(interval[1])}]"


def readable(name: str, value: Any) -> str:
    """A result as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if name.endswith(("accuracy", "exact_chain")):
            return percent(value)
        whole = value >= 1000 or (value >= 10 and value.is_integer())
        return f"{value:.2g}" if 0 < abs(value) < 0.01 else f"{value:,.{0 if whole else 2}f}"
    if isinstance(value, list):
        return ", ".join(readable("", item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{named(str(part))}: {readable(part, found)}" for part, found in value.items())
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


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
        return f"at most {duration((stage.steps - stage.step) / rate)} left" if rate else "…"


def bulleted(texts: Sequence[str]) -> RichTable:
    """A list with bullets; the lines of one entry begin below each other."""
    listed = RichTable.grid(padding=(0, 1, 0, 0))
    for text in texts:
        listed.add_row("•", text)
    return listed


class TitledTable(RichTable):
    """A table below its title, which is as wide as the terminal allows and not only as wide as the table."""

    def __init__(self, heading: str, **options: Any) -> None:
        super().__init__(**options)
        self.heading = heading

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield console.render_str(self.heading, style="bold")
        yield from super().__rich_console__(console, options)


def results_table(title: str, columns: list[str], rows: list[list[str]]) -> RichTable:
    """A small table of results: first column left, the others right."""
    table = TitledTable(title)
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
    numbers: dict[str, str] = field(default_factory=dict)
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
            line.numbers |= newest_numbers(event.row, self.headline)

    def end(self) -> None: ...

    def numbers(self, line: _Line) -> list[str]:
        return [line.numbers.get(key, "") for key in self.headline]


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
        told = [plain(line.error)] if line.error and line.state != RunState.DONE else parts
        total = f" ({self.totals()})" if many else ""
        text = ", ".join([line.state, *told])  # of a run that was done before there is no more to tell
        print(f"{datetime.now():%H:%M:%S} {line.name}: {text}{total}", file=sys.stderr, flush=True)


def fleet_view(
    title: str, headline: Mapping[str, str], expected: Sequence[float] | None = None, unit: str = "steps"
) -> Fleet:
    """A live table where progress goes to a terminal, lines where it goes to a file or a pipe.

    expected: seconds of every run, for the time left of all. unit: what a step of these runs is called.
    """
    return (LiveFleet if sys.stderr.isatty() else LineFleet)(title, headline, expected, unit)
