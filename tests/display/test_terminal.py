"""What a terminal shows: numbers, and a run while it trains."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from internalize.contract import Stage
from internalize.display.live import LiveView, Watched
from internalize.display.plots import text_plot
from internalize.display.terminal import newest_numbers, percent
from internalize.statistics import wilson


def test_a_bound_below_all_is_not_told_as_all() -> None:
    interval = wilson(10_000, 10_000)
    assert [percent(bound) for bound in (interval.low, interval.high)] == ["99.96 %", "100.0 %"]
    assert percent(None) == "–"


def test_a_level_lies_between_the_ends_of_the_axis() -> None:
    plot = text_plot({"a": [(0, 0.0), (10, 100.0)]}, 5, 5, (0.0, 100.0), ("chance 50 %", 50.0))
    assert plot.splitlines() == [
        "100 │    ●",
        "    │",
        "    │·····",
        "    │",
        "  0 │●",
        "    └─────",
        "     0  10",
        "● a   · chance 50 %",
    ]


def test_a_live_view_shows_curve_chance_answer_and_the_stages_own_target(tmp_path: Path) -> None:
    before = {"event": "evaluation", "iteration": 5, "stage": 1, "id_accuracy": 1.0, "id_target_accuracy": 1.0}
    (tmp_path / "metrics.jsonl").write_text(f"{json.dumps(before)}\n")
    says = {1: [["1", "1 0", "1 ■", "1 ■"]], 2: [["2", "1 0", "[b]0 ■", "1 ■"]]}
    asked: list[Path] = []

    def answers(folder: Path) -> list[list[str]]:
        asked.append(folder)
        return says[len(asked)]

    view = LiveView(Watched("run", {"id_accuracy": "ID"}, chance=0.25, answers=answers))
    stage = Stage(2, 4, "q2 alone", just_ended=False, step=9, steps=40)

    def drawn() -> str:
        console = Console(width=100, no_color=True)
        with console.capture() as found:
            console.print(view.draw())
        return found.get()

    view.begin(tmp_path, stage)
    try:
        assert "chance" not in drawn(), "one measurement is no curve"
        view.row(
            {"event": "evaluation", "iteration": 10, "id_accuracy": 0.5, "id_target_accuracy": 0.75}, stage
        )
        view.stepped(stage)
        assert asked == [], "nobody is asked in the middle of a stage"
        for _ in says:
            view.stepped(Stage(2, 4, "q2 alone", just_ended=True, step=10, steps=40))
        text = drawn()
    finally:
        view._live.stop()
    assert "ID 75.0 % (q_T 50.0 %)" in text
    assert "chance 25.0 %" in text
    assert text.count("●") == 2 + 1, "what was measured before, the new one, and the legend"
    assert "stage 2 says" in text
    assert "[b]0 ■" in text
    assert "should be 1 ■" in text


def test_a_stage_is_shown_on_its_own_target() -> None:
    headline = {"loss": "loss", "id_accuracy": "ID"}
    row = {"loss": 0.5, "id_accuracy": 0.53, "id_target_accuracy": 0.991}
    assert newest_numbers(row, headline) == {"loss": "0.5000", "id_accuracy": "99.1 % (q_T 53.0 %)"}
    assert newest_numbers({**row, "id_accuracy": 0.991}, headline)["id_accuracy"] == "99.1 %"
    assert newest_numbers({"loss": 0.25}, headline) == {"loss": "0.2500"}
