"""What a training has cost so far, and what it had cost when each stage was passed and the chain internalized.

Operations are those of the cost model (`measure/cost.py`) for the batches that were trained on: rehearsal
and attempts that were undone count like everything else. Measuring the model on the way does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from internalize.contract import Json
from internalize.errors import require, require_count
from internalize.statistics import SUCCESS


@dataclass(frozen=True)
class Ledger:
    """A small state that is saved with the training. All counts are exact."""

    operations: int = 0
    """Of all steps so far."""
    rehearsed: int = 0
    """Of those among them that showed the format of another stage."""
    undone: int = 0
    """Of those among them whose result was taken back."""
    in_attempt: int = 0
    """Since the stage, or a further attempt at it, began: what taking back would undo."""
    passed: tuple[tuple[int, int], ...] = ()
    """(iterations, operations) when stage 1, 2, … was passed for the last time."""
    candidate: tuple[int, int] | None = None
    """(iterations, operations) at the first of the latest successful measurements of the direct answer."""
    internalized: tuple[int, int] | None = None
    """The candidate, once the next measurement has confirmed it."""
    measured_at: int = -1
    """The iteration of the last measurement: one that is made twice counts once."""

    def step(self, operations: int, rehearsed: bool) -> Ledger:
        """One step more."""
        return replace(
            self,
            operations=self.operations + operations,
            rehearsed=self.rehearsed + (operations if rehearsed else 0),
            in_attempt=self.in_attempt + operations,
        )

    def stage_passed(self, stage: int, iteration: int) -> Ledger:
        passed = (*self.passed[: stage - 1], (iteration, self.operations))
        return replace(self, passed=passed, in_attempt=0)

    def attempt_undone(self) -> Ledger:
        """That it had internalized on the way stays noted, with its cost; how it ends is another matter."""
        return replace(self, undone=self.undone + self.in_attempt, in_attempt=0, candidate=None)

    def measured(self, iteration: int, last_stage: bool, direct_accuracy: float) -> Ledger:
        """A measurement on the way. The event is the first success at the last stage that the next confirms."""
        if iteration == self.measured_at:
            return self
        found = replace(self, measured_at=iteration)
        if self.internalized is not None:
            return found
        if not last_stage or direct_accuracy <= SUCCESS:
            return replace(found, candidate=None)
        if self.candidate is None:
            return replace(found, candidate=(iteration, self.operations))
        return replace(found, internalized=self.candidate)

    def row(self, batch: int, stages: int, confirmed: bool) -> dict[str, Json]:
        """The results of a finished training; null where something never came.

        confirmed: whether the last measurement of all, which is larger, found the direct answer right too.
        """
        when = self.internalized or (self.candidate if confirmed else None)
        ends = [*self.passed, *[None] * (stages - len(self.passed))]
        return {
            "operations": self.operations,
            "rehearsed_operations": self.rehearsed,
            "undone_operations": self.undone,
            "iterations_to_internalize": None if when is None else when[0],
            "samples_to_internalize": None if when is None else when[0] * batch,
            "operations_to_internalize": None if when is None else when[1],
            "iterations_to_stages": [None if end is None else end[0] for end in ends],
            "operations_to_stages": [None if end is None else end[1] for end in ends],
        }

    def to_json(self) -> dict[str, Json]:
        return {name: _as_json(value) for name, value in asdict(self).items()}


def ledger_from_json(data: Mapping[str, Any], stages: int) -> Ledger:
    """What `Ledger.to_json` gave, of a training of so many stages; refuses what no ledger can say."""
    pairs = {name: _pair(data[name]) for name in ("candidate", "internalized")}
    passed = tuple((int(a), int(b)) for a, b in data["passed"])
    ledger = Ledger(**{**data, **pairs, "passed": passed})
    require_count("cost.operations", ledger.operations)
    for name in ("rehearsed", "undone", "in_attempt"):
        require_count(f"cost.{name}", getattr(ledger, name), most=ledger.operations)
    require_count("cost.measured_at", ledger.measured_at, least=-1)
    require(len(passed) <= stages, "cost.passed", f"has {len(passed)} stages, and there are {stages}")
    marks = [*passed, *(pair for pair in pairs.values() if pair is not None)]
    good = all(iterations >= 0 and 0 <= spent <= ledger.operations for iterations, spent in marks)
    require(good, "cost", f"has marks beyond its {ledger.operations} operations")
    return ledger


def _pair(value: Any) -> tuple[int, int] | None:
    return None if value is None else (int(value[0]), int(value[1]))


def _as_json(value: Any) -> Json:
    return [_as_json(item) for item in value] if isinstance(value, tuple) else value
