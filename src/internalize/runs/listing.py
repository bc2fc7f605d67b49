"""How runs look in a terminal: many of them as a list, one of them as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from internalize.contract import Row, RunState, is_toy_run, named, still_speaking
from internalize.display.plots import text_plot
from internalize.display.terminal import (
    accuracy_told,
    duration,
    interval_beside,
    interval_of,
    own_target,
    percent,
    plain,
    readable,
)
from internalize.runs.folder import Run
from internalize.runs.index import Entry
from internalize.runs.location import hash_in_name
from internalize.runs.storage import is_owned, last_row
from internalize.runs.table import Table, flat

# All of them: plain text, since a framed table of ten thousand runs would take many seconds --------------

HEADINGS = ("run", "task", "T", "method", "seed", "state", "ID", "OOD", "tokens", "views", "cost", "took")
TOKENS = HEADINGS.index("tokens")
LEFT = {"run", "task", "method", "state"}
SHORT_HASH = 8
"""Letters of a hash where the whole name has no room: of ten thousand runs hardly two begin alike."""
SPEAKS = "!"
SPEAKING = (
    f"{SPEAKS} right only while it still speaks: it succeeded, and did not internalize (2 tokens: at once)"
)
VIEWS = HEADINGS.index("views")
A_TOY = "*"
TOYS = f"{A_TOY} a toy: by its budget it may see more than a tenth of the possible inputs; it supports no claim"
SO_FAR = "(stage) after a number: the run is not finished; this was measured last, at that stage"
NO_LAST_MEASUREMENT = (RunState.DONE, RunState.DAMAGED)
WHOLE_NAMES = "the hash stands for the name; whole names: a wider terminal, or --json"


def listing(
    entries: Sequence[Entry], columns: int | None = None, so_far: Mapping[str, Row] | None = None
) -> str:
    """One line for each run, below headings; hashes stand for names that are too long for the columns.

    so_far: path → the last measurement of a run that is not finished.
    """
    so_far = so_far or {}
    rows = [_cells(entry, so_far.get(entry.path, {})) for entry in entries]
    remark = [SPEAKING] if any(row[TOKENS].endswith(SPEAKS) for row in rows) else []
    remark += [TOYS] if any(row[VIEWS].endswith(A_TOY) for row in rows) else []
    remark += [SO_FAR] if any(so_far.get(entry.path) for entry in entries) else []
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
    for without in (("views",), ("views", "cost")):
        if max(map(len, text)) > columns:
            text = _aligned(short, without)
    return "\n".join([*text, *remark, WHOLE_NAMES])


def _aligned(rows: Sequence[Sequence[str]], without: Sequence[str] = ()) -> list[str]:
    """The headings and the rows as lines, every column as wide as its widest cell. without: left out."""
    shown = [i for i, heading in enumerate(HEADINGS) if heading not in without]
    table = [[row[i] for i in shown] for row in (HEADINGS, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    sides = ["<" if heading in LEFT else ">" for heading in table[0]]
    form = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return [form.format(*row).rstrip() for row in table]


def _short_name(entry: Entry) -> str:
    """What commands take for the run: the beginning of the hash, or the path where its end is not the hash."""
    return hash_in_name(entry.path)[:SHORT_HASH] or one_line(entry.path)


def last_measurements(entries: Sequence[Entry], out: Path) -> dict[str, Row]:
    """Path → what was measured last, of runs that are not finished and were measured on their way."""
    unfinished = [entry.path for entry in entries if entry.state not in NO_LAST_MEASUREMENT]
    found = {path: last_row(out / path / "metrics.jsonl", "evaluation") for path in unfinished}
    return {path: row for path, row in found.items() if isinstance(row.get("stage"), int)}


def _cells(entry: Entry, so_far: Row) -> tuple[str, ...]:
    return (
        one_line(entry.path),
        one_line(entry.task or "–"),
        _text(entry.horizon),
        one_line(entry.method or "–"),
        _text(entry.seed),
        entry.state,
        _so_far(so_far, "id_accuracy", "accuracy") or _accuracy(entry.accuracy, entry.summary, "id_accuracy"),
        _so_far(so_far, "ood_accuracy") or _accuracy(entry.ood_accuracy, entry.summary, "ood_accuracy"),
        _so_far(so_far, "id_response_length") or _tokens(entry.summary),
        _views(entry),
        _cost(entry.summary),
        "–" if entry.seconds is None else duration(entry.seconds),
    )


def _so_far(row: Row, *keys: str) -> str:
    """`99.4 % (9)`: of the last measurement, with its stage; empty where there was none."""
    key = next((key for key in keys if isinstance(row.get(key), float)), None)
    if key is None:
        return ""
    value = accuracy_told(row, key) if key.endswith("accuracy") else f"{row[key]:.1f}"
    return f"{value} ({row['stage']})"


def _accuracy(value: float | None, summary: dict[str, Any], key: str) -> str:
    """With that on the stage's own target first, where the run ended in a stage that does not ask for q_T."""
    return accuracy_told(summary, key) if own_target(summary, key) is not None else percent(value)


def _tokens(summary: dict[str, Any]) -> str:
    """Of an answer, on average; marked where a run that was to lose its words is right only with them."""
    tokens = summary.get("response_length")
    if not isinstance(tokens, int | float):
        return "–"
    return f"{tokens:.1f}{SPEAKS if still_speaking(summary) else ''}"


