"""Asked to stop in the midst of a part: at once, and to the bytes of a run that nobody disturbed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')

from internalize.cli import main
from internalize.errors import Interrupted
from internalize.kinds.entrance import train
from internalize.kinds.selfplay import SelfPlayConfig, rounds
from internalize.runs.checkpoint import checkpoints
from internalize.runtime.execution import Execution
from tests.runtime.faults import results

BRIEF = SelfPlayConfig(
    rounds=2, games=600, simulations=4, updates=300, batch=32, width=16, depth=1, measured=50, matches=10
)
"""A round is two parts of self-play and two of training: steps 1, 2 and 3, 4; after step 1 it is measured."""


class Interrupter:
    """Takes the place of a function: asks the process to stop in its so-many-th call, and counts all calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, call: int) -> None:
        self.inner, self.call, self.calls = getattr(module, name), call, 0
        monkeypatch.setattr(module, name, self)

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        if self.calls == self.call:
            os.kill(os.getpid(), signal.SIGTERM)
        return self.inner(*arguments)


def test_a_part_that_is_cut_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(BRIEF, Execution(out=tmp_path / "calm"))
    out = tmp_path / "disturbed"
    for module, name, call, reached in (
        (rounds, "search", 2, 0),  # the second move of the first part of all
        (rounds, "search", 12, 1),  # the second part: the state before it was measured already
        (rounds, "masked_loss", 3, 2),  # the third update of the first part of training
        (rounds, "masked_loss", 260, 3),  # its second part, after one of 250 updates
        (rounds, "search", 3, 4),  # the next round, whose beginning forgets what the last one counted
    ):
        with monkeypatch.context() as patch:
            interrupter = Interrupter(patch, module, name, call)
            with pytest.raises(Interrupted):
                train(BRIEF, Execution(out=out))
        assert interrupter.calls == call, "it went on after the wish to stop"
        (folder,) = out.iterdir()
        assert int(checkpoints(folder / "checkpoints")[0].stem) == reached
    train(BRIEF, Execution(out=out))
    assert results(out) == results(tmp_path / "calm")


def test_the_wish_is_answered_once_where_somebody_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    brief = ["--rounds", "1", "--games", "8", "--simulations", "2", "--updates", "1", "--out", str(tmp_path)]
    for more, said in (([], 1), (["--quiet"], 0)):
        with monkeypatch.context() as patch:
            Interrupter(patch, rounds, "search", 1)
            assert main(["selfplay", *brief, *more]) == 143
        assert capsys.readouterr().err.count("internalize: stopping, writing a checkpoint…\n") == said
