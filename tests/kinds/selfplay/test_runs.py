"""Self-play as a run: resumed bit by bit, by its commands, and what it learns."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')

from internalize.cli import main
from internalize.errors import BadInput
from internalize.kinds.entrance import train
from internalize.kinds.selfplay import SelfPlayConfig, positions
from internalize.kinds.selfplay import experiment as selfplay_experiment
from internalize.kinds.selfplay.rounds import play_part
from internalize.runtime.execution import Execution
from internalize.runtime.kind import Streams

BRIEF = SelfPlayConfig(
    rounds=2, games=600, simulations=8, updates=300, batch=32, width=16, depth=1, measured=50, matches=10
)
"""Two parts of self-play and two of training a round."""
LARGE = replace(BRIEF, game="connect_four(rows=4,columns=4)", games=8, updates=4, window=1)
"""Taken for a game too large to enumerate: its table of positions begins anew in a resumed run."""


class Killed(BaseException):
    pass


@pytest.mark.parametrize("config", [BRIEF, LARGE], ids=["enumerated", "large"])
def test_a_killed_run_ends_in_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: SelfPlayConfig
) -> None:
    """Killed at several steps, with a checkpoint after each: model, metrics and summary are the same."""
    if config is LARGE:
        monkeypatch.setattr(positions, "ENUMERABLE", 1000)
        monkeypatch.setattr(positions, "MOST_POSITIONS", 2000)  # cleared now and then, elsewhere in each run
    whole = train(config, Execution(out=tmp_path / "whole"))
    execution = Execution(out=tmp_path / "broken", checkpoint_minutes=1e-9)
    advance = selfplay_experiment.SelfPlayExperiment.advance
    left = [0]

    def dying(self, state, streams):  # type: ignore[no-untyped-def]
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        return advance(self, state, streams)

    monkeypatch.setattr(selfplay_experiment.SelfPlayExperiment, "advance", dying)
    for steps in (1, 2):
        left[0] = steps
        with pytest.raises(Killed):
            train(config, execution)
    left[0] = 1000
    broken = train(config, execution)
    for name in ("metrics.jsonl", "model/model.safetensors", "stages/0001.safetensors"):
        assert (broken.path / name).read_bytes() == (whole.path / name).read_bytes(), name
    assert broken.summary() == whole.summary()


def test_examples_are_what_the_program_answered_and_leave_with_their_round() -> None:
    config = replace(BRIEF, window=2, games=20)
    experiment = config.build(torch.device("cpu"), {})
    streams = Streams(0)
    state = experiment.init(streams)
    sizes: list[int] = []
    for _ in range(4):
        state.part = 0
        play_part(config, experiment.positions, state, streams("play", len(sizes)))
        sizes.append(state.counts[-1])
        assert state.counts == sizes[-2:]
        assert len(state.examples) == sum(sizes[-2:])
    examples = state.examples
    assert torch.allclose(examples.policy.sum(1), torch.ones(len(examples)))
    assert not bool(examples.policy[~examples.legal].any())
    assert float(examples.outcome.min()) >= 0
    assert float(examples.outcome.max()) <= 1


def test_a_short_training_internalizes_much_of_tic_tac_toe(tmp_path: Path) -> None:
    config = SelfPlayConfig(rounds=3, games=1024, simulations=50, updates=250, width=64, depth=2, seed=7)
    run = train(config, Execution(out=tmp_path))
    rows, summary = list(run.metrics("evaluation")), run.summary()
    assert [row["round"] for row in rows] == [0, 1, 2, 3]
    assert rows[0]["raw_accuracy"] < 0.5
    assert summary["raw_optimal_rate"] > 0.85
    assert summary["search_optimal_rate"] > 0.97
    assert summary["raw_loses"] < rows[0]["raw_loses"]
    assert summary["positions"] == 3191
    assert "seconds" not in json.dumps(rows)


def test_the_command_its_seeds_and_the_drawing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "runs")]
    brief = ["--rounds", "1", "--games", "16", "--simulations", "4", "--updates", "3", "--width", "8"]
    assert main(["selfplay", *brief, *out, "--quiet", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    wanted = {"raw_optimal_rate", "search_optimal_rate", "raw_loses", "forward_passes_per_move", "seconds"}
    assert wanted <= set(result)
    assert result["forward_passes_per_move"]["raw"] == 1
    assert result["seconds_per_move"]["raw"] > 0
    assert main(["selfplay", *brief, *out]) == 0  # finished already: its table, at once
    assert "optimal moves" in capsys.readouterr().out
    assert main(["selfplay", "draw", result["run"], "--out", str(tmp_path / "drawn")]) == 0
    names = {path.name for path in (tmp_path / "drawn").iterdir()}
    assert names == {"gap.png", "gap.svg", "rounds.csv", "selfplay.json"}
    record = json.loads((tmp_path / "drawn" / "selfplay.json").read_text())[0]
    assert record["summary"]["raw_loses"] == result["raw_loses"]
    assert record["provenance"]["torch"] == torch.__version__


def test_bad_fields_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, named in (
        (["--rounds", "0"], "rounds"),
        (["--game", "kuhn_poker"], "game"),
        (["--noise", "2"], "noise"),
        (["--seeds", "0"], "seeds"),
        (
            ["--starts", "reachable", "--game", "connect_four"],
            "starts: reachable needs a game of at most 250,000",
        ),
    ):
        assert main(["selfplay", *words, "--out", str(tmp_path / "none")]) == 2
        complaint = capsys.readouterr().err
        assert named in complaint
        assert complaint.count("\n") == 1
    assert not (tmp_path / "none").exists() or not list((tmp_path / "none").iterdir())
    with pytest.raises(BadInput, match="starts"):
        SelfPlayConfig(starts="nowhere")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("default::internalize.errors.RunWarning")
def test_a_game_without_a_position_to_measure_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two piles of one: every move is as good as any other. Nothing is measured, and nothing is called 0 %."""
    words = ["selfplay", "--game", "nim(pile_sizes=1;1)", "--rounds", "1", "--games", "4", "--simulations", "2"]
    assert main([*words, "--width", "8", "--matches", "2", "--out", str(tmp_path)]) == 0
    printed, warned = capsys.readouterr()
    assert (
        "warning: nim(pile_sizes=1;1): moves are not measured: of 3 positions none is known to have" in warned
    )
    assert "0.0 %" not in printed.split("score of their match")[0]
    assert "moves were not measured" in printed
    assert main(["selfplay", "draw", str(next(tmp_path.glob("*nim*"))), "--out", str(tmp_path / "out")]) == 2
    assert "runs: no moves were measured" in capsys.readouterr().err
