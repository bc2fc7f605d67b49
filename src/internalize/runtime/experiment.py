"""What every kind of experiment offers to the one loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from torch import Tensor

from internalize.contract import Json, Row, Stage
from internalize.measure.predictor import Predictor
from internalize.runtime.streams import Streams


class State(Protocol):
    """All that a training is at a moment: tensors and JSON scalars, so that any state can be saved."""

    def tensors(self) -> dict[str, Tensor]:
        """All finite: the loop takes anything else for a training that has diverged, and does not save it."""

    def scalars(self) -> dict[str, Json]: ...


@dataclass(frozen=True)
class Finish:
    """What a finished experiment leaves behind."""

    summary: Row
    """The results: what `--json` prints and the index of runs keeps."""
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    """The final model, for the folder `model/`."""
    model_files: Mapping[str, str] = field(default_factory=dict)
    """Further text files of the folder `model/`, name → content."""


S = TypeVar("S", bound=State)


class Experiment(Protocol[S]):
    """A kind of experiment, built from a frozen config. The loop calls nothing else."""

    def init(self, streams: Streams) -> S:
        """The state before the first step."""

    def restore(self, tensors: Mapping[str, Tensor], scalars: Mapping[str, Json]) -> S:
        """The state that gave these tensors and scalars."""

    def advance(self, state: S, streams: Streams) -> tuple[S, Row | None]:
        """Some iterations (well under a second where possible), a phase, or a round.

        May change the state in place. The row, where one is due, depends on the state alone: not on how the
        iterations were cut into calls.
        """

    def stage(self, state: S) -> Stage: ...

    def done(self, state: S) -> bool: ...

    def evaluation_due(self, state: S) -> bool: ...

    def evaluate(self, state: S, streams: Streams) -> Row:
        """Measure the model as it is; never changes the state."""

    def snapshot(self, state: S) -> dict[str, Tensor]:
        """The weights worth keeping at the end of a stage."""

    def finish(self, state: S, streams: Streams) -> Finish:
        """The final measurements and the model."""

    def predictor(self, state: S, budget: int | None) -> Predictor:
        """The model as a predictor that may spend `budget` (None: as much as it wants)."""
