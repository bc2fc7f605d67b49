"""The three instances of positive distribution shift: their maps, and their command from end to end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from internalize.analysis import shift as instances
from internalize.analysis.arguments import INSTANCES, InstanceName
from internalize.analysis.shift import ARMS, shift_of
from internalize.cli import main
from internalize.kinds.chain.config import ChainConfig, EvaluationConfig
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.hints.config import HintsConfig, HintsEvaluation
from internalize.kinds.hints.experiment import HintsExperiment
from internalize.models.config import ModelConfig
from internalize.runtime.kind import Streams

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


EVERY_ARM = [(instance, arm) for instance in INSTANCES for arm in ARMS[instance]]
every_arm = pytest.mark.parametrize(("instance", "arm"), EVERY_ARM)


def experiment_of(instance: InstanceName, arm: str) -> HintsExperiment | ChainExperiment:
    return tiny(ARMS[instance][arm]).build(CPU, {})


def remembering(step: Callable[..., Tensor], read: list[Tensor]) -> Any:
    """The same step of a training, which keeps what it is given to read."""

    def kept(given: Tensor, *rest: Any) -> Tensor:
        read.append(given)
        return step(given, *rest)

    return kept


@every_arm
def test_contexts_are_what_the_training_reads(instance: InstanceName, arm: str) -> None:
    """Against the batches that the step of a training was really given."""
    experiment: Any = experiment_of(instance, arm)
    streams, read = Streams(experiment.config.seed), list[Tensor]()
    state = experiment.init(streams)
    step = "step" if instance == "mixture" else "sgd"
    setattr(state, step, remembering(getattr(state, step), read))
    while len(read) < 40:
        experiment.advance(state, streams)
    contexts = shift_of(arm, experiment).contexts
    assert contexts.name == arm
    assert all(torch.equal(contexts.at(number), batch) for number, batch in enumerate(read))


@every_arm
def test_contexts_are_labelled_by_the_input_they_are_about(instance: InstanceName, arm: str) -> None:
    """The label that comes with c is f*(π(c)), flipped as often as the labels are noisy."""
    experiment = experiment_of(instance, arm)
    shift, streams, noise = shift_of(arm, experiment), Streams(experiment.config.seed), list[Tensor]()
    for step in range(60):
        contexts = shift.contexts.at(step)
        clean = shift.target.label(shift.contexts.extract(contexts))
        if isinstance(experiment, ChainExperiment):
            given = contexts[:, -2] - experiment.renderer.vocabulary.first_state  # the last state before EOS
        else:
            given = (experiment.data(step, streams)[1] < 0).long()  # a bit b is written (-1)^b
        assert set(clean.tolist()) == {0, 1}
        noise.append((given != clean).float().mean())
    assert float(torch.stack(noise).mean()) == pytest.approx(shift.target.label_noise, abs=0.02)


@pytest.mark.parametrize(
    ("instance", "arm", "ones", "true_hints"),
    [
        # half of the inputs with one 1 in ten bits
        ("original", "shifted: half the inputs biased", 0.3, []),
        ("original", "unshifted: uniform inputs", 0.5, []),
        # z_1 is shown at two of the three stages, z_2 at one; otherwise noise, which is right by chance
        ("hints", "shifted: mixture over hinted stages", 0.5, [5 / 6, 2 / 3]),
        ("hints", "unshifted: no hints", 0.5, [1 / 2, 1 / 2]),
    ],
)
def test_bits_and_hints_are_as_the_arm_says(
    instance: InstanceName, arm: str, ones: float, true_hints: list[float]
) -> None:
    shift = shift_of(arm, experiment_of(instance, arm))
    contexts = torch.cat([shift.contexts.at(step) for step in range(400)])
    x = shift.contexts.extract(contexts)
    assert x.float().mean(0).tolist() == pytest.approx([ones] * 6, abs=0.02)
    prefixes = torch.stack([x[:, 0], x[:, 0] ^ x[:, 1]], dim=1)[:, : len(true_hints)].bool()
    right = (contexts[:, 6:] < 0) == prefixes
    assert right.float().mean(0).tolist() == pytest.approx(true_hints, abs=0.04)


def test_only_the_mixture_has_lengths_and_chains() -> None:
    """T = 3: symbols, q_0, LEN_L in the mixture alone, one to three states or one alone, EOS."""
    form = re.compile(r"(x:[01] ){3}q:0 (LEN_(?P<length>\d) )?(?P<states>(q:[01] )+)EOS")
    seen: dict[str, set[tuple[str | None, int]]] = {arm: set() for arm in ARMS["mixture"]}
    for arm, found in seen.items():
        experiment = experiment_of("mixture", arm)
        assert isinstance(experiment, ChainExperiment)
        shift = shift_of(arm, experiment)
        for text in (text for step in range(40) for text in experiment.renderer.text(shift.contexts.at(step))):
            read = form.fullmatch(text)
            assert read is not None
            found.add((read["length"], len(read["states"].split())))
        assert list(shift.budgets) == ([2, 4] if "all lengths" in arm else [2])
    assert list(seen.values()) == [{("2", 1), ("3", 2), ("4", 3)}, {(None, 1)}]


@pytest.mark.parametrize("arm", ARMS["mixture"])
def test_final_models_are_not_made_to_end(arm: str) -> None:
    """One that says q_0 for ever never answers, as its curve has it; made to end, it would guess half."""
    experiment = experiment_of("mixture", arm)
    assert isinstance(experiment, ChainExperiment)
    weights = {name: tensor.clone() for name, tensor in experiment.init(Streams(0)).weights().items()}
    weights["transformer.ln_f.weight"].zero_()
    favourite = weights["transformer.wte.weight"][experiment.renderer.vocabulary.first_state]
    weights["transformer.ln_f.bias"].copy_(favourite)
    shift = shift_of(arm, experiment)
    for budget in shift.budgets:
        assert shift.target_loss(weights, budget, 300, Streams(0)("target")).value == 1.0


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
    assert main([*words, "--json"]) == 0
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
