"""Weights & Biases: offline unless WANDB_MODE says otherwise, so that no account is needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from internalize.runs.trackers.choosing import numbers

if TYPE_CHECKING:
    from internalize.display.terminal import StageLike
    from internalize.runs.folder import Run


class WeightsAndBiases:
    """Writes RUN/wandb/; `wandb sync` sends an offline run."""

    def __init__(self) -> None:
        import wandb

        self._wandb: Any = wandb
        self._session: Any = None

    def begin(self, run: Run, stage: StageLike) -> None:
        identity = run.identity()
        self._session = self._wandb.init(
            project="internalize",
            id=identity.digest(),  # the same run after a kill is the same run there
            name=run.path.name,
            config=dict(identity.config),
            dir=str(run.path),
            mode=os.environ.get("WANDB_MODE", "offline"),
            resume="allow",
        )

    def stepped(self, stage: StageLike) -> None:
        """Rows say all there is to draw."""

    def row(self, row: Mapping[str, Any], stage: StageLike) -> None:
        self._session.log({**numbers(row), "step": stage.step})

    def end(self, state: str, summary: Mapping[str, Any]) -> None:
        if self._session is not None:
            self._session.summary.update({"state": state, **summary})
            self._session.finish(exit_code=0 if state == "done" else 1)
