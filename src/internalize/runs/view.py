"""Runs in a terminal: all of them as lines, or one with its config, its results and its curves."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from internalize.contract import RunState
from internalize.display.plots import text_plot
from internalize.display.terminal import duration, percent, plain
from internalize.runs.folder import Run
from internalize.runs.index import Entry
from internalize.runs.location import hash_in_name
from internalize.runs.storage import is_owned
from internalize.runs.table import Table, flat

# All of them: plain text, since a framed table of ten thousand runs would take many seconds --------------

HEADINGS = ("run", "task", "T", "method", "seed", "state", "ID", "OOD", "took")
LEFT = {"run", "task", "method", "state"}
SHORT_HASH = 8
"""Letters of a hash where the whole name has no room: of ten thousand runs hardly two begin alike."""
WHOLE_NAMES = "the hash stands for the name; whole names: a wider terminal, or --json"


def listing(entries: Sequence[Entry], columns: int | None = None) -> str:
    """One line a run, below headings; with hashes in place of names that are too long for the columns."""
    rows = [_cells(entry) for entry in entries]
    text = _aligned(rows)
    if any(entry.state == RunState.DAMAGED for entry in entries):  # with reasons, whatever the width
        reasons = [
            "",
            *(
                f"  {_name(entry.message or '')}" if entry.state == RunState.DAMAGED else ""
                for entry in entries
            ),
        ]
        return "\n".join(line + reason for line, reason in zip(text, reasons, strict=True))
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
    return hash_in_name(entry.path)[:SHORT_HASH] or _name(entry.path)


def _cells(entry: Entry) -> tuple[str, ...]:
    return (
        _name(entry.path),
        _name(entry.task or "–"),
        _text(entry.horizon),
        _name(entry.method or "–"),
        _text(entry.seed),
        entry.state,
        percent(entry.accuracy),
        percent(entry.ood_accuracy),
        "–" if entry.seconds is None else duration(entry.seconds),
    )


def _name(text: str) -> str:
    """On one line, and obeyed by no terminal."""
    return plain(text).replace("\n", "\\n")


def _text(value: Any) -> str:
    return "–" if value is None else str(value)


def as_json(entry: Entry) -> dict[str, Any]:
    """An entry as one object, for programs."""
    hidden = ("stamp", "config_text", "summary_text")
    plain = {name: value for name, value in vars(entry).items() if name not in hidden}
    return {**plain, "config": entry.config, "summary": entry.summary}


# One of them ---------------------------------------------------------------------------------------------


def described(run: Run) -> dict[str, Any]:
    """All there is to know, for programs."""
    return {
        "run": str(run.path),
        "hash": run.digest(),
        "status": run.status(),
        "owned": is_owned(run.path),
        "identity": run.identity().to_json(),
        "provenance": {name: value for name, value in run.provenance().items() if name != "identity"},
        "stages": run.stages(),
        "metrics": list(run.metrics()),
    }


def description(run: Run) -> str:
    """All there is to know, for people."""
    parts = [run.path.name, _state(run), "", "config", *_lines(flat(run.identity().config))]
    summary = run.status().get("summary", {})
    if summary:
        parts += ["", "results", *_lines(summary)]
    for title, names in (("loss", "loss"), ("accuracy", "_accuracy")):
        plot = text_plot(curves(run.metrics(), names))
        if plot:
            parts += ["", title, plot]
    return plain("\n".join(parts))


def curves(rows: Table, ending: str) -> dict[str, list[tuple[float, float]]]:
    """The curves over steps whose names end so: name → (step, value) points."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        step = next((row[name] for name in ("iteration", "step", "phase", "round") if name in row), None)
        if not isinstance(step, int | float):
            continue
        for name, value in row.items():
            if name.endswith(ending) and "target" not in name and isinstance(value, float) and isfinite(value):
                found.setdefault(name, []).append((float(step), value))
    return found


def _state(run: Run) -> str:
    status = run.status()
    state = str(status["state"])
    if state == RunState.RUNNING != run.state():
        state = f"killed; go on with: internalize resume {run.path}"
    parts = [state]
    if "seconds" in status:
        parts.append(duration(status["seconds"]))
    if "message" in status:
        parts.append(str(status["message"]))
    made = run.provenance()
    if made:
        parts.append(f"begun {made.get('created')} with internalize {made.get('internalize')}")
    elif (run.path / "provenance.json").exists():
        parts.append("provenance.json is damaged")
    return ", ".join(parts)


def _lines(values: dict[str, Any]) -> list[str]:
    width = max(map(len, values), default=0)
    return [f"  {name:<{width}}  {_readable(name, value)}" for name, value in values.items()]


def _readable(name: str, value: Any) -> str:
    if isinstance(value, float) and name.endswith("_accuracy"):
        return percent(value)
    if isinstance(value, list):
        return "[" + ", ".join(f"{item:.4g}" if isinstance(item, float) else str(item) for item in value) + "]"
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
