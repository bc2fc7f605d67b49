"""Many runs at once: one live table on a terminal, a line for every end elsewhere."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from rich.live import Live
from rich.table import Table as RichTable

from internalize.display.terminal import Pace, errors_console, percent

MOST_ROWS = 24


@dataclass
class _Line:
    """What is known of one run."""

    name: str
    state: str = "waiting"
    stage: SimpleNamespace | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)
    error: str = ""


class Fleet:
    """The newest of every run, from the events of `experiments/worker.py`."""

    def __init__(self, title: str, headline: Mapping[str, str]) -> None:
        self.title = title
        self.headline = headline
        self.lines: list[_Line] = []

    def begin(self, names: Sequence[str]) -> None:
        self.lines = [_Line(name) for name in names]

    def event(self, index: int, event: Mapping[str, Any]) -> None:
        line = self.lines[index]
        line.state = event["event"] if event["event"] in ("done", "failed", "interrupted") else "running"
        line.error = event.get("error", line.error)
        if "stage" in event:
            line.stage = SimpleNamespace(**event["stage"])
            line.pace.mark(line.stage.step)
        row = event.get("row", {})
        line.numbers |= {key: row[key] for key in self.headline if isinstance(row.get(key), float)}

    def end(self) -> None: ...

    def numbers(self, line: _Line) -> list[str]:
        cells = []
        for key in self.headline:
            value = line.numbers.get(key)
            cells.append("" if value is None else percent(value) if "accuracy" in key else f"{value:.4f}")
        return cells


class LiveFleet(Fleet):
    """A table on a terminal, drawn anew four times a second."""

    def __init__(self, title: str, headline: Mapping[str, str]) -> None:
        super().__init__(title, headline)
        self._live = Live(
            get_renderable=self.draw, console=errors_console(), refresh_per_second=4, transient=True
        )

    def begin(self, names: Sequence[str]) -> None:
        super().begin(names)
        self._live.start()

    def end(self) -> None:
        self._live.stop()

    def draw(self) -> RichTable:
        counts = Counter(line.state for line in self.lines)
        summary = ", ".join(f"{counts[state]} {state}" for state in ("done", "running", "failed", "waiting"))
        table = RichTable(title=f"{self.title}: {summary}", title_justify="left", title_style="bold")
        for i, name in enumerate(["run", "", "stage", "steps", *self.headline.values(), ""]):
            table.add_column(name, justify="left" if i < 2 else "right")
        for line in self._shown():
            stage = line.stage
            cells = ["", "", ""]
            if stage is not None:
                left = line.pace.left(stage) if line.state == "running" else ""
                cells = [f"{stage.index}/{stage.total}", f"{stage.step:,}/{stage.steps:,}", left]
            table.add_row(line.name, line.state, *cells[:2], *self.numbers(line), cells[2])
        return table

    def _shown(self) -> list[_Line]:
        """All of them, or where they are too many those that run or failed, and the newest others."""
        if len(self.lines) <= MOST_ROWS:
            return self.lines
        order = {"running": 0, "failed": 1, "interrupted": 1, "done": 2, "waiting": 3}
        return sorted(self.lines, key=lambda line: order[line.state])[:MOST_ROWS]


class LineFleet(Fleet):
    """A timestamped line when a run begins, at the end of each stage it evaluates, and when it ends."""

    def event(self, index: int, event: Mapping[str, Any]) -> None:
        super().event(index, event)
        line = self.lines[index]
        ended = event["event"] in ("done", "failed", "interrupted")
        if not ended and event.get("row", {}).get("event") != "evaluation":
            return
        parts = [f"{h} {n}" for h, n in zip(self.headline.values(), self.numbers(line), strict=True) if n]
        if line.stage is not None:
            parts.insert(
                0, f"stage {line.stage.index}/{line.stage.total}, {line.stage.step:,} {line.stage.unit}"
            )
        text = line.error if line.error else ", ".join(parts)
        print(f"{datetime.now():%H:%M:%S} {line.name}: {line.state}, {text}", file=sys.stderr, flush=True)


def fleet_view(title: str, headline: Mapping[str, str]) -> Fleet:
    """A live table where progress goes to a terminal, lines where it goes to a file or a pipe."""
    return (LiveFleet if sys.stderr.isatty() else LineFleet)(title, headline)
