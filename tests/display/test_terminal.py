"""What a terminal shows: texts and numbers, and a run while it trains."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from internalize.cli import main
from internalize.contract import Begun, End, Ended, RunState, Stage
from internalize.display.live import LineView, LiveView, Watched
from internalize.display.plots import text_plot
from internalize.display.terminal import (
    LineFleet,
    LiveFleet,
    PlainConsole,
    newest_numbers,
    percent,
    results_table,
)
from internalize.statistics import wilson

EVIL = "a\x1b[2J\x1b]0;owned\x07\x9b31m\u202eb"
SHOWN = r"a\x1b[2J\x1b]0;owned\x07\x9b31m\u202eb"
OBEYED = set("\x07\x9b\u202e")


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
    assert view._curves["ID right, in %"][-1][1] == 75.0, "the curve tells what the number tells"
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


def obeyed(text: str) -> set[str]:
    """What a terminal would obey in the text, besides colours, cursors and bells of this package's own."""
    own = re.sub("\x1b\\[[0-9;?]*[mAKhlGJH]", lambda found: "" if found[0] != "\x1b[2J" else found[0], text)
    return set(own) & (OBEYED | {"\x1b"})


def test_tables_titles_and_lines_obey_our_styles_alone() -> None:
    file = io.StringIO()
    console = PlainConsole(file=file, force_terminal=True, width=200)
    console.print(f"[bold]{EVIL}[/bold]")
    console.print(results_table(EVIL, [EVIL, "x"], [[EVIL, "[green]right[/green]"]]))
    said = file.getvalue()
    assert obeyed(said) == set()
    assert said.count(SHOWN) == 4
    assert "\x1b[32mright" in said


STAGE = Stage(index=1, total=2, label=EVIL, step=1, steps=4, unit="steps", just_ended=False)


def test_views_of_runs_spell_out_what_runs_are_called(capsys: pytest.CaptureFixture[str]) -> None:
    view = LineView(Watched(EVIL, {"loss": "loss"}))
    view.begin(Path("run"), STAGE)
    view.row({"event": "evaluation", "loss": 1.0}, STAGE)
    view.end(RunState.DONE, {})
    fleet = LineFleet(EVIL, {"loss": "loss"})
    fleet.begin([EVIL])
    fleet.event(0, Begun(STAGE))
    fleet.event(0, Ended(End.FAILED, EVIL))
    said = capsys.readouterr().err
    assert obeyed(said) == set()
    assert said.count(SHOWN) == 5
    assert "…" not in said, "of a pace that is not known yet nothing is said"


def test_live_views_spell_out_what_runs_are_called() -> None:
    view = LiveView(Watched(EVIL, {"loss": "loss"}))
    view.stepped(STAGE)
    fleet = LiveFleet(EVIL, {"loss": "loss"})
    fleet.lines = []
    file = io.StringIO()
    console = PlainConsole(file=file, force_terminal=True, width=200)
    console.print(view.draw())
    console.print(fleet.draw())
    assert obeyed(file.getvalue()) == set()
    assert file.getvalue().count(SHOWN) == 3


def test_a_task_file_and_a_refusal_are_shown_and_not_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    task = {"name": "a\x1b[2Jb", "states": [EVIL, "x"], "transitions": [[0, 1], [1, 0]]}
    Path("task.json").write_text(json.dumps(task))
    assert main(["tasks", "task.json"]) == 0
    captured = capsys.readouterr()
    assert obeyed(captured.out) == set()
    assert main(["tasks", EVIL]) == 2
    assert main(["runs", "show", EVIL]) == 2
    captured = capsys.readouterr()
    assert obeyed(captured.err) == set()
    assert captured.err.count("\n") == 2


def test_a_title_is_as_wide_as_the_terminal() -> None:
    """A narrow table does not break it; what a terminal would obey is spelled out in it."""
    console = PlainConsole(file=io.StringIO(), width=60)
    console.print(results_table("a long title, stage 2 of 3: binomial\x1b inputs", ["p"], [["1"]]))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0] == r"a long title, stage 2 of 3: binomial\x1b inputs"
    assert max(map(len, lines[1:])) == 5
