"""Experiments with hints: who sees which hints when, what is measured, resumed runs, commands and refusals."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from internalize.cli import main
from internalize.configs.codec import from_json, to_json
from internalize.errors import BadInput, Interrupted
from internalize.kinds.entrance import load_experiment, resume, train
from internalize.kinds.hints import HintsConfig
from internalize.kinds.hints import experiment as hints_experiment
from internalize.kinds.hints.config import PRESETS, HintsEvaluation
from internalize.kinds.hints.experiment import BULK, HintsExperiment
from internalize.runs.folder import Run
from internalize.runtime.execution import Execution
from internalize.runtime.kind import Streams
from internalize.tasks.parity import all_bits
from tests.runtime.faults import Watcher, bytes_of, send

CPU = torch.device("cpu")
SMALL = HintsConfig(
    d=8,
    k=4,
    width=48,
    lr=0.1,
    steps=2_400,
    batch=32,
    label_noise=0.05,
    evaluation=HintsEvaluation(every=600, samples=500, final_samples=1_000),
)
"""Learns in a second or two."""
BRIEF = replace(SMALL, steps=210, log_every=30, evaluation=HintsEvaluation(50, 100, 200))


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of `SMALL`. Read only."""
    return train(SMALL, out=tmp_path_factory.mktemp("hints"))


def opened(run: Run) -> HintsExperiment:
    _, experiment = load_experiment(run)
    assert isinstance(experiment, HintsExperiment)
    return experiment


# Who sees what -------------------------------------------------------------------------------------------


def test_the_curriculum_removes_one_more_hint_at_every_stage() -> None:
    """Four stages of 52 of 210 steps, the remainder to the last, as written by hand."""
    data = BRIEF.build(CPU, {}).data
    removed = data.removed(0, Streams(0))[:210].tolist()
    assert removed == [0] * 52 + [1] * 52 + [2] * 52 + [3] * 54
    assert [data.stage_end(stage) for stage in (1, 2, 3, 4)] == [52, 104, 156, 210]


def test_direct_sees_no_hint_and_the_mixture_every_number_of_them() -> None:
    direct = replace(BRIEF, method="direct").build(CPU, {}).data
    assert set(direct.removed(0, Streams(0)).tolist()) == {3}
    mixture = replace(BRIEF, method="mixture").build(CPU, {}).data
    drawn = torch.cat([mixture.removed(bulk, Streams(0)) for bulk in range(40)])
    shares = torch.bincount(drawn, minlength=4) / (40 * BULK)
    assert float((shares - 0.25).abs().max()) < 0.02
    assert mixture.stages == 1


def test_a_batch_is_a_function_of_its_step_alone() -> None:
    data, again = (replace(BRIEF, method="mixture").build(CPU, {}).data for _ in range(2))
    streams = Streams(0)
    for step in (0, 5, BULK, 5, 3 * BULK + 1):
        fresh = replace(BRIEF, method="mixture").build(CPU, {}).data
        for a, b in zip(data(step, streams), fresh(step, streams), strict=True):
            assert torch.equal(a, b)
    x, y = again(BULK - 1, streams)
    assert x.shape == (32, 11)
    assert y.shape == (32,)
    assert set(x.unique().tolist()) == {-1.0, 1.0}


# What is measured ----------------------------------------------------------------------------------------


def test_a_small_run_internalizes_by_the_definition(learned: Run) -> None:
    """The verdict and the gap of the risks against all 2^8 inputs through PyTorch's own layers."""
    summary = learned.summary()
    assert summary["accuracy"] > 0.95
    assert summary["steps"] == 2_400
    assert summary["samples"] == 2_400 * 32
    (x,) = all_bits(8)
    signs = 1.0 - 2.0 * x.float()
    prefixes = signs[:, :4].cumprod(1)

    def wrong(weights: dict[str, torch.Tensor], hints: torch.Tensor | None) -> float:
        layers: list[nn.Module] = []
        for i in (1, 2, 3):
            W = weights[f"W{i}"] if i > 1 or hints is not None else weights["W1"][:, :8]
            linear = nn.Linear(W.shape[1], W.shape[0])
            linear.weight.data, linear.bias.data = W, weights[f"b{i}"]
            layers += [linear, nn.ReLU()]
        read = signs if hints is None else torch.cat([signs, hints], dim=1)
        out = nn.Sequential(*layers[:-1])(read)[:, 0]
        return float(((out > 0) != (prefixes[:, -1] > 0)).float().mean())

    gap = wrong(learned.weights(), None) - wrong(learned.weights(1), prefixes[:, :3])
    assert summary["risk_gap"] == pytest.approx(gap)
    assert summary["risk_gap_exact"] is True
    assert summary["clauses"]["risk"] is (abs(gap) <= 0.05)
    assert summary["clauses"] | {"risk": True} == dict.fromkeys(summary["clauses"], True)
    assert learned.stages() == [1, 2, 3, 4]


def test_predictors_answer_with_and_without_hints(learned: Run) -> None:
    experiment = opened(learned)
    (x,) = all_bits(8)
    label = experiment.task.circuit.evaluate(x)[1].long()
    hinted = experiment.load_predictor(learned.weights(1), 3).answer(x)
    alone = experiment.load_predictor(learned.weights(), None).answer(x)
    assert float((hinted.output == label).float().mean()) > 0.95
    assert (alone.flops < hinted.flops).all()
    assert alone.flops[0] == 2 * (8 * 48 + 48 * 48 + 48)
    reported = learned.summary()["subnetwork_accuracy"]
    assert float((alone.output == label).float().mean()) == pytest.approx(reported, abs=0.06)


