"""Trackers: observers that send a run's curves elsewhere. Each needs an extra of the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Literal

from internalize.contract import Observer
from internalize.errors import BadInput

TrackerName = Literal["tensorboard", "wandb", "mlflow"]

CLASSES = {"tensorboard": "TensorBoard", "wandb": "WeightsAndBiases", "mlflow": "MLflow"}
"""Name of tracker, extra and module here → its class."""


def find_trackers(names: Sequence[TrackerName]) -> list[Observer]:
    """The trackers of these names; a missing extra is refused before anything is trained."""
    trackers: list[Observer] = []
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
