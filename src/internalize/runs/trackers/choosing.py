"""Trackers by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol

from internalize.errors import BadInput

if TYPE_CHECKING:
    from internalize.display.terminal import StageLike
    from internalize.runs.folder import Run

TrackerName = Literal["tensorboard", "wandb", "mlflow"]

CLASSES = {"tensorboard": "TensorBoard", "wandb": "WeightsAndBiases", "mlflow": "MLflow"}
"""Name of tracker, extra and module here → its class."""


class Tracker(Protocol):
    """What the loop tells its observers; a tracker is one of them."""

    def begin(self, run: Run, stage: StageLike) -> None: ...

    def stepped(self, stage: StageLike) -> None: ...

    def row(self, row: Mapping[str, Any], stage: StageLike) -> None: ...

    def end(self, state: str, summary: Mapping[str, Any]) -> None: ...


def find_trackers(names: Sequence[TrackerName]) -> list[Tracker]:
    """The trackers of these names; a missing extra is refused before anything is trained."""
    trackers: list[Tracker] = []
    for name in dict.fromkeys(names):
        module = import_module(f"internalize.runs.trackers.{name}")
        try:
            trackers.append(getattr(module, CLASSES[name])())
        except ImportError as error:
            raise BadInput(
                "tracker", f"{name} is not installed ({error}): pip install 'internalize[{name}]'"
            ) from None
    return trackers


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The entries of a row that make a curve, as `train/loss` or `evaluation/id_accuracy`."""
    event = str(row.get("event", "run"))
    return {
        f"{event}/{name}": float(value)
        for name, value in row.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
