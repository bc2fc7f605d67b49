"""Runs as lines of a terminal. Plain text: a framed table of ten thousand runs would take many seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from internalize.display.terminal import duration, percent
from internalize.runs.finding import hash_in_name
from internalize.runs.store import Entry

HEADINGS = ("run", "task", "T", "method", "seed", "state", "ID", "OOD", "took")
LEFT = {"run", "task", "method", "state"}
SHORT_HASH = 8
"""Letters of a hash where the whole name has no room: of ten thousand runs hardly two begin alike."""
WHOLE_NAMES = "the hash stands for the name; whole names: a wider terminal, or --json"


def listing(entries: Sequence[Entry], columns: int | None = None) -> str:
    """One line a run, below headings; with hashes in place of names that are too long for the columns."""
    rows = [_cells(entry) for entry in entries]
    text = _aligned(rows)
    if columns is None or len(rows) == 0 or max(map(len, text)) <= columns:
        return "\n".join(text)
    short = [(_short_name(entry), *row[1:]) for entry, row in zip(entries, rows, strict=True)]
    return "\n".join([*_aligned(short), WHOLE_NAMES])


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The headings and the rows as lines, every column as wide as its widest cell."""
    table = [HEADINGS, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    sides = ["<" if heading in LEFT else ">" for heading in HEADINGS]
    form = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return [form.format(*row).rstrip() for row in table]


def _short_name(entry: Entry) -> str:
    """What commands take for the run: the beginning of the hash, or the path where its end is not the hash."""
    return hash_in_name(entry.path)[:SHORT_HASH] or entry.path


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
