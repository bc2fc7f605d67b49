"""The numbers of the paper's experiments, written out by hand, against what runs when nothing is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from internalize import ChainConfig, ModelConfig
from internalize.configs.codec import to_json
from internalize.figures.cases import shapes_of
from internalize.figures.paper import find_figure
from internalize.kinds.hints import HintsConfig
from internalize.kinds.hints.evaluation import EPSILON
from internalize.kinds.parity import ParityConfig
from internalize.kinds.parity.descent import phase_batch
from internalize.kinds.parity.watch import no_extremes, phase_report
from internalize.models.mlp import MLPShape
from internalize.runs.table import flat
from internalize.runtime.kind import ExperimentConfig, Streams
from internalize.statistics import SUCCESS
from internalize.tasks.parity import HiddenParity

CPU = torch.device("cpu")

CHAIN = {
    "horizon": 25,
    "inputs": "uniform",
    "ood_inputs": "binomial:0.8",
    "batch": 128,
    "iterations": 50_000,
    "optimizer.lr": 3e-4,
    "optimizer.betas": [0.9, 0.95],
    "optimizer.weight_decay": 0.01,
    "optimizer.reset": True,
    "schedule.kind": "fixed",
    "model.depth": 4,
    "model.width": 512,
    "model.heads": 128,
    "model.positions": "absolute",
    "model.init_std": 0.02,
    "precision": "fp32",
    # the paper does not say how much is measured
    "evaluation.samples": 1_000,
    "evaluation.final_samples": 10_000,
}
HINTS = {
    "circuit": "parity",
    "d": 25,
    "k": 12,
    "support": None,
    "form": "bipolar",
    "replacement": "noise",
    "label_noise": 0.1,
    "biased_share": 0.0,
    "depth": 2,
    "width": 2048,
    "lr": 3e-3,
    "batch": 64,
    "steps": 600_000,
    "precision": "fp32",
    "evaluation.samples": 5_000,
    "evaluation.final_samples": 20_000,  # the last one only, which is ours
}
HINTS_LAPTOP = HINTS | {"d": 24, "k": 8, "width": 256, "lr": 0.04, "steps": 50_000}
PARITY = {"d": 20, "k": 9, "regime": "theorem", "support": None, "zero_init": False}
PARITY_WITHOUT_ROUNDING = PARITY | {"regime": "threshold", "threshold": 1e-8}


@pytest.mark.parametrize(
    ("config", "by_hand"),
    [
        (ChainConfig(), CHAIN),
        (HintsConfig(), HINTS),
        (HintsConfig(preset="paper"), HINTS),
        (HintsConfig(preset="laptop"), HINTS_LAPTOP),
        (ParityConfig(), PARITY),
        (ParityConfig(regime="threshold"), PARITY_WITHOUT_ROUNDING),
    ],
    ids=["chain", "hints", "hints, paper", "hints, laptop", "parity", "parity without rounding"],
)
def test_what_is_not_given_is_the_papers(config: ExperimentConfig, by_hand: dict[str, Any]) -> None:
    found = flat(to_json(config), lists_as_text=False)
    assert {name: found.get(name, "no such field") for name in by_hand} == by_hand


# Chains --------------------------------------------------------------------------------------------------


def test_a_chain_is_trained_with_these_numbers() -> None:
    """As they arrive where they are used; a smaller model stands in for the paper's."""
    assert ChainConfig().model.mlp_width == 2048
    experiment = ChainConfig(model=ModelConfig(depth=1, width=8, heads=4)).build(CPU, {})
    optimizer = experiment.init(Streams(0)).optimizer
    assert (optimizer.lr, optimizer.betas, optimizer.weight_decay) == (3e-4, (0.9, 0.95), 0.01)
    assert experiment.data.shape[1:] == (128, 25)
    assert experiment.renderer.generation_limit() == 27
    assert experiment.curriculum.stages == 25


@pytest.mark.parametrize(
    ("task", "uniform", "shifted"),
    [  # σ ~ Binomial(|Σ|-1, 0.8): 0.8^i 0.2^(n-i) times 1; 1 2 1; 1 3 3 1
        ("C2", 1 / 2, (0.2, 0.8)),
        ("C3", 1 / 3, (0.04, 0.32, 0.64)),
        ("S3", 1 / 4, (0.008, 0.096, 0.384, 0.512)),
    ],
)
def test_inputs_in_and_out_of_distribution(task: str, uniform: float, shifted: tuple[float, ...]) -> None:
    experiment = ChainConfig(task=task).build(CPU, {})
    assert experiment.inputs.probabilities == pytest.approx((uniform,) * len(shifted))
    assert experiment.ood_inputs.probabilities == pytest.approx(shifted)
    assert experiment.renderer.initial_state == 0


def test_the_main_figure_has_thirty_seeds_and_s3_four_times_the_iterations() -> None:
    for config, seeds in shapes_of(find_figure("methods").tiers["paper"]):
        assert isinstance(config, ChainConfig)
        assert seeds == tuple(range(200, 230))
        assert config.iterations == (200_000 if config.task == "S3" else 50_000)
        rest = replace(ChainConfig(), task=config.task, horizon=config.horizon, method=config.method)
        assert replace(config, iterations=50_000, seed=0) == rest


def test_a_run_succeeds_above_95_percent() -> None:
    assert SUCCESS == 0.95
    assert EPSILON == 0.05  # ours: the paper's ε is free


# Hints ---------------------------------------------------------------------------------------------------


def test_the_papers_network_reads_25_bits_and_11_hints() -> None:
    experiment = HintsConfig().build(CPU, {})
    assert experiment.task.hints == 11
    assert experiment.shape == MLPShape(inputs=36, depth=2, width=2048)
    assert experiment.data.stages == 12
    assert experiment.task.label_noise == 0.1


# Parity --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "eta", "steps", "batch"),
    [  # η = 1/(d+1), T = 20 d, B = 4 d³; without rounding the paper's own numbers, and an end to its patience
        (ParityConfig(), 1 / 21, 400, 32_000),
        (ParityConfig(d=8, k=3), 1 / 9, 160, 2_048),
        (ParityConfig(regime="threshold"), 1e-3, 300_000, 1_024),
        (ParityConfig(d=8, k=3, regime="threshold"), 1e-3, 300_000, 1_024),
    ],
)
def test_step_size_steps_and_batch_of_a_phase(config: ParityConfig, eta: float, steps: int, batch: int) -> None:
    assert config.eta == pytest.approx(eta)
    assert (config.most_steps, config.examples) == (steps, batch)


def test_the_proofs_quantities_have_the_proofs_bounds() -> None:
    parity = HiddenParity(8, (3, 6, 1))
    batch = phase_batch(parity, 2, 50, torch.Generator().manual_seed(0))
    report = phase_report(ParityConfig(d=8, k=3), parity, 2, batch, no_extremes(1), 0, -parity.indicator(2))
    bounds = {measured.quantity: (measured.relation, measured.bound) for measured in report}
    assert (
        bounds
        | {
            "step_size": ("≤", 1 / 9),
            "lambda_min": ("≥", 1 / 8),
            "lambda_max": ("≤", 8.0),
            "reach_low": ("≥", 0.0),
            "reach_high": ("≤", 1.0),
            "tracking": ("≤", 1 / 100),
            "contraction": ("≤", 1.0),
        }
        == bounds
    )
