"""Runs as one flat table, in files that other programs read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from internalize.configs.outputs import write_output
from internalize.errors import BadInput
from internalize.runs.store import Entry
from internalize.runs.table import Table

PLAIN = ("path", "hash", "kind", "state", "seconds", "created", "message")


def export_table(entries: Sequence[Entry]) -> Table:
    """A row a run: what the index knows, then `config.…` and `summary.…`, lists as JSON text."""
    rows = []
    for entry in entries:
        row = {name: getattr(entry, name) for name in PLAIN}
        rows.append({**row, **flat(entry.config, "config."), **flat(entry.summary, "summary.")})
    return Table(rows)


def flat(nested: Mapping[str, Any], prefix: str = "", lists_as_text: bool = True) -> dict[str, Any]:
    """Nested entries by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.", lists_as_text)
        else:
            as_text = lists_as_text and isinstance(value, list)
            found[f"{prefix}{name}"] = json.dumps(value) if as_text else value
    return found


def write_csv(table: Table, path: Path) -> None:
    write_output(path, table.to_csv())


def write_parquet(table: Table, path: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BadInput("parquet", "needs pyarrow: pip install 'internalize[parquet]'") from None
    columns = {name: _of_one_type(table[name]) for name in table.columns}
    buffer = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    write_output(path, buffer.getvalue().to_pybytes())


def _of_one_type(values: list[Any]) -> list[Any]:
    """A column as Parquet wants it: numbers of one kind, or text where kinds of experiment disagree."""
    types = {type(value) for value in values} - {type(None)}
    if len(types) <= 1:
        return values
    if types == {int, float}:
        return [None if value is None else float(value) for value in values]
    return [None if value is None else str(value) for value in values]
