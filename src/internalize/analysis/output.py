"""Where an inspection leaves its files: by default in the folder `analysis` of the run it looks at."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from internalize.configs.folders import make_folder
from internalize.configs.outputs import write_output
from internalize.errors import require
from internalize.runs.atomic import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class OutputFolder:
    """A folder, made when the first file is written, and the files written so far."""

    def __init__(self, path: Path, in_run: bool = False) -> None:
        """in_run: it is part of a run folder, in which nobody means a link: none is followed out of it."""
        self.path = path
        self.written: list[Path] = []
        self._in_run = in_run
        self._save = write_atomically if in_run else write_output

    def json(self, name: str, data: object) -> None:
        self._write(f"{name}.json", json.dumps(data, indent=1, ensure_ascii=False) + "\n")

    def csv(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        self._write(f"{name}.csv", buffer.getvalue())

    def figure(self, name: str, figure: Figure) -> None:
        """PNG and SVG."""
        from internalize.display.plots import save

        self._make()
        self.written += save(figure, self.path / name, write=self._save)

    def _write(self, name: str, text: str) -> None:
        self._make()
        self._save(self.path / name, text.encode())
        self.written.append(self.path / name)

    def _make(self) -> None:
        outside = self._in_run and self.path.is_symlink()
        require(not outside, "out", f"{self.path} is a link out of the run's folder: name a folder with --out")
        make_folder(self.path)

    def note(self) -> str:
        """What was written, for people."""
        return f"written to {self.path}: {', '.join(path.name for path in self.written)}"
