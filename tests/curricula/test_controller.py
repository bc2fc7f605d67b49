"""The controller against scripts of losses worked out by hand: settles, goes back, gives up."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from internalize.curricula.controller import (
    Control,
    control_step,
    cooling_for,
    dwell_again,
    enter_next,
    gentleness,
    go_back,
    guard,
)
from internalize.curricula.schedule import Progress, ScheduleConfig, looks_at_signal
from internalize.errors import BadInput
from internalize.kinds.chain.config import OptimizerConfig

CHANCE = math.log(2)
Script = Callable[[int, int, int], float]
"""(stage, attempt, iterations done in the stage) → the running loss."""
Course = list[tuple[int, int, int]]
"""(stage, attempt, iterations), in the order trained."""


def course(schedule: ScheduleConfig, script: Script, iterations: int, stages: int) -> tuple[Course, Control]:
    """What the controller does with a script of losses."""
    progress, control = Progress(), Control()
    trained: Course = []
    while not progress.finished:
        if control.lost:
            progress, control = go_back(schedule, progress, control)
        elif progress.stage_ended:
            progress, control = enter_next(progress, control)
        if progress.in_stage == 0:
            trained.append((progress.stage, control.attempt, 0))
        looks = looks_at_signal(schedule, progress)
        signal = script(progress.stage, control.attempt, progress.in_stage + 1) if looks else None
        progress, control = control_step(schedule, progress, control, iterations, stages, signal, CHANCE)
        trained[-1] = (progress.stage, control.attempt, progress.in_stage)
    assert sum(done for *_, done in trained) == progress.iteration <= iterations
    return trained, control


def controller(**fields: float | bool) -> ScheduleConfig:
    settings = {"shortest": 20, "dwell": 50, "patience": 200, "attempts": 3, "gentler_dwell": 2.0}
    stopping = {"threshold": 0.1, "stop_early": True}
    return ScheduleConfig(kind="controller", **{**settings, **stopping, **fields})  # type: ignore[arg-type]


def test_a_stage_ends_when_it_has_stayed_learned() -> None:
    """Learned at 100, unlearned at 120, learned again at 130: settled 50 iterations after that."""

    def script(stage: int, attempt: int, done: int) -> float:
        return 0.05 if done >= 100 and done != 120 else 0.3

    trained, control = course(controller(), script, 10_000, 2)
    assert trained == [(1, 1, 180), (2, 1, 180)]
    assert control.undone == 0
    assert control.gave_up == ""
    at_once, _ = course(controller(dwell=0), script, 10_000, 2)
    assert at_once == [(1, 1, 100), (2, 1, 100)]


def test_a_lost_stage_is_undone_the_one_before_is_trained_again_and_the_next_attempt_passes() -> None:
    """Stage 2 stays at chance. Its second attempt, after stage 1 has dwelt for 2 · 50 more, learns at 60."""

    def script(stage: int, attempt: int, done: int) -> float:
        if stage == 2:
            return 0.01 if attempt == 2 and done >= 60 else CHANCE
        return 0.01

    trained, control = course(controller(), script, 10_000, 3)
    # a stage that is learned from the first look, at 10, has stayed so for 50 at 60
    assert trained == [(1, 1, 60), (2, 1, 200), (1, 2, 110), (2, 2, 110), (3, 1, 60)]
    assert control.undone == 1
    assert control.frontier == 3
    assert control.attempt == 1


def test_without_training_the_stage_before_again_the_next_attempt_begins_at_once() -> None:
    def script(stage: int, attempt: int, done: int) -> float:
        return CHANCE if stage == 2 and attempt == 1 else 0.01

    trained, _ = course(controller(gentler_dwell=0), script, 10_000, 2)
    assert trained == [(1, 1, 60), (2, 1, 200), (2, 2, 60)]


def test_slow_but_steady_is_not_lost() -> None:
    """A tenth nearer every 190 iterations, within a patience of 200, however long it takes."""

    def script(stage: int, attempt: int, done: int) -> float:
        return 0.01 if stage == 1 else CHANCE * 0.89 ** (done // 190)

    trained, control = course(controller(dwell=0), script, 100_000, 2)
    needed = next(k for k in range(100) if CHANCE * 0.89**k < 0.1)
    assert trained == [(1, 1, 20), (2, 1, 190 * needed)]
    assert control.undone == 0


def test_a_return_to_chance_from_above_is_no_progress() -> None:
    """The loss falls all the time, from 5 towards ln 2: nothing is learned by that."""

    def script(stage: int, attempt: int, done: int) -> float:
        return 0.01 if stage == 1 else CHANCE + 5 * 0.99**done

    trained, control = course(controller(attempts=1), script, 10_000, 2)
    assert trained == [(1, 1, 60), (2, 1, 200)]
    assert control.gave_up == "stage 2 of 2 was tried once and did not learn"


def test_it_gives_up_with_a_reason() -> None:
    trained, control = course(controller(), lambda stage, attempt, done: 0.01 if stage == 1 else 0.7, 10_000, 5)
    assert trained == [(1, 1, 60), (2, 1, 200), (1, 2, 110), (2, 2, 200), (1, 3, 210), (2, 3, 200)]
    assert control.gave_up == "stage 2 of 5 was tried 3 times and did not learn"
    assert control.undone == 2


def test_the_first_stage_and_endless_patience_are_never_lost() -> None:
    first, control = course(controller(), lambda *_: 0.7, 1_000, 2)
    assert first == [(1, 1, 1_000)]
    assert control.gave_up == ""
    endless, _ = course(
        controller(patience=0), lambda stage, attempt, done: 0.01 if stage == 1 else 0.7, 1_000, 2
    )
    assert endless == [(1, 1, 60), (2, 1, 940)]


def test_the_last_stage_gets_what_is_left_unless_told_to_stop() -> None:
    trained, control = course(controller(stop_early=False), lambda *_: 0.01, 1_000, 2)
    assert trained == [(1, 1, 60), (2, 1, 940)]
    assert control.settled


def test_the_last_stage_may_have_a_threshold_of_its_own() -> None:
    def script(stage: int, attempt: int, done: int) -> float:
        return 0.05 if done < 150 else 0.01

    trained, _ = course(controller(last_threshold=0.02), script, 10_000, 2)
    assert trained == [(1, 1, 60), (2, 1, 200)]


def test_a_learned_last_stage_is_not_thrown_away_for_the_sake_of_a_better_one() -> None:
    """0.05 from iteration 30 on: learned like the others (0.1), and it never comes to 0.02."""

    def script(stage: int, attempt: int, done: int) -> float:
        return 0.01 if stage == 1 else 0.05 if done >= 30 else 0.7

    undone, control = course(controller(last_threshold=0.02), script, 600, 2)
    assert undone[:3] == [(1, 1, 60), (2, 1, 230), (1, 2, 110)]
    assert control.undone == 1
    kept, control = course(controller(last_threshold=0.02, settle_for_less=True, patience=205), script, 600, 2)
    assert kept == [(1, 1, 60), (2, 1, 240)]  # patience ends at 235, between two looks
    assert (control.undone, control.gave_up) == (0, "")

    def collapses(stage: int, attempt: int, done: int) -> float:
        return 0.7 if stage == 2 and done >= 150 else script(stage, attempt, done)

    lost, control = course(controller(last_threshold=0.02, settle_for_less=True), collapses, 400, 2)
    assert lost == [(1, 1, 60), (2, 1, 230), (1, 2, 110)]
    assert control.undone == 1


def test_the_last_stage_cools_from_when_it_is_learned() -> None:
    """Below 0.1 for the first time at iteration 40 of stage 2, and above it again at 60."""
    schedule = controller(last_threshold=0.02, cool_when_learned=True)
    progress, control = Progress(stage=2), Control(frontier=2)
    cooled = {}
    for done, signal in ((10, 0.6), (30, 0.15), (40, 0.09), (60, 0.2), (70, 0.05)):
        before = replace(progress, in_stage=done - 1, iteration=done - 1)
        progress, control = control_step(schedule, before, control, 9_999, 2, signal, CHANCE)
        cooled[done] = cooling_for(schedule, progress, control)
    assert cooled == {10: 0, 30: 0, 40: 0, 60: 20, 70: 30}
    _, again = go_back(schedule, progress, control)
    assert again.learned_at is None
    at_once = controller(last_threshold=0.02)
    assert cooling_for(at_once, progress, Control(frontier=2)) == cooling_for(at_once, progress, None) == 70
    _, earlier = control_step(schedule, Progress(in_stage=9), Control(), 9_999, 2, 0.01, CHANCE)
    assert earlier.learned_at is None  # of the last stage alone
    optimizer = OptimizerConfig(lr=1e-3, warmup=100, cooling=20)
    assert optimizer.lr_at(49, 0) == pytest.approx(5e-4)
    assert optimizer.lr_at(200, 40) == pytest.approx(2.5e-4)


def test_accuracy_is_a_signal_too() -> None:
    schedule = ScheduleConfig(
        kind="controller", signal="accuracy", shortest=20, dwell=0, patience=100, attempts=1, stop_early=True
    )
    progress, control = Progress(stage=2, in_stage=109), Control(frontier=2)
    for signal, lost in ((0.5, True), (0.54, True), (0.56, False)):  # a tenth nearer from ½ to 1 is 0.55
        after, found = control_step(schedule, progress, control, 9_999, 3, signal, 0.5)
        assert (found.gave_up != "", after.finished) == (lost, lost)


def test_every_further_attempt_is_gentler_and_each_ingredient_can_be_switched_off() -> None:
    schedule = controller(gentler_rehearsal=0.2, gentler_lr=0.5, smoothing=0.1)
    found = [gentleness(schedule, Control(attempt=attempt), 0.5) for attempt in (1, 2, 3, 4)]
    assert [g.rehearsal for g in found] == pytest.approx([0.5, 0.7, 0.9, 0.9])
    assert [g.lr for g in found] == [1, 0.5, 0.25, 0.125]
    assert [g.ahead for g in found] == [0, 0.1, 0.1, 0.1]
    assert [dwell_again(schedule, attempt) for attempt in (1, 2, 3)] == [0, 100, 200]
    off = controller(gentler_rehearsal=0, gentler_lr=1, smoothing=0, gentler_dwell=0)
    fourth = gentleness(off, Control(attempt=4), 0.5)
    assert (fourth.rehearsal, fourth.lr, fourth.ahead) == (0.5, 1, 0)
    assert dwell_again(off, 4) == 0
    assert gentleness(schedule, Control(attempt=3), 0.0).rehearsal == 0  # no rehearsal stays none


def test_the_guard_rehearses_more_while_something_is_being_forgotten() -> None:
    schedule, control = controller(guard=0.1), Control(frontier=2)
    shares = []
    for loss in (None, 0.05, 0.11, 0.5, 0.09):
        control = guard(schedule, control, loss)
        shares.append(gentleness(schedule, control, 0.25).rehearsal)
    assert shares == [0.25, 0.25, 0.75, 0.75, 0.25]
    assert not guard(controller(), control, 9.0).guarding
    assert guard(controller(guard=0.3), control, 0.4).guarding
    assert not enter_next(Progress(), Control(guarding=True))[1].guarding


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"kind": "adaptive", "dwell": 5}, "schedule.dwell"),
        ({"kind": "fixed", "patience": 5}, "schedule.patience"),
        ({"kind": "controller", "cap": 500}, "schedule.cap"),
        ({"kind": "controller", "attempts": 0}, "schedule.attempts"),
        ({"kind": "controller", "gentler_lr": 0.0}, "schedule.gentler-lr"),
        ({"kind": "controller", "smoothing": 1.0}, "schedule.smoothing"),
    ],
)
def test_what_does_not_fit_is_refused(fields: dict[str, float | str], named: str) -> None:
    with pytest.raises(BadInput) as problem:
        ScheduleConfig(**fields)  # type: ignore[arg-type]
    assert problem.value.field == named
