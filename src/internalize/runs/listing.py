"""How runs look in a terminal: many of them as a list, one of them as a page."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from internalize.contract import RunState, still_speaking
from internalize.display.plots import text_plot
from internalize.display.terminal import accuracy_told, duration, own_target, percent, plain
from internalize.runs.folder import Run
from internalize.runs.index import Entry
from internalize.runs.location import hash_in_name
from internalize.runs.storage import is_owned
from internalize.runs.table import Table, flat

# All of them: plain text, since a framed table of ten thousand runs would take many seconds --------------

HEADINGS = ("run", "task", "T", "method", "seed", "state", "ID", "OOD", "tokens", "cost", "took")
TOKENS = HEADINGS.index("tokens")
LEFT = {"run", "task", "method", "state"}
SHORT_HASH = 8
"""Letters of a hash where the whole name has no room: of ten thousand runs hardly two begin alike."""
SPEAKS = "!"
SPEAKING = (
    f"{SPEAKS} right only while it still speaks: it succeeded, and did not internalize (2 tokens: at once)"
)
WHOLE_NAMES = "the hash stands for the name; whole names: a wider terminal, or --json"


def listing(entries: Sequence[Entry], columns: int | None = None) -> str:
    """One line for each run, below headings; hashes stand for names that are too long for the columns."""
    rows = [_cells(entry) for entry in entries]
    remark = [SPEAKING] if any(row[TOKENS].endswith(SPEAKS) for row in rows) else []
    text = _aligned(rows)
    if any(entry.state == RunState.DAMAGED for entry in entries):  # with reasons, whatever the width
        reasons = [
            "",
            *(
                f"  {one_line(entry.message or '')}" if entry.state == RunState.DAMAGED else ""
                for entry in entries
            ),
        ]
        lines = [line + reason for line, reason in zip(text, reasons, strict=True)]
        return "\n".join([*lines, *remark])
    if columns is None or len(rows) == 0 or max(map(len, text)) <= columns:
        return "\n".join([*text, *remark])
    short = [(_short_name(entry), *row[1:]) for entry, row in zip(entries, rows, strict=True)]
    text = _aligned(short)
    if max(map(len, text)) > columns:
        text = _aligned(short, without="cost")
    return "\n".join([*text, *remark, WHOLE_NAMES])


def _aligned(rows: Sequence[Sequence[str]], without: str | None = None) -> list[str]:
    """The headings and the rows as lines, every column as wide as its widest cell; one column may stay out."""
    shown = [i for i, heading in enumerate(HEADINGS) if heading != without]
    table = [[row[i] for i in shown] for row in (HEADINGS, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    sides = ["<" if heading in LEFT else ">" for heading in table[0]]
    form = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return [form.format(*row).rstrip() for row in table]


def _short_name(entry: Entry) -> str:
    """What commands take for the run: the beginning of the hash, or the path where its end is not the hash."""
    return hash_in_name(entry.path)[:SHORT_HASH] or one_line(entry.path)


def _cells(entry: Entry) -> tuple[str, ...]:
    return (
        one_line(entry.path),
        one_line(entry.task or "–"),
        _text(entry.horizon),
        one_line(entry.method or "–"),
        _text(entry.seed),
        entry.state,
        _accuracy(entry.accuracy, entry.summary, "id_accuracy"),
        _accuracy(entry.ood_accuracy, entry.summary, "ood_accuracy"),
        _tokens(entry.summary),
        _cost(entry.summary),
        "–" if entry.seconds is None else duration(entry.seconds),
    )


def _accuracy(value: float | None, summary: dict[str, Any], key: str) -> str:
    """With that on the stage's own target first, where the run ended in a stage that does not ask for q_T."""
    return accuracy_told(summary, key) if own_target(summary, key) is not None else percent(value)


def _tokens(summary: dict[str, Any]) -> str:
    """Of an answer, on average; marked where a run that was to lose its words is right only with them."""
    tokens = summary.get("response_length")
    if not isinstance(tokens, int | float):
        return "–"
    return f"{tokens:.1f}{SPEAKS if still_speaking(summary) else ''}"


def _cost(summary: dict[str, Any]) -> str:
    """Operations of the training until the run answered at once; `>`: so many, and it did not."""
    whole, until = summary.get("operations"), summary.get("operations_to_internalize")
    if isinstance(until, int | float) and summary.get("internalized"):
        return f"{until:.1e}".replace("e+", "e")
    return f">{whole:.1e}".replace("e+", "e") if isinstance(whole, int | float) else "–"


def one_line(text: str) -> str:
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
    for title, names in (("loss (logarithmic)", "loss"), ("accuracy", "_accuracy")):
        plot = text_plot(curves(run.metrics(), names), logarithmic=names == "loss")
        if plot:
            parts += ["", title, plot]
    return plain("\n".join(parts))


def curves(rows: Table, ending: str) -> dict[str, list[tuple[float, float]]]:
    """The curves over steps whose names end so: name → (step, value) points.

    An accuracy on the stages' own targets is one of them where it differs from that on q_T.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        step = next((row[name] for name in ("iteration", "step", "phase", "round") if name in row), None)
        if not isinstance(step, int | float):
            continue
        for name, value in row.items():
            if name.endswith(ending) and isinstance(value, float) and isfinite(value):
                found.setdefault(name, []).append((float(step), value))
    return {name: points for name, points in found.items() if points != found.get(name.replace("_target", ""))
            or "_target" not in name}  # fmt: skip


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
    return [f"  {name:<{width}}  {one_line(_readable(name, value))}" for name, value in values.items()]


def _readable(name: str, value: Any) -> str:
    if isinstance(value, float) and name.endswith("_accuracy"):
        return percent(value)
    if isinstance(value, list):
        return "[" + ", ".join(f"{item:.4g}" if isinstance(item, float) else str(item) for item in value) + "]"
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