def _views(entry: Entry) -> str:
    """How many samples were trained on for each possible input; marked where the run is a toy."""
    views = entry.summary.get("views_per_input")
    if not isinstance(views, int | float):
        return "–"
    told = f"{views:,.0f}" if views >= 10 else f"{views:.2g}"
    return f"{told}{A_TOY if is_toy_run(entry.summary, entry.config) else ''}"


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


def as_json(entry: Entry, so_far: Row | None = None) -> dict[str, Any]:
    """An entry as one object, for programs. so_far: the last measurement, where the run is not finished."""
    hidden = ("stamp", "config_text", "summary_text")
    plain = {name: value for name, value in vars(entry).items() if name not in hidden}
    return {**plain, "config": entry.config, "summary": entry.summary, "so_far": so_far}


# One of them ---------------------------------------------------------------------------------------------

SETTINGS = "settings, and the options where they are called otherwise (–: not given)"
WORDS = {
    "horizon": "T, symbols read",
    "inputs": "inputs (ID)",
    "ood_inputs": "inputs (OOD)",
    "initial_state": "first state q_0",
    "init_from": "started from the weights of",
    "log_every": "iterations in a row of metrics",
    "held_out": "share of inputs held out",
    "scored": "loss on",
    "rehearsal": "share of steps that rehearse",
    "rehearse": "stages rehearsed",
    "length_token": "length told by a token",
    "keep_positions": "states keep their position",
    "ease": "iterations with easy steps",
    "emphasis": "positions that the new one counts for",
    "operations_limit": "most operations",
    "answer_positions": "positions counted from",
    "model.depth": "layers",
    "model.width": "width",
    "model.heads": "heads",
    "model.mlp": "width of the MLP",
    "model.positions": "positions",
    "model.init_std": "spread of the first weights",
    "model.network": "network of one's own",
    "model.dropout": "dropout",
    "schedule.kind": "stages end: schedule",
    "schedule.signal": "stages end: judged by",
    "schedule.threshold": "stages end: threshold",
    "schedule.judge": "stages end: worst or mean position",
    "schedule.memory": "stages end: iterations averaged",
    "schedule.shortest": "stages end: after at least",
    "schedule.cap": "stages end: after at most",
    "schedule.stop_early": "stops when the last stage is learned",
    "schedule.last_threshold": "threshold of the last stage",
    "schedule.dwell": "iterations a stage must stay learned",
    "schedule.patience": "iterations before a stage is undone",
    "schedule.settle_for_less": "a last stage as good as the others ends",
    "schedule.cool_when_learned": "the last stage cools when it is as good as the others",
    "schedule.attempts": "attempts at a stage",
    "optimizer.lr": "learning rate",
    "optimizer.betas": "AdamW's betas",
    "optimizer.weight_decay": "weight decay",
    "optimizer.reset": "optimizer forgets at stage ends",
    "optimizer.warmup": "iterations of warm-up",
    "optimizer.cooling": "iterations of cooling",
    "optimizer.muon": "Muon moves the matrices",
    "optimizer.clip": "longest gradient",
    "evaluation.every": "iterations between measurements",
    "evaluation.samples": "inputs of a measurement",
    "evaluation.final_samples": "inputs of the last measurement",
    "lr": "learning rate",
    "d": "d, bits of an input",
    "k": "k, bits of the parity",
}


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
    parts = [run.path.name, _state(run), "", SETTINGS, *_settings(flat(run.identity().config))]
    summary = run.status().get("summary", {})
    if summary:
        parts += ["", "results", *_results(summary)]
    elif measured := last_row(run.path / "metrics.jsonl", "evaluation"):
        del measured["event"]
        parts += ["", "measured last: the run is not finished", *_results(measured)]
    for title, names in (("loss (logarithmic)", "loss"), ("accuracy", "_accuracy")):
        found = {named(name): points for name, points in curves(run.metrics(), names).items()}
        plot = text_plot(found, logarithmic=names == "loss")
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
    elif state == RunState.INTERRUPTED:
        state = f"{state}; go on with: internalize resume {run.path}"
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


def _settings(config: Mapping[str, Any]) -> list[str]:
    """In words, and beside them the option where it is called otherwise."""
    words = {name: WORDS.get(name) or named(name.replace(".", " ").replace("_", " ")) for name in config}
    values = {name: _setting(value) for name, value in config.items()}
    width, wide = (max(map(len, found.values()), default=0) for found in (words, values))
    lines = []
    for name in config:
        option = "" if words[name] == name else f"--{name.replace('_', '-')}"
        lines.append(f"  {words[name]:<{width}}  {one_line(values[name]):<{min(wide, 24)}}  {option}".rstrip())
    return lines


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value).strip("[]")


def _results(summary: Mapping[str, Any]) -> list[str]:
    """As `train` prints them, the lists too; an interval stands beside its accuracy."""
    beside = {interval_of(name) for name in summary if interval_beside(name, summary)}
    shown = {name: value for name, value in summary.items() if name not in beside}
    width = max(map(len, map(named, shown)), default=0)
    return [
        f"  {named(name):<{width}}  {one_line(readable(name, value) + interval_beside(name, summary))}"
        for name, value in shown.items()
    ]
