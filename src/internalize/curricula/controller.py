"""What the controller does: a stage ends when it has settled; one that does not learn is undone and tried anew.

A pure function of a small state that is saved with the run; `ScheduleConfig` says what can be set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from internalize.curricula.schedule import Progress, ScheduleConfig, passes
from internalize.errors import require

DWELL, PATIENCE, ATTEMPTS = 100, 3_000, 4
GENTLER_REHEARSAL, GENTLER_LR, GENTLER_DWELL, SMOOTHING, GUARD = 0.15, 0.7, 5.0, 0.0, 0.0
NEARER = 0.9
"""What is left of the distance to the goal, if a signal has come nearer to it by a tenth."""
MOST_REHEARSAL = 0.9
GUARDING = 0.75
"""The share of rehearsal while what is rehearsed is being forgotten."""


@dataclass(frozen=True)
class Control:
    """What the controller remembers, besides how far the training is."""

    attempt: int = 1
    """Which attempt at the frontier this is, from 1."""
    frontier: int = 1
    """The furthest stage that was entered: the one that attempts are counted for."""
    best: float | None = None
    """The smallest distance to the goal so far in this attempt; None before it came nearer than chance."""
    best_at: int = 0
    """The iteration of the stage at which it was reached."""
    passing_since: int | None = None
    """The iteration of the stage since which the signal has been beyond the threshold."""
    learned_at: int | None = None
    """Of the last stage: its iteration at which it was first beyond the threshold of the stages before it."""
    settled: bool = False
    """Whether this stage has passed already (the last one may go on after that)."""
    lost: bool = False
    """Whether the step just done was the last of a lost attempt, which is undone before the next step."""
    guarding: bool = False
    """Whether what is rehearsed was being forgotten at the last look."""
    undone: int = 0
    """Attempts that were undone so far, at all stages."""
    gave_up: str = ""
    """Why the training gave up, if it did."""


@dataclass(frozen=True)
class Gentleness:
    """How an attempt is trained."""

    rehearsal: float
    """The share of batches that come from earlier stages."""
    lr: float
    """The factor of the learning rate."""
    ahead: float
    """The share of batches that come from the next stage."""


def gentleness(schedule: ScheduleConfig, control: Control, rehearsal: float) -> Gentleness:
    """rehearsal: the share of a first attempt; one of 0 stays 0, since another field switches it on."""
    further = control.attempt - 1
    more = _given(schedule.gentler_rehearsal, GENTLER_REHEARSAL) * further
    share = max(rehearsal, min(MOST_REHEARSAL, rehearsal + more)) if rehearsal else 0.0
    if control.guarding and rehearsal:
        share = max(share, GUARDING)
    factor = _given(schedule.gentler_lr, GENTLER_LR) ** further
    return Gentleness(share, factor, _given(schedule.smoothing, SMOOTHING) if further else 0.0)


def cooling_for(schedule: ScheduleConfig, progress: Progress, control: Control | None) -> int:
    """Iterations for which the learning rate of the last stage has been falling."""
    if control is None or not schedule.cool_when_learned:
        return progress.in_stage
    return 0 if control.learned_at is None else progress.in_stage - control.learned_at


def enter_next(progress: Progress, control: Control) -> tuple[Progress, Control]:
    """The stage just trained has passed: on to the next one."""
    stage = progress.stage + 1
    new = stage > control.frontier
    control = replace(
        _fresh(control),
        attempt=1 if new else control.attempt,
        frontier=max(stage, control.frontier),
    )
    return replace(progress, stage=stage, in_stage=0, stage_ended=False), control


def go_back(schedule: ScheduleConfig, progress: Progress, control: Control) -> tuple[Progress, Control]:
    """The attempt just made is lost. Its weights are taken back by whoever holds them; this counts."""
    again = dwell_again(schedule, control.attempt + 1) > 0
    stage = progress.stage - 1 if again else progress.stage
    control = replace(_fresh(control), attempt=control.attempt + 1, undone=control.undone + 1)
    return replace(progress, stage=stage, in_stage=0, stage_ended=False), control


def guard(schedule: ScheduleConfig, control: Control, rehearsed_loss: float | None) -> Control:
    """Look at the running loss of what is rehearsed; None where nothing was rehearsed yet at this stage."""
    most = _given(schedule.guard, GUARD)
    forgotten = rehearsed_loss is not None and most > 0 and rehearsed_loss > most
    return control if forgotten == control.guarding else replace(control, guarding=forgotten)


def dwell_again(schedule: ScheduleConfig, attempt: int) -> int:
    """Iterations for which the stage before is trained again, before this attempt at the frontier."""
    dwell = _given(schedule.dwell, DWELL)
    return int(dwell * _given(schedule.gentler_dwell, GENTLER_DWELL) * (attempt - 1))


def control_step(
    schedule: ScheduleConfig,
    progress: Progress,
    control: Control,
    iterations: int,
    stages: int,
    signal: float | None,
    chance: float,
) -> tuple[Progress, Control]:
    """Count the step just done, and decide whether the stage has passed or is lost.

    signal: the running loss or accuracy as `judge` wants it; None where it was not looked at this time.
    chance: what the signal is for a model that knows nothing.
    """
    progress = replace(progress, iteration=progress.iteration + 1, in_stage=progress.in_stage + 1)
    last = progress.stage == stages
    if signal is not None:
        control = _look(schedule, progress, control, signal, chance, last)
    spent = progress.iteration >= iterations
    if spent or (control.settled and (not last or schedule.stop_early)):
        return replace(progress, stage_ended=True, finished=spent or last), control
    if not _is_lost(schedule, progress, control):
        return progress, control
    if last and schedule.settle_for_less:
        if signal is None:
            return progress, control  # decided at the next look: what was learned may be gone again
        if passes(schedule, signal, last=False):
            return replace(progress, stage_ended=True, finished=True), control
    if control.attempt >= _given(schedule.attempts, ATTEMPTS):
        times = "once" if control.attempt == 1 else f"{control.attempt} times"
        reason = f"stage {progress.stage} of {stages} was tried {times} and did not learn"
        return replace(progress, stage_ended=True, finished=True), replace(control, gave_up=reason)
    return progress, replace(control, lost=True)


def _look(
    schedule: ScheduleConfig,
    progress: Progress,
    control: Control,
    signal: float,
    chance: float,
    last: bool,
) -> Control:
    distance = abs(signal - _goal(schedule))
    reach = abs(chance - _goal(schedule)) if control.best is None else control.best
    if _on_the_right_side(schedule, signal, chance) and distance <= NEARER * reach:
        control = replace(control, best=distance, best_at=progress.in_stage)
    if schedule.cool_when_learned and last and control.learned_at is None and passes(schedule, signal, False):
        control = replace(control, learned_at=progress.in_stage)
    if not passes(schedule, signal, last):
        return replace(control, passing_since=None)
    since = progress.in_stage if control.passing_since is None else control.passing_since
    repeating = progress.stage < control.frontier
    dwell = dwell_again(schedule, control.attempt) if repeating else _given(schedule.dwell, DWELL)
    long_enough = progress.in_stage >= schedule.shortest and progress.in_stage - since >= dwell
    return replace(control, passing_since=since, settled=control.settled or long_enough)


def _is_lost(schedule: ScheduleConfig, progress: Progress, control: Control) -> bool:
    """The first stage has nothing to go back to; a stage that is trained again has passed before."""
    patience = _given(schedule.patience, PATIENCE)
    at_the_frontier = 1 < progress.stage == control.frontier
    trying = at_the_frontier and control.passing_since is None and not control.settled
    return patience > 0 and trying and progress.in_stage - control.best_at >= patience


def _goal(schedule: ScheduleConfig) -> float:
    return 0.0 if schedule.signal == "loss" else 1.0


def _on_the_right_side(schedule: ScheduleConfig, signal: float, chance: float) -> bool:
    return signal < chance if schedule.signal == "loss" else signal > chance


def require_time_to_learn(schedule: ScheduleConfig, ease: int) -> None:
    """Refuse stages that would be lost before they are looked at: further attempts are eased for longer."""
    patience, attempts = _given(schedule.patience, PATIENCE), _given(schedule.attempts, ATTEMPTS)
    good = schedule.kind != "controller" or patience == 0 or ease * attempts < patience
    why = f"must be longer, and attempt {attempts} is eased for {attempts} times as many"
    require(good, "ease", f"{ease:,} iterations are too many: schedule.patience ({patience:,}) {why}")


def _given(value: float | None, default: float) -> float:
    return default if value is None else value


def _fresh(control: Control) -> Control:
    """As a stage, or a further attempt at one, begins."""
    return Control(control.attempt, control.frontier, undone=control.undone, gave_up=control.gave_up)
