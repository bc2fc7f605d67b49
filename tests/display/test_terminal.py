"""Numbers as a terminal shows them."""

from __future__ import annotations

from internalize.display.terminal import newest_numbers, percent
from internalize.statistics import wilson


def test_a_bound_below_all_is_not_told_as_all() -> None:
    interval = wilson(10_000, 10_000)
    assert [percent(bound) for bound in (interval.low, interval.high)] == ["99.96 %", "100.0 %"]
    assert percent(None) == "–"


def test_a_stage_is_shown_on_its_own_target() -> None:
    headline = {"loss": "loss", "id_accuracy": "ID"}
    row = {"loss": 0.5, "id_accuracy": 0.53, "id_target_accuracy": 0.991}
    assert newest_numbers(row, headline) == {"loss": "0.5000", "id_accuracy": "99.1 % (q_T 53.0 %)"}
    assert newest_numbers({**row, "id_accuracy": 0.991}, headline)["id_accuracy"] == "99.1 %"
    assert newest_numbers({"loss": 0.25}, headline) == {"loss": "0.2500"}
