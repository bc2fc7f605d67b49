"""Schedules are pure functions: their course against tables worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, groupby
from typing import Any

import pytest

from internalize.curricula.schedule import (
    EqualShares,
    Progress,
    ScheduleConfig,
    begin_step,
    end_step,
    looks_at_signal,
)
from internalize.errors import BadInput

Signal = Callable[[int, int], float]
"""(stage, iterations done in it) → the running loss or accuracy."""


def course(schedule: ScheduleConfig, iterations: int, stages: int, signal: Signal) -> list[tuple[int, int]]:
    """(stage, iterations it got), in the order trained, from the first step to the end of the training."""
    progress = Progress()
    trained = []
    while not progress.finished:
        progress = begin_step(progress)
        seen = None
        if looks_at_signal(schedule, progress):
            seen = signal(progress.stage, progress.in_stage + 1)
        progress = end_step(schedule, progress, iterations, stages, seen)
        trained.append(progress.stage)
    assert progress.iteration == len(trained) <= iterations
    assert progress.stage_ended
    return [(stage, len(list(steps))) for stage, steps in groupby(trained)]


@pytest.mark.parametrize(
    ("iterations", "stages", "expected"),
    [
        (12, 3, [(1, 4), (2, 4), (3, 4)]),
        (14, 3, [(1, 4), (2, 4), (3, 6)]),  # the remainder goes to the last
        (5, 3, [(1, 1), (2, 1), (3, 3)]),
        (3, 3, [(1, 1), (2, 1), (3, 1)]),
        (7, 1, [(1, 7)]),
        (1, 1, [(1, 1)]),
    ],
)
def test_fixed_shares(iterations: int, stages: int, expected: list[tuple[int, int]]) -> None:
    assert course(ScheduleConfig(), iterations, stages, lambda stage, done: 0.0) == expected
    shares = EqualShares(iterations, stages)
    assert list(enumerate(shares.sizes(), start=1)) == expected
    by_step = groupby(shares.stage_of(step) for step in range(iterations))
    assert [(stage, len(list(steps))) for stage, steps in by_step] == expected
    sizes = [size for _, size in expected]
    assert [shares.end(stage) for stage, _ in expected] == list(accumulate(sizes))


def falls_after(*steps: int) -> Signal:
    """A loss that is 1.0 and falls to 0.01 after that many iterations of each stage."""
    return lambda stage, done: 0.01 if done >= steps[stage - 1] else 1.0


@pytest.mark.parametrize(
    ("fields", "iterations", "signal", "expected"),
    [
        # the signal is looked at every tenth iteration; what remains goes to the last stage
        ({}, 100, falls_after(20, 33, 1), [(1, 20), (2, 40), (3, 40)]),
        ({"stop_early": True}, 100, falls_after(20, 33, 1), [(1, 20), (2, 40), (3, 10)]),
        ({"stop_early": True}, 100, falls_after(20, 33, 99), [(1, 20), (2, 40), (3, 40)]),
        ({"shortest": 25}, 100, falls_after(1, 1, 1), [(1, 30), (2, 30), (3, 40)]),
        ({"cap": 15}, 100, falls_after(99, 10, 99), [(1, 15), (2, 10), (3, 75)]),
        ({"cap": 15, "stop_early": True}, 100, falls_after(99, 99, 30), [(1, 15), (2, 15), (3, 30)]),
        # iterations run out before the last stage is reached
        ({}, 35, falls_after(20, 99, 1), [(1, 20), (2, 15)]),
        ({"threshold": 0.005}, 50, falls_after(20, 20, 20), [(1, 50)]),
        ({"threshold": 2.0}, 50, falls_after(99, 99, 99), [(1, 10), (2, 10), (3, 30)]),
        # accuracy must rise above its bar
        ({"signal": "accuracy"}, 50, lambda stage, done: 0.99, [(1, 50)]),
        ({"signal": "accuracy"}, 50, lambda stage, done: 0.991, [(1, 10), (2, 10), (3, 30)]),
        ({"signal": "accuracy", "threshold": 0.9}, 50, lambda s, done: done / 20, [(1, 20), (2, 20), (3, 10)]),
    ],
)
def test_adaptive_course(
    fields: dict[str, Any], iterations: int, signal: Signal, expected: list[tuple[int, int]]
) -> None:
    schedule = ScheduleConfig(kind="adaptive", **{"shortest": 1, **fields})
    assert course(schedule, iterations, 3, signal) == expected


def test_default_bars() -> None:
    assert ScheduleConfig().bar == 0.02
    assert ScheduleConfig("adaptive", signal="accuracy").bar == 0.99
    assert ScheduleConfig("adaptive", threshold=0.5).bar == 0.5


def test_a_fixed_schedule_never_asks_for_the_signal() -> None:
    assert not any(looks_at_signal(ScheduleConfig(), Progress(in_stage=i)) for i in range(50))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"memory": 0}, "schedule.memory"),
        ({"shortest": 0}, "schedule.shortest"),
        ({"cap": 99}, "schedule.cap"),
        ({"threshold": 0.0}, "schedule.threshold"),
        ({"threshold": float("nan")}, "schedule.threshold"),
        ({"signal": "accuracy", "threshold": 1.0}, "schedule.threshold"),
    ],
)
def test_impossible_schedules_name_the_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as problem:
        ScheduleConfig(**fields)
    assert problem.value.field == field
