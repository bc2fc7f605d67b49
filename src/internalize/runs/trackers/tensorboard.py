"""TensorBoard: event files in the run's own folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from internalize.runs.trackers.choosing import numbers

if TYPE_CHECKING:
    from internalize.display.terminal import StageLike
    from internalize.runs.folder import Run


class TensorBoard:
    """Writes RUN/tensorboard/; look at many runs at once with `tensorboard --logdir runs`."""

    def __init__(self) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._make_writer: Any = SummaryWriter
        self._writer: Any = None

    def begin(self, run: Run, stage: StageLike) -> None:
        # purge_step: what a killed sitting drew beyond its last checkpoint is drawn again
        self._writer = self._make_writer(str(run.path / "tensorboard"), purge_step=stage.step + 1)

    def stepped(self, stage: StageLike) -> None:
        """Rows say all there is to draw."""

    def row(self, row: Mapping[str, Any], stage: StageLike) -> None:
        for name, value in numbers(row).items():
            self._writer.add_scalar(name, value, stage.step)

    def end(self, state: str, summary: Mapping[str, Any]) -> None:
        if self._writer is not None:
            self._writer.close()
