"""Append-only files of JSON rows."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

from internalize.errors import RunWarning
from internalize.runs.atomic import write_atomically


class Journal:
    """A .jsonl file being written. Rows reach the disk for good when `sync` is called."""

    def __init__(self, path: Path, content: bytes = b"") -> None:
        """content: what the file holds to begin with. Whatever else was in it is written anew, or gone."""
        self.path = path
        self.content = bytearray(content)
        if not path.exists() or path.read_bytes() != content:
            write_atomically(path, content)

    def append(self, row: dict[str, Any]) -> None:
        line = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode()
        rest = memoryview(line)
        # opened for each row, without a buffer: rows are rare, and nothing is left to close or to flush
        with self.path.open("ab", buffering=0) as file:
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:  # part of the row may be there: it goes, so that whole rows are all there is
                file.truncate(len(self.content))
                raise
        self.content += line

    def sync(self) -> bytes:
        """Make all rows durable; returns what the file now holds."""
        with self.path.open("ab") as file:
            os.fsync(file.fileno())
        return bytes(self.content)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All whole rows; a last line that was cut off, as by a kill, is left out."""
    if not path.exists():
        return []
    *lines, last = path.read_bytes().split(b"\n")
    rows = [_row(line) for line in lines if line]
    if None in rows:
        warnings.warn(f"{path} has lines that cannot be read; they are left out", RunWarning, stacklevel=2)
    return [row for row in [*rows, _row(last)] if row is not None]


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
