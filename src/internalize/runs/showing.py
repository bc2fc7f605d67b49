"""One run in a terminal: what it is, how it went, and its curves."""

from __future__ import annotations

from typing import Any

from internalize.contract import RunState
from internalize.display.curves import text_plot
from internalize.display.terminal import duration, percent
from internalize.runs.exporting import flat
from internalize.runs.folder import Run
from internalize.runs.lock import is_owned
from internalize.runs.table import Table


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
    return "\n".join(parts)


def curves(rows: Table, ending: str) -> dict[str, list[tuple[float, float]]]:
    """The curves over steps whose names end so: name → (step, value) points."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        step = next((row[name] for name in ("iteration", "step", "phase", "round") if name in row), None)
        if step is None:
            continue
        for name, value in row.items():
            if name.endswith(ending) and "target" not in name and isinstance(value, float):
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