def test_binary_form_neutral_hints_and_other_circuits_run(tmp_path: Path) -> None:
    for change in (
        {"form": "binary", "replacement": "neutral"},
        {"circuit": "adder3", "d": None, "k": None, "method": "mixture"},
        {"hints": False, "biased_share": 0.5, "method": "direct"},
        {"depth": 1, "precision": "bf16"},
    ):
        run = train(replace(BRIEF, **change), out=tmp_path)
        assert 0 <= run.summary()["accuracy"] <= 1
        if change.get("replacement") == "neutral":  # neutral is 0 in the binary form: all three are one network
            summary = run.summary()
            assert summary["accuracy"] == summary["subnetwork_accuracy"] == summary["folded_accuracy"]


# The run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["curriculum", "mixture"])
def test_a_killed_run_goes_on_bit_by_bit(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the middle of a stage, of a bulk and of a row; cut into other calls besides."""
    config = replace(BRIEF, method=method)  # type: ignore[arg-type]
    whole = train(config, out=tmp_path / "whole")
    monkeypatch.setattr(hints_experiment, "CALL", 7)
    with pytest.raises(Interrupted):
        train(config, Execution(out=tmp_path / "cut"), [Watcher(77, send(signal.SIGTERM))])
    (folder,) = (tmp_path / "cut").iterdir()
    assert Run.open(folder).status()["state"] == "interrupted"
    resume(Run.open(folder), Execution())
    assert bytes_of(folder) == bytes_of(whole.path)


def test_a_circuit_file_is_kept_with_its_run(tmp_path: Path) -> None:
    path = tmp_path / "both.json"
    path.write_text(json.dumps({"inputs": 2, "gates": [["y", "and", "x1", "x2"]], "output": "y"}))
    config = HintsConfig(circuit=str(path), width=8, lr=0.1, steps=20, evaluation=BRIEF.evaluation)
    run = train(config, out=tmp_path / "runs")
    path.write_text("{}")
    experiment = opened(run)
    assert experiment.task.circuit.name == "both"
    assert experiment.task.hints == 0


def test_presets_fill_in_what_is_not_given() -> None:
    laptop = HintsConfig(preset="laptop", width=64)
    sizes = PRESETS["laptop"]
    assert (laptop.d, laptop.k, laptop.width, laptop.steps) == (sizes.d, sizes.k, 64, sizes.steps)
    paper = HintsConfig()
    assert (paper.d, paper.k, paper.width, paper.lr, paper.steps) == (25, 12, 2048, 3e-3, 600_000)
    assert paper == HintsConfig(preset="paper")
    for config in (laptop, paper, HintsConfig(circuit="adder4")):
        assert from_json(HintsConfig, to_json(config)) == config


# The commands --------------------------------------------------------------------------------------------

WORDS = "--d 8 --k 3 --width 32 --lr 0.1 --steps 120 --evaluation.samples 100 --evaluation.final-samples 200"


def test_the_command_prints_the_promised_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["hints", *WORDS.split(), "--method", "curriculum", "--seed", "1", "--out", str(tmp_path)]
    assert main([*words, "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"accuracy", "subnetwork_accuracy", "folded_accuracy", "steps", "seconds", "run"} <= set(found)
    assert found["steps"] == 120
    assert main(words) == 0
    assert "h(x), neutral hints folded in" in capsys.readouterr().out


def test_methods_are_compared_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs"
    words = ["hints", *WORDS.split(), "--out", str(out), "--compare", "--seeds", "2", "--quiet", "--json"]
    assert main([*words, "--workers", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in found["methods"]] == ["direct", "curriculum", "mixture"]
    assert len(found["runs"]) == 6
    names = {"hints.png", "hints.svg", "curves.csv", "ends.csv", "hints.json"}
    assert {path.name for path in (out / "hints").iterdir()} == names
    runs = [row["run"] for row in found["runs"]]
    assert main(["hints", "draw", *runs, "--out", str(tmp_path / "again")]) == 0
    for name in ("curves.csv", "ends.csv", "hints.svg"):
        assert (tmp_path / "again" / name).read_bytes() == (out / "hints" / name).read_bytes()
    other = train(replace(BRIEF, d=9), out=tmp_path / "other")
    assert main(["hints", "draw", *runs, str(other.path), "--out", str(tmp_path / "no")]) == 2
    assert "differ in" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"k": 26}, "k"),
        ({"d": 0, "k": 1}, "d"),
        ({"support": (1, 1)}, "support"),
        ({"support": (1, 2), "k": 3}, "support"),
        ({"circuit": "adder4", "d": 8}, "d"),
        ({"width": 0}, "width"),
        ({"depth": 0}, "depth"),
        ({"lr": 0.0}, "lr"),
        ({"lr": float("nan")}, "lr"),
        ({"steps": 0}, "steps"),
        ({"batch": 0}, "batch"),
        ({"label_noise": 0.5}, "label-noise"),
        ({"bias": 1.5}, "bias"),
        ({"seed": -1}, "seed"),
        ({"method": "curiculum"}, "method"),
        ({"preset": "phone"}, "preset"),
    ],
)
def test_impossible_settings_are_refused_by_name(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        HintsConfig(**wrong)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "words", ["--k 30", "--steps 5", "--circuit nand", "--seeds 0", "--lr 0", "--preset x"]
)
def test_the_command_refuses_in_one_line(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hints", *words.split(), "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert len(said.strip().splitlines()) == 1
    assert words.split(maxsplit=1)[0].removeprefix("--") in said
    assert not list(tmp_path.iterdir())


def test_a_step_beyond_all_bounds_is_a_failed_run(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        train(replace(BRIEF, lr=1e6), out=tmp_path)
