"""Numbers as a terminal shows them."""

from __future__ import annotations

from internalize.display.terminal import percent
from internalize.statistics import wilson


def test_a_bound_below_all_is_not_told_as_all() -> None:
    interval = wilson(10_000, 10_000)
    assert [percent(bound) for bound in (interval.low, interval.high)] == ["99.96 %", "100.0 %"]
    assert percent(None) == "–"
