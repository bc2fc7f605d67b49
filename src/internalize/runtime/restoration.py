"""From a checkpoint to the state of a run: what is whole may still make no sense, and is refused in one line.

Whoever wrote the file could write its checksum too. What is refused here is what the loop never saves, or what
the experiment does not recognise as its own; a state that is possible is believed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from internalize.errors import BadInput, RunFailed, is_out_of_memory, require, require_count
from internalize.runs.checkpoint import Checkpoint, place_of
from internalize.runtime.kind import Experiment, S, State

if TYPE_CHECKING:
    from torch import Tensor


class SenselessCheckpoint(RunFailed):
    """A whole checkpoint that is not the state of its run."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} does not hold the state of such a run: {reason}; delete that file to go on from the one "
            f"before it, or repeat the command that began the run with --fresh to start over"
        )


def restored(experiment: Experiment[S], saved: Checkpoint, folder: Path) -> S:
    """The state to go on from. folder: of the checkpoints."""
    try:
        require_finite(saved.tensors)
        _require_rows(saved.metrics)
        state = experiment.restore(saved.tensors, saved.scalars)
        _require_same(saved, state)
        _require_place(experiment, state, saved.step)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # a kind reads what it finds as its own, and fails in whatever way
        if isinstance(error, RuntimeError) and is_out_of_memory(error):  # says nothing against the checkpoint
            raise
        reason = str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
        raise SenselessCheckpoint(place_of(folder, saved.step), reason[:300]) from error
    return state


def require_finite(tensors: Mapping[str, Tensor]) -> None:
    """A training that has diverged is never saved."""
    for name, tensor in tensors.items():
        require(not tensor.is_floating_point() or bool(tensor.isfinite().all()), name, "is not finite")


def _require_rows(metrics: bytes) -> None:
    for number, line in enumerate(metrics.splitlines(), 1):
        require(isinstance(json.loads(line), dict), "metrics.jsonl", f"line {number} is no row")


def _require_same(saved: Checkpoint, state: State) -> None:
    """`restore` promises the state that gave these tensors and scalars: so it gives them again."""
    tensors = state.tensors()
    for name, tensor in saved.tensors.items():
        require(name in tensors, name, "is no part of the state")
        form, own = (tuple(tensor.shape), tensor.dtype), (tuple(tensors[name].shape), tensors[name].dtype)
        require(form == own, name, f"is {form[0]} of {form[1]}, not {own[0]} of {own[1]}")
    different = _difference(saved.scalars, json.loads(json.dumps(state.scalars())))
    require(different is None, different or "", "is no such entry of the state, or of another type")


def _difference(saved: Any, own: Any, name: str = "") -> str | None:
    """The dotted name of an entry that the state does not have, or not like this.

    What the state has besides is no difference: an earlier version did not save it.
    """
    if isinstance(saved, dict) and isinstance(own, dict):
        inner = (_difference(saved[key], own.get(key, ...), f"{name}.{key}".lstrip(".")) for key in saved)
        return next((found for found in inner if found is not None), None)
    same = own is not ... and json.dumps(saved, sort_keys=True) == json.dumps(own, sort_keys=True)
    return None if same else name


def _require_place(experiment: Experiment[S], state: S, step: int) -> None:
    stage = experiment.stage(state)
    require_count("stage", stage.index, least=1, most=stage.total)
    require_count("step", stage.step, most=stage.steps)
    require(stage.step == step, "step", f"is {stage.step}, the file's name says {step}")
    experiment.done(state)
