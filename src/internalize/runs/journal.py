"""Append-only files of JSON rows."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, BinaryIO


class Journal:
    """A .jsonl file being written. Rows reach the disk when `sync` is called."""

    def __init__(self, path: Path, keep_bytes: int | None = None) -> None:
        """keep_bytes: cut the file to this length first, to write again what came after it."""
        self._file: BinaryIO = path.open("ab")
        if keep_bytes is not None:
            self._file.truncate(keep_bytes)
            self._file.seek(keep_bytes)

    def append(self, row: dict[str, Any]) -> None:
        self._file.write((json.dumps(row, ensure_ascii=False) + "\n").encode())
        self._file.flush()

    def sync(self) -> int:
        """Make all rows durable; returns the file's length in bytes."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All whole rows; a last line that was cut off, as by a kill, is left out."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_bytes().split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:  # an empty or a cut line
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows
