"""Texts and numbers as a terminal shows them."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from internalize.cli import main
from internalize.contract import Begun, End, Ended, RunState, Stage
from internalize.display.terminal import (
    LineFleet,
    LineView,
    LiveFleet,
    LiveView,
    PlainConsole,
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
    view = LineView(EVIL, {"loss": "loss"}, 1)
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


def test_live_views_spell_out_what_runs_are_called() -> None:
    view = LiveView(EVIL, {"loss": "loss"}, 1)
    view.stepped(STAGE)
    fleet = LiveFleet(EVIL, {"loss": "loss"})
    fleet.lines = []
    file = io.StringIO()
    console = PlainConsole(file=file, force_terminal=True, width=200)
    console.print(view._draw())
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
