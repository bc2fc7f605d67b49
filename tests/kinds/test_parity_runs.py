"""Parity as a run: resumed bit by bit, its command, pictures and refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from internalize.cli import main
from internalize.errors import BadInput
from internalize.kinds.entrance import load_experiment, train
from internalize.kinds.parity import ParityConfig
from internalize.kinds.parity import experiment as parity_experiment
from internalize.kinds.parity.experiment import ParityState
from internalize.runtime.execution import Execution
from internalize.runtime.kind import Streams
from internalize.tasks.parity import HiddenParity, all_bits

BRIEF = ParityConfig(d=8, k=3, contrast=False)


def test_a_chain_of_one_step_is_nothing_to_internalize(tmp_path: Path) -> None:
    summary = train(ParityConfig(d=6, k=1), out=tmp_path).summary()
    assert summary["exact"] is True
    assert summary["internalized"] is False
    assert summary["clauses"] == {
        "same_class": True,
        "different_weights": False,
        "agreement": True,
        "faster": False,
    }


# The run -------------------------------------------------------------------------------------------------


def test_a_run_keeps_every_phase_and_its_predictors_answer(tmp_path: Path) -> None:
    run = train(BRIEF, out=tmp_path)
    assert run.stages() == [1, 2, 3]
    config, experiment = load_experiment(run)
    assert config == BRIEF
    parity = HiddenParity(8, tuple(run.summary()["support"]))
    (x,) = all_bits(8)
    y = parity.chain(x)[:, -1].long()
    state = ParityState(run.weights()["W"], run.weights()["W"], run.weights()["W_chain"], torch.zeros(1, 7))
    direct, chain = (experiment.predictor(state, budget).answer(x) for budget in (None, 3))
    assert torch.equal(direct.output, y)
    assert torch.equal(chain.output, y)
    assert (direct.forward_passes < chain.forward_passes).all()
    assert (direct.flops < chain.flops).all()


@pytest.mark.parametrize(
    "config",
    [BRIEF, ParityConfig(d=8, k=3, regime="threshold", batch=100, step_size=0.05, contrast=False)],
    ids=lambda config: str(config.regime),
)
def test_a_resumed_run_is_the_uninterrupted_one_bit_by_bit(
    config: ParityConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut after every call: what restore makes of the saved state goes on as the state itself would have."""
    monkeypatch.setattr(parity_experiment, "WATCHED_STEPS", 37)
    monkeypatch.setattr(parity_experiment, "UNWATCHED_STEPS", 37)
    ends = [carried_out(config, cut) for cut in (False, True)]
    assert ends[0][1] == ends[1][1]
    for name, tensor in ends[0][0].items():
        assert torch.equal(tensor, ends[1][0][name]), name


def carried_out(config: ParityConfig, cut: bool) -> tuple[Mapping[str, Tensor], list[Any]]:
    experiment, streams = config.build(torch.device("cpu"), {}), Streams(config.seed)
    state, rows = experiment.init(streams), []
    while not experiment.done(state):
        if cut:  # as if the process had died: a new experiment, and the state by way of text
            scalars = json.loads(json.dumps(state.scalars()))
            tensors = {name: tensor.clone() for name, tensor in state.tensors().items()}
            experiment = config.build(torch.device("cpu"), {})
            state = experiment.restore(tensors, scalars)
        state, row = experiment.advance(state, streams)
        rows.append(row)
        if experiment.evaluation_due(state):
            rows.append(experiment.evaluate(state, streams))
    rows.append(experiment.finish(state, streams).summary)
    return state.tensors(), rows


def test_a_stalled_run_ends_and_says_so(tmp_path: Path) -> None:
    config = ParityConfig(d=8, k=3, regime="threshold", threshold=1e-12, steps=100, contrast=False)
    summary = train(config, out=tmp_path).summary()
    assert summary["stalled"] is True
    assert summary["phases"] == 1
    assert summary["exact"] is False


# The command ---------------------------------------------------------------------------------------------


