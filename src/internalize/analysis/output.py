"""What the commands of this room have in common: how a run is named, and where the findings go.

Findings go to the terminal as tables, to standard output as JSON, and to files: by default in the folder
`analysis` of the run. `OutputFolder` writes all of these files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console

from internalize.configs.files import make_folder, write_output
from internalize.configs.named import TrustOption
from internalize.display.terminal import PlainConsole
from internalize.errors import require
from internalize.runs.storage import write_atomically
from internalize.runs.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

Device = Literal["auto", "cpu", "cuda", "mps"]
RunPath = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]


@dataclass(frozen=True)
class InspectionArguments(TrustOption):
    """A run, and where the findings go."""

    run: RunPath
    """The run: its folder, a unique part of its name, the beginning of its hash, or latest."""
    seed: int = 0
    """Which inputs are drawn."""
    out: Path | None = None
    """Folder for the files (pictures, CSV, JSON); the run's own folder `analysis` if not given."""
    device: Device = "auto"
    json: bool = False
    """Print one JSON object."""

    def folder(self, run_path: Path) -> OutputFolder:
        if self.out is not None:
            return OutputFolder(self.out)
        return OutputFolder(run_path / "analysis", in_run=True)

    def present(self, findings: object, written: OutputFolder, show: Callable[[Console], None]) -> None:
        """Print the findings as JSON, or show them to people and say what was written."""
        if self.json:
            print(json.dumps(findings, ensure_ascii=False))
            return
        console = PlainConsole()
        show(console)
        console.print(written.note(), soft_wrap=True)


class OutputFolder:
    """A folder, made when the first file is written, and the files written so far."""

    def __init__(self, path: Path, in_run: bool = False) -> None:
        """in_run: it is part of a run folder, in which nobody means a link: none is followed out of it."""
        self.path = path
        self.written: list[Path] = []
        self._in_run = in_run
        self._save = write_atomically if in_run else write_output

    def json(self, name: str, data: object, indent: int = 1) -> None:
        self._write(f"{name}.json", json.dumps(data, indent=indent, ensure_ascii=False) + "\n")

    def csv(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._write(f"{name}.csv", Table([dict(row) for row in rows]).to_csv())

    def text(self, name: str, text: str) -> None:
        """Markdown, LaTeX: whatever has a form of its own. The name has its ending."""
        self._write(name, text)

    def figure(self, name: str, figure: Figure) -> None:
        """PNG and SVG."""
        from internalize.display.plots import save

        self._make()
        self.written += save(figure, self.path / name, write=self._save)

    def tensors(self, name: str, tensors: dict[str, Tensor]) -> None:
        from safetensors.torch import save

        self._make()
        self._note(self.path / f"{name}.safetensors", save(tensors))

    def _write(self, name: str, text: str) -> None:
        self._make()
        self._note(self.path / name, text.encode())

    def _note(self, path: Path, content: bytes) -> None:
        self._save(path, content)
        self.written.append(path)

    def _make(self) -> None:
        outside = self._in_run and self.path.is_symlink()
        require(not outside, "out", f"{self.path} is a link out of the run's folder: name a folder with --out")
        make_folder(self.path)

    def note(self) -> str:
        """What was written, for people."""
        return f"written to {self.path}: {', '.join(path.name for path in self.written)}"
