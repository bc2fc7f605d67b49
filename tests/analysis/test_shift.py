"""The three instances of positive distribution shift: their maps, and their command from end to end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from internalize.analysis import shift as instances
from internalize.analysis.shift import ARMS, INSTANCES, InstanceName, shift_of
from internalize.cli import main
from internalize.experiments.chain.config import ChainConfig, EvaluationConfig
from internalize.experiments.chain.experiment import ChainExperiment
from internalize.experiments.hints.config import HintsConfig, HintsEvaluation
from internalize.experiments.streams import Streams
from internalize.models.gpt2 import ModelConfig

CPU = torch.device("cpu")
TINY_PARITY = HintsConfig(
    d=6, k=3, width=24, lr=0.2, steps=400, evaluation=HintsEvaluation(every=200, samples=300, final_samples=300)
)
TINY_CHAIN = ChainConfig(
    horizon=3,
    iterations=60,
    batch=16,
    model=ModelConfig(depth=1, width=16, heads=4),
    evaluation=EvaluationConfig(every=30, samples=100, final_samples=100),
    kernel="plain",
)


def tiny(config: HintsConfig | ChainConfig) -> HintsConfig | ChainConfig:
    if isinstance(config, ChainConfig):
        return replace(TINY_CHAIN, method=config.method)
    shared = {name: getattr(config, name) for name in ("method", "hints", "biased_share", "bias")}
    return replace(TINY_PARITY, **shared)


@pytest.mark.parametrize("instance", INSTANCES)
def test_the_extraction_finds_the_input_that_a_context_is_about(instance: InstanceName) -> None:
    """π(c) is an input of the target, and what the context says of the answer agrees with f*(π(c))."""
    experiment = tiny(next(iter(ARMS[instance].values()))).build(CPU, {})
    shift = shift_of(experiment)
    contexts = shift.contexts.sample(400, Streams(0)("contexts"))
    x = shift.contexts.extract(contexts)
    label = shift.target.label(x)
    assert x.shape == shift.target.inputs(400, Streams(0)("inputs")).shape
    assert set(label.tolist()) == {0, 1}
    if instance == "original":
        assert torch.equal(contexts, x)  # C = X, π = id
        assert float(x.float().mean()) < 0.4  # half of them biased towards 0
    elif instance == "hints":
        whole = x[:, :2].sum(1) % 2 == contexts[:, 7]  # z_2, or noise in its place
        assert 0.55 < float(whole.float().mean()) < 0.8
        assert torch.equal(label, x[:, :3].sum(1) % 2)
    else:
        assert isinstance(experiment, ChainExperiment)
        first_eos = (contexts == contexts[:, -1:]).int().argmax(1)
        said = contexts.gather(1, first_eos[:, None] - 1)[:, 0] - experiment.renderer.vocabulary.first_state
        assert torch.equal(said, label)
        assert set(first_eos.tolist()) == {6, 7, 8}  # one, two or three states
        assert list(shift.budgets) == [2, 4]


@pytest.mark.parametrize("instance", INSTANCES)
def test_the_command_trains_measures_and_draws(
    instance: InstanceName,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arms = {arm: tiny(config) for arm, config in ARMS[instance].items()}
    monkeypatch.setitem(instances.ARMS, instance, arms)
    words = ["pds", instance, "--seeds", "2", "--samples", "300", "--workers", "1", "--out", str(tmp_path)]
    assert main([*words, "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert len(found) == (3 if instance == "mixture" else 2)
    names = {path.name for path in (tmp_path / "pds").iterdir()}
    assert names == {f"{instance}.{kind}" for kind in ("png", "svg", "csv", "json")}
    record = json.loads((tmp_path / "pds" / f"{instance}.json").read_text())
    table = (tmp_path / "pds" / f"{instance}.csv").read_text().splitlines()
    assert table[0] == "arm,budget,seed,samples,target_loss"
    for row in record["findings"]:
        last = [line.split(",") for line in table if line.startswith(f"{row['arm']},{row['budget']},1,")][-1]
        # the curve's end and the final model, on different inputs
        assert float(last[-1]) == pytest.approx(row["final"][1], abs=0.13)
        assert row["final_least"] <= row["final_mean"] <= row["final_most"]
    if instance == "hints":
        assert record["findings"][0]["final_mean"] < 0.2  # learned, up to the noise of 0.1


@pytest.mark.parametrize("words", ["original --seeds 0", "hints --epsilon 0", "hint", "mixture --steps 0"])
def test_the_command_refuses_in_one_line(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pds", *words.split(), "--out", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
