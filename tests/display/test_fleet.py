"""The live table of many runs: readable with hundreds, and honest about the time left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from internalize.contract import End, Ended, Stage, Written
from internalize.display.terminal import LineFleet, LiveFleet

DONE, FAILED = Ended(End.DONE), Ended(End.FAILED, "loss is nan")


def at(step: int) -> Stage:
    return Stage(index=2, total=3, label="", just_ended=False, step=step, steps=100, unit="steps")


def test_hundreds_of_runs_show_those_in_hand_and_the_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 runs of 10 s and 100 of 30 s on two workers; after 500 s the short ones are done: 1,500 s left."""
    clock = [0.0]
    monkeypatch.setattr("internalize.display.terminal.time.perf_counter", lambda: clock[0])
    view = LiveFleet("many", {"id_accuracy": "ID"}, [10.0] * 100 + [30.0] * 100)
    view._live.start = lambda *_: None  # type: ignore[method-assign]
    view.begin([f"run {i}" for i in range(200)])
    for i in range(100):
        view.event(i, DONE if i != 7 else FAILED)
    view.event(7, Ended(End.RETRY, "loss is nan"))
    view.event(7, DONE)
    view.event(150, FAILED)
    view.event(100, Written(at(0), {"id_accuracy": 0.5}))
    view.event(101, Ended(End.BUSY, "another process"))
    clock[0] = 500.0
    screen = io.StringIO()
    Console(file=screen, width=120).print(view.draw())
    text = screen.getvalue()
    assert "many: 100 done, 1 running, 1 failed, 97 waiting, 1 elsewhere, about 24 min 45 s left\n" in text
    assert "run 100" in text
    assert "50.0 %" in text
    assert "run 150" in text
    assert "run 99" not in text
    assert len(text.splitlines()) < 12


def test_without_a_terminal_hundreds_of_runs_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    view = LineFleet("many", {"id_accuracy": "ID"})
    view.begin([f"run {i}" for i in range(200)])
    view.event(0, Written(at(50), {"event": "evaluation", "id_accuracy": 0.5}))
    assert capsys.readouterr().err == ""
    view.event(0, DONE)
    view.event(1, FAILED)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith(
        "run 0: done, stage 2/3, 50 steps, ID 50.0 % (1 done, 0 running, 0 failed, 199 waiting)"
    )
    assert lines[1].endswith("run 1: failed, loss is nan (1 done, 0 running, 1 failed, 198 waiting)")
