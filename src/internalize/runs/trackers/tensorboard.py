"""TensorBoard: event files in the run's own folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from internalize.contract import Row, RunState, Stage
from internalize.runs.trackers import numbers


class TensorBoard:
    """Writes RUN/tensorboard/; look at many runs at once with `tensorboard --logdir runs`."""

    def __init__(self) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._make_writer: Any = SummaryWriter
        self._writer: Any = None

    def begin(self, folder: Path, stage: Stage) -> None:
        # purge_step: what a killed sitting drew beyond its last checkpoint is drawn again
        self._writer = self._make_writer(str(folder / "tensorboard"), purge_step=stage.step + 1)

    def stepped(self, stage: Stage) -> None:
        """Rows say all there is to draw."""

    def row(self, row: Row, stage: Stage) -> None:
        for name, value in numbers(row).items():
            self._writer.add_scalar(name, value, stage.step)

    def end(self, state: RunState, summary: Row) -> None:
        if self._writer is not None:
            self._writer.close()
