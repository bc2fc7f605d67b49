"""Rows as a table, for notebooks, terminals and files; and runs as one flat table that other programs read."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from internalize.configs.codec import to_json
from internalize.configs.files import write_output
from internalize.errors import BadInput

if TYPE_CHECKING:  # the index reads runs, whose metrics are a table
    from internalize.runs.index import Entry


def as_cell(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front, which it does not show."""
    formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if formula and not _is_number(value) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class Table(Sequence[dict[str, Any]]):
    """A sequence of rows with named columns. Shows itself as a table in a notebook."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self.rows = list(rows)
        self.columns = list(dict.fromkeys(name for row in self.rows for name in row))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, index: Any) -> Any:
        """A row by number, rows by slice, or a column by name (None where a row lacks it)."""
        if isinstance(index, str):
            if index not in self.columns:
                raise KeyError(f"no column {index!r}; there are {', '.join(self.columns)}")
            return [row.get(index) for row in self.rows]
        return Table(self.rows[index]) if isinstance(index, slice) else self.rows[index]

    def where(self, keep: Callable[[dict[str, Any]], bool] | None = None, **equal: Any) -> Table:
        """The rows that the function keeps and whose columns have the given values."""
        return Table(
            [
                row
                for row in self.rows
                if (keep is None or keep(row)) and all(row.get(k) == v for k, v in equal.items())
            ]
        )

    def to_csv(self) -> str:
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, self.columns, lineterminator="\n")
        writer.writerow({name: as_cell(name) for name in self.columns})
        writer.writerows([{name: as_cell(value) for name, value in row.items()} for row in self.rows])
        return buffer.getvalue()

    def to_pandas(self) -> Any:
        """A pandas DataFrame, where pandas is installed."""
        import pandas

        return pandas.DataFrame(self.rows, columns=self.columns)

    def __repr__(self) -> str:
        return f"Table of {len(self)} rows: {', '.join(self.columns)}"

    def _repr_html_(self) -> str:
        def cells(tag: str, values: Sequence[Any]) -> str:
            texts = ("" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v) for v in values)
            return "<tr>" + "".join(f"<{tag}>{html.escape(t)}</{tag}>" for t in texts) + "</tr>"

        body = "".join(cells("td", [row.get(c) for c in self.columns]) for row in self.rows)
        return f"<table>{cells('th', self.columns)}{body}</table>"


# Runs as one table ---------------------------------------------------------------------------------------

PLAIN = ("path", "hash", "kind", "state", "seconds", "created", "message")


def export_table(entries: Sequence[Entry]) -> Table:
    """One row for each run: what the index knows, then `config.…` and `summary.…`, lists as JSON text."""
    rows = []
    for entry in entries:
        row = {name: getattr(entry, name) for name in PLAIN}
        rows.append({**row, **flat(entry.config, "config."), **flat(entry.summary, "summary.")})
    return Table(rows)


def dotted_fields(config: object) -> dict[str, Any]:
    """The fields of a config by their dotted names, as rows and sweeps have them."""
    return flat(to_json(config), lists_as_text=False)


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


# Tables for documents ------------------------------------------------------------------------------------


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text on the left, numbers on the right."""
    sides = _sides(headings, rows)
    ruler = ["---:" if side == "r" else "---" for side in sides]
    lines = [headings, ruler, *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', '&#124;') for cell in line)} |" for line in lines)


def latex_table(headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """The same in LaTeX, with the rules of booktabs."""

    def line(cells: Sequence[str]) -> str:
        return f"  {' & '.join(map(_latex, cells))} \\\\"

    return "\n".join(
        [
            *([f"% {caption}"] if caption else []),
            f"\\begin{{tabular}}{{{''.join(_sides(headings, rows))}}}",
            "  \\toprule",
            line(headings),
            "  \\midrule",
            *map(line, rows),
            "  \\bottomrule",
            "\\end{tabular}",
        ]
    )


def _sides(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """r where every cell of a column begins like a number, else l."""
    columns = [[row[i] for row in rows] for i in range(len(headings))]
    return ["r" if all(re.match(r"[-+–]?\d|–$", cell) for cell in column) else "l" for column in columns]


SPECIAL = {**{letter: f"\\{letter}" for letter in "&%$#_{}"}, "\\": "\\textbackslash{}",
           "~": "\\textasciitilde{}", "^": "\\textasciicircum{}",
           "–": "--", "…": "\\dots{}", "≤": "$\\leq$", "≥": "$\\geq$"}  # fmt: skip
"""What LaTeX would not print as it is."""


def _latex(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)
