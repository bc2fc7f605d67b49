"""How far a saved training says that it is: read back, and refused where the plan cannot lead there."""

from __future__ import annotations

import math
from typing import Any

from internalize.configs.codec import from_json
from internalize.curricula.controller import Control
from internalize.curricula.schedule import EqualShares, Progress, ScheduleConfig
from internalize.errors import require, require_count

EXACT = 2**24
"""Steps that an optimizer counts exactly: its counter is a float32."""


def read_progress(
    data: Any, schedule: ScheduleConfig, iterations: int, stages: int, limited: bool = False
) -> Progress:
    """Refuses, by the entry's name, what a training by this schedule never is.

    limited: whether something besides the schedule can end the training, at any iteration.
    """
    progress = from_json(Progress, data, "progress")
    done, within = progress.iteration, progress.in_stage
    require_count("progress.iteration", done, most=iterations)
    require_count("progress.stage", progress.stage, least=1, most=stages)
    require_count("progress.in_stage", within, least=min(done, 1), most=done)
    ends = progress.finished == progress.stage_ended or (progress.stage_ended and progress.stage < stages)
    require(ends, "progress.stage_ended", f"is {progress.stage_ended} at stage {progress.stage} of {stages}")
    passed = schedule.kind == "controller" or (schedule.kind == "adaptive" and progress.stage == stages)
    good = done == iterations or limited or passed if progress.finished else done < iterations
    require(good, "progress.finished", f"is {progress.finished} after {done} of {iterations} iterations")
    if schedule.kind == "fixed":
        _require_fixed(progress, EqualShares(iterations, stages))
    return progress


def _require_fixed(progress: Progress, shares: EqualShares) -> None:
    """Where every stage has its share, the iteration says all."""
    done = progress.iteration
    stage = shares.stage_of(max(0, done - 1))
    require(progress.stage == stage, "progress.stage", f"is {progress.stage}: iteration {done} is of {stage}")
    begun = shares.end(stage - 1) if stage > 1 else 0
    good = progress.in_stage == done - begun
    require(good, "progress.in_stage", f"is {progress.in_stage}: the stage began at iteration {begun}")
    ended = done == shares.end(stage)
    good = progress.finished or progress.stage_ended == ended
    require(good, "progress.stage_ended", f"is {progress.stage_ended} at iteration {done}")


def read_control(data: Any, schedule: ScheduleConfig, progress: Progress, stages: int) -> Control | None:
    """What the controller remembers; None where there is none. data: None where nothing was saved of it."""
    require((data is not None) == (schedule.kind == "controller"), "control", "belongs to another schedule")
    if data is None:
        return None
    control = from_json(Control, data, "control")
    require_count("control.attempt", control.attempt, least=1)
    require_count("control.frontier", control.frontier, least=progress.stage, most=stages)
    require_count("control.best_at", control.best_at, most=progress.in_stage)
    require_count("control.passing_since", control.passing_since or 0, most=progress.in_stage)
    require_count("control.learned_at", control.learned_at or 0, most=progress.in_stage)
    require_count("control.undone", control.undone, least=control.attempt - 1)
    good = control.best is None or 0 <= control.best < math.inf
    require(good, "control.best", f"must be 0 or more and finite, got {control.best}")
    return control


def require_optimizer_step(step: Any, progress: Progress, reset: bool) -> None:
    """reset: whether the optimizer begins anew with every stage, and has then made the stage's steps."""
    most = progress.in_stage if reset else progress.iteration
    require_count("optimizer.step", step, least=most if reset and most < EXACT else 0, most=most)
