"""When a stage ends: pure functions of how far the training is and how well it goes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Literal

from internalize.configs.codec import LEFT_OUT_UNLESS_SET, typed
from internalize.errors import BadInput, require

DEFAULT_THRESHOLDS = {"loss": 0.02, "accuracy": 0.99}
LOOK_EVERY = 10
"""Iterations of a stage between two looks at the running signal: a look makes the program wait for the device,
and costs a stage at most nine iterations more than it needed."""


@dataclass(frozen=True)
@typed("schedule")
class ScheduleConfig:
    """When a stage of the curriculum ends."""

    kind: Literal["fixed", "adaptive", "controller"] = "fixed"
    """fixed: every stage gets the same share of the iterations, the last one the remainder too (the paper's).
    adaptive: a stage ends when its running signal passes the threshold; the last stage gets what is left.
    controller (not for text): as adaptive, but a stage must also settle, and one that does not learn is undone
    and tried again more gently. What is said of adaptive below holds for it too, except the cap."""
    signal: Literal["loss", "accuracy"] = "loss"
    """adaptive: what is compared with the threshold."""
    threshold: float | None = None
    """adaptive: a stage ends below this loss (default 0.02) or above this accuracy (default 0.99)."""
    judge: Literal["worst", "mean"] = "worst"
    """adaptive: judge by the worst answer position or by their mean, which can hide the one that is new."""
    memory: int = 50
    """adaptive: the running signal averages over about this many iterations."""
    shortest: int = 100
    """adaptive: no stage ends before this many iterations. The signal is looked at every tenth iteration of a
    stage, so that one that passes ends at a multiple of ten."""
    cap: int | None = None
    """adaptive: a stage ends after this many iterations in any case; no cap if not given."""
    stop_early: bool = False
    """adaptive: end the training when the last stage passes the threshold too."""
    last_threshold: float | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """adaptive: the threshold of the last stage, if it is to be learned better than those on the way."""
    dwell: int | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """controller: iterations for which a learned stage must stay learned before it ends (default 100; 0: ends
    at once)."""
    patience: int | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """controller: iterations in which the signal must come a tenth nearer to its goal, beginning at chance;
    otherwise the stage is undone (default 3000; 0: no stage is ever undone)."""
    attempts: int | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """controller: how often a stage is tried before the training gives up (default 4)."""
    gentler_rehearsal: float | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """controller: every further attempt at a stage adds this to the share of rehearsal, up to 0.9 (default
    0.15; 0: the share stays)."""
    gentler_lr: float | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """controller: every further attempt multiplies the learning rate by this (default 0.7; 1: it stays)."""
    gentler_dwell: float | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """controller: before every further attempt the stage before is trained again, for this many times its
    dwell, the next time twice this, and so on (default 5; 0: the next attempt begins at once)."""
    guard: float | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """controller: while the worst running loss of what is rehearsed is above this, three batches in four
    rehearse it, so that nothing new is learned at its cost (default 0: no guard)."""
    smoothing: float | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """controller: from the second attempt on, the share of batches that already show the next stage's format,
    so that no single step is the hard one (default 0: none). Needs formats that can be told apart."""
    settle_for_less: bool | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """controller: a last stage that is beyond the threshold of the stages before it, and comes no nearer to its
    own within the patience, ends the training as it is (default: it is undone like any other)."""
    cool_when_learned: bool | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """controller: the learning rate of the last stage falls (optimizer.cooling) only from when the stage is
    beyond the threshold of those before it; a hard one would freeze half learned (default: from its
    beginning)."""

    def __post_init__(self) -> None:
        require(self.memory >= 1, "schedule.memory", f"must be at least 1, got {self.memory}")
        require(self.shortest >= 1, "schedule.shortest", f"must be at least 1, got {self.shortest}")
        good_cap = self.cap is None or self.cap >= self.shortest
        require(
            good_cap, "schedule.cap", f"must be at least schedule.shortest = {self.shortest}, got {self.cap}"
        )
        low, high = (0.0, float("inf")) if self.signal == "loss" else (0.0, 1.0)
        for name in ("threshold", "last_threshold"):
            value = getattr(self, name)
            good = value is None or low < value < high
            why = f"must lie in ({low:g}, {high:g}) for {self.signal}"
            require(good, f"schedule.{name.replace('_', '-')}", why)
        self._check_control()
        self._refuse_what_has_no_effect()

    def _check_control(self) -> None:
        for name in ("dwell", "patience", "gentler_dwell", "guard"):
            value = getattr(self, name)
            good = value is None or 0 <= value < float("inf")
            require(good, f"schedule.{name.replace('_', '-')}", f"must be 0 or more, got {value}")
        good = self.attempts is None or self.attempts >= 1
        require(good, "schedule.attempts", f"must be at least 1, got {self.attempts}")
        good = self.gentler_lr is None or 0 < self.gentler_lr <= 1
        require(good, "schedule.gentler-lr", f"must lie in (0, 1], got {self.gentler_lr}")
        for name in ("gentler_rehearsal", "smoothing"):
            value = getattr(self, name)
            good = value is None or 0 <= value < 1
            require(good, f"schedule.{name.replace('_', '-')}", f"must lie in [0, 1), got {value}")

    def _refuse_what_has_no_effect(self) -> None:
        for entry in fields(self):
            kinds = kinds_of(entry.name)
            if self.kind not in kinds and getattr(self, entry.name) != entry.default:
                name = entry.name.replace("_", "-")
                why = "the stages are fixed" if self.kind == "fixed" else f"this schedule is {self.kind}"
                raise BadInput(f"schedule.{name}", f"belongs to --schedule.kind {kinds[0]}; {why}")

    @property
    def bar(self) -> float:
        return DEFAULT_THRESHOLDS[self.signal] if self.threshold is None else self.threshold


CONTROLS = (
    *("dwell", "patience", "attempts", "guard", "smoothing", "settle_for_less", "cool_when_learned"),
    *("gentler_rehearsal", "gentler_lr", "gentler_dwell"),
)
"""The fields that the controller alone reads."""


def kinds_of(field_name: str) -> tuple[str, ...]:
    """The kinds of schedule that read a field of `ScheduleConfig`."""
    if field_name == "kind":
        return ("fixed", "adaptive", "controller")
    if field_name in CONTROLS:
        return ("controller",)
    return ("adaptive",) if field_name == "cap" else ("adaptive", "controller")


@dataclass(frozen=True)
class EqualShares:
    """Steps dealt out to stages: as many to each, and the remainder to the last."""

    steps: int
    stages: int

    def end(self, stage: int) -> int:
        """Steps done when the stage, from 1, ends."""
        return self.steps if stage == self.stages else stage * (self.steps // self.stages)

    def stage_of(self, step: int) -> int:
        """The stage, from 1, that this step, from 0, belongs to."""
        return min(self.stages, 1 + step // (self.steps // self.stages))

    def sizes(self) -> list[int]:
        """Steps of each stage."""
        ends = (self.end(stage) for stage in range(1, self.stages + 1))
        return [after - before for before, after in pairwise((0, *ends))]


@dataclass(frozen=True)
class Progress:
    """How far a training is: the small state of a schedule."""

    iteration: int = 0
    """Iterations done in all."""
    stage: int = 1
    """The stage being trained, from 1."""
    in_stage: int = 0
    """Iterations done in this stage."""
    stage_ended: bool = False
    """Whether the iteration just done was the stage's last."""
    finished: bool = False
    """Whether the training is over."""


def begin_step(progress: Progress) -> Progress:
    """Enter the next stage if the last step ended one."""
    if progress.stage_ended and not progress.finished:
        return replace(progress, stage=progress.stage + 1, in_stage=0, stage_ended=False)
    return progress


def end_step(
    schedule: ScheduleConfig, progress: Progress, iterations: int, stages: int, signal: float | None
) -> Progress:
    """Count the step just done and decide whether it ends the stage or the training.

    signal: the running loss or accuracy as `judge` wants it; None where it was not looked at this time.
    """
    iteration, in_stage = progress.iteration + 1, progress.in_stage + 1
    last = progress.stage == stages
    if schedule.kind == "fixed":
        ended = not last and iteration == EqualShares(iterations, stages).end(progress.stage)
    else:
        passed = signal is not None and in_stage >= schedule.shortest and passes(schedule, signal, last)
        capped = not last and schedule.cap is not None and in_stage >= schedule.cap
        ended = (passed and (not last or schedule.stop_early)) or capped
    finished = iteration >= iterations or (ended and last)
    return replace(
        progress, iteration=iteration, in_stage=in_stage, stage_ended=ended or finished, finished=finished
    )


def looks_at_signal(schedule: ScheduleConfig, progress: Progress) -> bool:
    """Whether the step about to end needs the running signal: reading it can cost a wait for the device."""
    return schedule.kind != "fixed" and (progress.in_stage + 1) % LOOK_EVERY == 0


def ended_by_schedule(schedule: ScheduleConfig, progress: Progress, iterations: int) -> bool:
    """Whether a stage that has ended did so by its schedule, and not because the iterations ran out."""
    ran_out = progress.finished and progress.iteration >= iterations
    return schedule.kind == "fixed" or not ran_out


def passes(schedule: ScheduleConfig, signal: float, last: bool) -> bool:
    """Whether a signal is beyond the threshold. last: of the last stage."""
    own = schedule.last_threshold if last else None
    bar = schedule.bar if own is None else own
    return signal < bar if schedule.signal == "loss" else signal > bar
