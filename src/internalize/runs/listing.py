"""Runs as lines of a terminal. Plain text: a framed table of ten thousand runs would take many seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from internalize.display.terminal import duration, percent
from internalize.runs.store import Entry

HEADINGS = ("run", "task", "T", "method", "seed", "state", "ID", "OOD", "took")
LEFT = {"run", "task", "method", "state"}


def listing(entries: Sequence[Entry]) -> str:
    """One line a run, below headings."""
    rows = [_cells(entry) for entry in entries]
    widths = [max(len(row[i]) for row in [HEADINGS, *rows]) for i in range(len(HEADINGS))]
    sides = ["<" if heading in LEFT else ">" for heading in HEADINGS]
    form = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return "\n".join(form.format(*row).rstrip() for row in [HEADINGS, *rows])


def _cells(entry: Entry) -> tuple[str, ...]:
    return (
        entry.path,
        entry.task or "–",
        _text(entry.horizon),
        entry.method or "–",
        _text(entry.seed),
        entry.state,
        percent(entry.accuracy),
        percent(entry.ood_accuracy),
        "–" if entry.seconds is None else duration(entry.seconds),
    )


def _text(value: Any) -> str:
    return "–" if value is None else str(value)


def as_json(entry: Entry) -> dict[str, Any]:
    """An entry as one object, for programs."""
    hidden = ("stamp", "config_text", "summary_text")
    plain = {name: value for name, value in vars(entry).items() if name not in hidden}
    return {**plain, "config": entry.config, "summary": entry.summary}
