"""Weights & Biases: offline unless WANDB_MODE says otherwise, so that no account is needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from internalize.contract import Row, RunState, Stage
from internalize.runs.folder import Run
from internalize.runs.trackers import numbers


class WeightsAndBiases:
    """Writes RUN/wandb/; `wandb sync` sends an offline run."""

    def __init__(self) -> None:
        import wandb

        self._wandb: Any = wandb
        self._session: Any = None

    def begin(self, folder: Path, stage: Stage) -> None:
        identity = Run(folder).identity()
        self._session = self._wandb.init(
            project="internalize",
            id=identity.digest(),  # the same run after a kill is the same run there
            name=folder.name,
            config=dict(identity.config),
            dir=str(folder),
            mode=os.environ.get("WANDB_MODE", "offline"),
            resume="allow",
        )

    def stepped(self, stage: Stage) -> None:
        """Rows say all there is to draw."""

    def row(self, row: Row, stage: Stage) -> None:
        self._session.log({**numbers(row), "step": stage.step})

    def end(self, state: RunState, summary: Row) -> None:
        if self._session is not None:
            self._session.summary.update({"state": str(state), **summary})
            self._session.finish(exit_code=0 if state == RunState.DONE else 1)