def test_the_command_prints_the_promised_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "parity",
        "--d",
        "20",
        "--k",
        "9",
        "--regime",
        "theorem",
        "--seed",
        "0",
        "--json",
        "--quiet",
        "--out",
    ]
    assert main([*words, str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    for key in ("support_recovered", "exact", "chain_exact", "internalized", "exhaustive"):
        assert found[key] is True, key
    assert found["inputs_checked"] == 2**20
    assert found["phases"] == 9
    assert found["seconds"] > 0
    assert Path(found["run"]).is_dir()
    assert found["direct_training_exact"] is False
    assert found["direct_training_accuracy"] < 0.6


def test_the_command_shows_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parity", "--d", "8", "--k", "3", "--out", str(tmp_path), "--draw"]) == 0
    shown = capsys.readouterr().out
    assert "The proof, watched" in shown
    assert "directly on the parity" in shown
    (folder,) = tmp_path.glob("*/drawings")
    names = {path.name for path in folder.iterdir()}
    assert names == {"attention.png", "attention.svg", "watch.png", "watch.svg", "watch.csv", "parity.json"}
    assert len((folder / "watch.csv").read_text().splitlines()) == 1 + 3 * 15


def test_the_diagrams_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from internalize.kinds.parity import diagrams

    monkeypatch.setattr(diagrams, "BATCHES", (1 / 64, 4.0))
    monkeypatch.setattr(diagrams, "SCALED_SIZES", ((6, 2),))
    monkeypatch.setattr(diagrams, "STEP_SIZES", (1.0,))
    monkeypatch.setattr(diagrams, "LENGTHS", (1.0, 20.0))
    monkeypatch.setattr(diagrams, "THRESHOLDS", (1e-2, 1e-6))
    monkeypatch.setattr(diagrams, "THRESHOLD_STEP_SIZES", (0.1,))
    monkeypatch.setattr(diagrams, "THRESHOLD_BATCHES", (64,))
    words = [
        "parity",
        "diagram",
        "--d",
        "6",
        "--k",
        "2",
        "--seeds",
        "2",
        "--quiet",
        "--which",
        "theorem",
        "threshold",
        "--out",
    ]
    assert main([*words, str(tmp_path)]) == 0
    table = (tmp_path / "theorem.csv").read_text().splitlines()
    assert len(table) == 1 + 2 + 2 + 2
    names = {path.name for path in tmp_path.iterdir()}
    assert {"theorem.png", "threshold.csv", "threshold.json", "threshold.svg"} <= names
    # drawn again from the rows alone; refused where one is missing
    rows = (tmp_path / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "theorem.csv").unlink()
    assert main([*words, str(tmp_path), "--no-train"]) == 0
    assert (tmp_path / "theorem.csv").read_text().splitlines() == table
    (tmp_path / "rows.jsonl").write_text("".join(rows[1:]))
    assert main([*words, str(tmp_path), "--no-train"]) == 2


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"k": 21}, "k"),
        ({"k": 0}, "k"),
        ({"d": 0}, "d"),
        ({"k": 2, "support": (3, 3)}, "support"),
        ({"k": 2, "support": (1, 21)}, "support"),
        ({"k": 3, "support": (1, 2)}, "support"),
        ({"batch": 0}, "batch"),
        ({"step_size": 0.0}, "step-size"),
        ({"step_size": -0.1}, "step-size"),
        ({"step_size": float("nan")}, "step-size"),
        ({"steps": 0}, "steps"),
        ({"regime": "theory"}, "regime"),
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": -1e-8}, "threshold"),
        ({"seed": -1}, "seed"),
    ],
)
def test_impossible_settings_are_refused_by_name(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        ParityConfig(**wrong)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "words",
    ["--k 30", "--k 2 --support 4 4", "--batch 0", "--step-size 0", "--regime theory", "--threshold 0"],
)
def test_the_command_refuses_in_one_line(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["parity", *words.split(), "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert len(said.strip().splitlines()) == 1
    assert words.split()[-2].removeprefix("--") in said or "support" in said
    assert not list(tmp_path.iterdir())


def test_drawing_needs_every_phase(tmp_path: Path) -> None:
    words = ["parity", "--d", "8", "--k", "3", "--draw", "--keep-stages", "none", "--out", str(tmp_path)]
    assert main(words) == 2


def test_a_step_beyond_all_bounds_is_a_failed_run(tmp_path: Path) -> None:
    config = ParityConfig(d=8, k=3, step_size=1e200, contrast=False)
    with pytest.raises(RuntimeError):
        train(config, Execution(out=tmp_path))
