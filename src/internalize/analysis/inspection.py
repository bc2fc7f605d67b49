"""What the commands that look into a run have in common: their arguments, and how they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from internalize.analysis.commands import Device
from internalize.analysis.output import OutputFolder
from internalize.configs.trust import TrustOption


@dataclass(frozen=True)
class InspectionArguments(TrustOption):
    """A run, and where the findings go."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run's folder or the beginning of its hash."""
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
        console = Console(highlight=False)
        show(console)
        console.print(written.note(), soft_wrap=True)
