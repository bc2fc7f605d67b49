"""Timing in turns, against a clock that only the timed functions move."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from internalize.benchmarks import cases as resources


class Clock:
    """Seconds pass only while a function runs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def taking(self, name: str, seconds: list[float]) -> Callable[[], None]:
        """A function whose calls take these seconds, the last of them again and again."""
        left = list(seconds)

        def run() -> None:
            self.calls.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run


def test_medians_of_calls_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    # two calls warm up, then five samples: 9, 3, 3, 70, 3 for one, and 2 for the other
    turns = {"a": clock.taking("a", [100, 5, 9, 3, 3, 70, 3]), "b": clock.taking("b", [50, 2])}
    assert resources.seconds_each(turns, repeats=5) == {"a": 3, "b": 2}
    assert "".join(clock.calls) == "aabb" + "ab" * 5


def test_a_quick_function_is_called_often_enough_to_be_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    quick = 2.0**-10  # a number of seconds that sums without rounding
    assert resources.seconds_each({"a": clock.taking("a", [quick])}, repeats=1) == {"a": quick}
    assert len(clock.calls) - 2 == round(resources.SHORTEST / quick)
