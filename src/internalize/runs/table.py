"""Rows as a table: for notebooks, terminals and files."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any


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
        writer.writeheader()
        writer.writerows(self.rows)
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
