"""Parity as a run: its verdict on all inputs, resumed bit by bit, its command, pictures and refusals."""

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
from internalize.experiments.execution import Execution
from internalize.experiments.parity import ParityConfig
from internalize.experiments.parity import experiment as parity_experiment
from internalize.experiments.parity.predictor import LayerPredictor
from internalize.experiments.parity.state import ParityState
from internalize.experiments.parity.verdict import chain_by_weights, direct_by_weights, judge
from internalize.experiments.streams import Streams
from internalize.experiments.training import load_experiment, train
from internalize.models.linear_attention import initial_weights, simplified_form
from internalize.tasks.parity import HiddenParity, all_inputs, random_parity

BRIEF = ParityConfig(d=8, k=3, contrast=False)


def solved(parity: HiddenParity) -> tuple[Tensor, Tensor]:
    """W^(k) and W^(1) as the theorem wants them."""
    direct, chain = initial_weights(parity.d, parity.k), initial_weights(parity.d, parity.k)
    direct[parity.d - 1, parity.columns] = -1.0
    for row, column in enumerate(parity.columns):
        chain[parity.d - 1 + row, column] = -1.0
    return direct, chain


# The verdict ---------------------------------------------------------------------------------------------


def test_the_predictor_is_the_layer_applied_and_appended() -> None:
    parity = HiddenParity(6, (3, 1, 6, 2))
    draw = torch.Generator().manual_seed(0)
    W = torch.randn(10, 10, dtype=torch.float64, generator=draw)
    x = torch.cat(list(all_inputs(6)))
    outputs, bits = LayerPredictor(W, 6, 4).outputs(x)
    content = x.double()
    for step in range(4):
        out = simplified_form(W, content)[:, -1]
        assert torch.allclose(outputs[:, step], out, atol=1e-12)
        content = torch.cat([content, (out > 0.5).double()[:, None]], dim=1)
    assert torch.equal(bits, content[:, 6:])
    prediction = LayerPredictor(W, 6, parity.k).answer(x)
    assert torch.equal(prediction.output, content[:, -1].long())
    assert set(prediction.forward_passes.tolist()) == {4}


def test_a_solved_layer_is_exact_and_internalizes() -> None:
    parity = HiddenParity(10, (3, 9, 1, 5))
    verdict = judge(parity, *solved(parity), torch.Generator())
    assert verdict.exact
    assert verdict.chain_exact
    assert verdict.support_recovered
    assert (verdict.inputs_checked, verdict.exhaustive, verdict.direct_deviation) == (1024, True, 0.0)
    assert verdict.internalization.holds
    assert verdict.internalization.disagreements == 0


def test_a_planted_wrong_weight_is_found_among_all_inputs() -> None:
    """Weights wrong by little and for one input only: just above ½ when three certain bits are set."""
    parity = HiddenParity(17, (3, 9, 1, 5))
    direct, chain = solved(parity)
    direct[16, [6, 12, 15]] = 0.17  # 3 · 0.17 > ½: wrong where all three are 1, an eighth of the inputs
    verdict = judge(parity, direct, chain, torch.Generator())
    assert verdict.direct_wrong == 2**14
    assert not verdict.exact
    assert not verdict.direct_by_weights
    assert [clause.name for clause in verdict.internalization.clauses if not clause.holds] == ["agreement"]
    assert verdict.internalization.disagreements == 2**14
    chain[19, 16] += 1  # one more coordinate in the last token of the chain
    assert judge(parity, solved(parity)[0], chain, torch.Generator()).chain_wrong == 2**16


def test_the_weights_prove_what_enumeration_finds() -> None:
    draw = torch.Generator().manual_seed(0)
    parity = HiddenParity(7, (2, 7, 4))
    agreed = {True: 0, False: 0}
    for _ in range(60):
        direct, chain = solved(parity)
        noise = 0.35 * torch.rand((), generator=draw)
        direct += noise * torch.randn(10, 10, dtype=torch.float64, generator=draw)
        direct += 2 * torch.randint(-1, 2, (10, 10), generator=draw)
        verdict = judge(parity, direct, chain, torch.Generator())
        assert direct_by_weights(parity, direct) == (verdict.direct_wrong == 0)
        agreed[verdict.direct_wrong == 0] += 1
    assert min(agreed.values()) > 5


def test_the_chain_may_use_other_weights_that_compute_the_same() -> None:
    parity = HiddenParity(5, (2, 4, 1))
    _, chain = solved(parity)
    chain[6, 6], chain[6, 5] = 0.0, 1.0  # z_3 from z_1, x_{i_2} and x_{i_3} instead of z_2
    chain[6, 3] = 3.0
    assert chain_by_weights(parity, chain)
    assert judge(parity, solved(parity)[0], chain, torch.Generator()).chain_wrong == 0
    chain[6, 3] = 2.0
    assert not chain_by_weights(parity, chain)


def test_many_coordinates_are_judged_by_a_sample_and_by_the_weights() -> None:
    parity = random_parity(30, 4, torch.Generator().manual_seed(0))
    verdict = judge(parity, *solved(parity), torch.Generator().manual_seed(1))
    assert verdict.exact
    assert not verdict.exhaustive
    assert verdict.inputs_checked == 2**20
    assert 0 < verdict.error_bound < 1e-5


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
    (x,) = all_inputs(8)
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
    from internalize.experiments.parity import phase_diagram

    monkeypatch.setattr(phase_diagram, "BATCHES", (1 / 64, 4.0))
    monkeypatch.setattr(phase_diagram, "SCALED_SIZES", ((6, 2),))
    monkeypatch.setattr(phase_diagram, "STEP_SIZES", (1.0,))
    monkeypatch.setattr(phase_diagram, "LENGTHS", (1.0, 20.0))
    monkeypatch.setattr(phase_diagram, "THRESHOLDS", (1e-2, 1e-6))
    monkeypatch.setattr(phase_diagram, "THRESHOLD_STEP_SIZES", (0.1,))
    monkeypatch.setattr(phase_diagram, "THRESHOLD_BATCHES", (64,))
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
