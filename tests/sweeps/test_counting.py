"""Counted operations and bytes of hints, parity and self-play, against what runs really do and write."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from internalize import Execution, train
from internalize.kinds import KINDS, config_from_json, find_kind, prepare
from internalize.kinds.hints import HintsConfig
from internalize.kinds.hints import kind as hints
from internalize.kinds.hints.config import HintsEvaluation
from internalize.kinds.parity import ParityConfig, descent
from internalize.kinds.parity.descent import PhaseBatch
from internalize.models.mlp import MLP, SGD, MLPShape
from internalize.runs.checkpoint import METRICS, load_tensors
from internalize.runtime.kind import ExperimentConfig, Streams
from tests.entering import forecast_of

HINTS = HintsConfig(
    d=6, k=4, width=10, depth=3, steps=45, batch=7, lr=0.01,
    evaluation=HintsEvaluation(every=10, samples=30, final_samples=50),
)  # fmt: skip


def carried_out(config: ExperimentConfig) -> None:
    """All steps and measurements, as the loop has them, without a folder."""
    experiment, streams = prepare(config).build(torch.device("cpu")), Streams(config.seed)
    state = experiment.init(streams)
    while not experiment.done(state):
        state, _ = experiment.advance(state, streams)
        if experiment.evaluation_due(state):
            experiment.evaluate(state, streams)
    experiment.finish(state, streams)


def test_every_kind_can_be_counted_and_estimated() -> None:
    for name in KINDS:
        if name == "text":  # without rows there is nothing to count: tests/kinds/text
            continue
        if name == "selfplay":
            pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')
        kind = find_kind(name)
        assert kind.name == kind.config.kind == name
        found = forecast_of(kind.config())
        assert min(found.training_flops, found.disk_bytes, found.memory_bytes, found.steps) > 0
        assert sum(need.bytes for need in found.least) > 0


# Hints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_a_step_with_hints_is_that_of_autograd(depth: int) -> None:
    """Torch counts the products of an ordinary network of the same shape."""
    inputs, width, batch = 9, 16, 8
    sizes = [inputs, *[width] * depth]
    layers: list[torch.nn.Module] = []
    for below, above in pairwise(sizes):
        layers += [torch.nn.Linear(below, above), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))
    with FlopCounterMode(display=False) as counter:
        network(torch.randn(batch, inputs)).square().mean().backward()
    assert hints.step_flops(MLPShape(inputs, depth, width), batch) == counter.get_total_flops()


def test_a_run_with_hints_is_the_sum_of_what_its_networks_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every forward pass of a real run, by the weights that it multiplies with: 45 steps in 4 stages."""
    steps, products = [], []
    real_step, real_pass = SGD.__call__, MLP.__call__

    def step(self: SGD, x: Tensor, y: Tensor) -> Tensor:
        steps.append(len(x))
        return real_step(self, x, y)

    def forward(self: MLP, x: Tensor) -> Tensor:
        products.append(len(x) * sum(2 * W.numel() for W in self.weights))
        return real_pass(self, x)

    monkeypatch.setattr(SGD, "__call__", step)
    monkeypatch.setattr(MLP, "__call__", forward)
    carried_out(HINTS)
    counted = forecast_of(HINTS)
    assert counted.training_flops == len(steps) * hints.step_flops(MLPShape(9, 3, 10), 7)
    assert counted.measuring_flops == sum(products)
    # by hand: twice the weights and biases of 9-10-10-10-1; units and gradients of 7 rows; 256 batches drawn
    weights = 10 * 10 + 2 * 10 * 11 + 11
    assert counted.memory_bytes == 4 * (2 * weights + 2 * 3 * 7 * 10 + 256 * 7 * (9 + 1))


# Parity ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        ParityConfig(d=6, k=3, contrast=False),
        ParityConfig(d=7, k=3, batch=90, steps=1_300, contrast=False),  # two calls of watched steps
        # not every step is watched, but the last is
        ParityConfig(d=8, k=2, batch=100_000, steps=601, contrast=False, zero_init=True),
        ParityConfig(d=5, k=2, batch=40, steps=12_000, watch=False, contrast=False),
        ParityConfig(d=8, k=3, watch=False),
    ],
    ids=["default", "long", "large", "unwatched", "contrast"],
)
def test_a_parity_run_is_the_sum_of_its_products(config: ParityConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch counts the watch, the verdict and the contrast's test; descents are counted as they are made."""
    descents: dict[str, float] = {"experiment": 0, "evaluation": 0}
    placings: list[int] = []

    def recording(room: str) -> Callable[..., descent.Descent]:
        seen: list[PhaseBatch] = []

        def descend(batch: PhaseBatch, *arguments: Any, **named: Any) -> descent.Descent:
            found = descent.descend(batch, *arguments, **named)
            widths = batch.widths.astype(float)
            descents[room] += float((2 * widths * batch.size + (found.steps + 1) * 2 * widths**2).sum())
            if all(batch is not known for known in seen):
                descents[room] += 2 * len(batch.contents) ** 2 * batch.size
                seen.append(batch)
            placings.append(found.placings - batch.rows)
            return found

        return descend

    for room in descents:
        monkeypatch.setattr(f"internalize.kinds.parity.{room}.descend", recording(room))
    with FlopCounterMode(display=False) as counter:
        carried_out(config)
    counted = forecast_of(config)
    assert counted.training_flops == descents["experiment"]
    assert counted.measuring_flops == counter.get_total_flops() + descents["evaluation"]
    assert min(placings) >= 0  # at least one a row and call, which is what is counted


def test_a_phase_that_ends_by_its_loss_is_counted_at_its_longest() -> None:
    """By hand: d = 4, k = 2, B = 10, 7 steps. Phase 1 has rows of 4 and 5 columns, phase 2 one of 4."""
    config = ParityConfig(d=4, k=2, batch=10, steps=7, regime="threshold")
    first = 2 * 5**2 * 10 + 2 * (4 + 5) * 10 + 8 * 2 * (4**2 + 5**2)
    second = 2 * 4**2 * 10 + 2 * 4 * 10 + 8 * 2 * 4**2
    assert forecast_of(config).training_flops == first + second
    # bits, targets and τ (eight bytes) of 10 examples; three matrices of 6 × 6 numbers of eight bytes
    assert forecast_of(config).memory_bytes == 10 * (5 + 2 + 8 * 2) + 3 * 8 * 36


# Self-play -------------------------------------------------------------------------------------------------


def test_self_play_is_counted_by_what_the_network_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates exactly; what searches ask is bounded from above, and for tic-tac-toe the bound is near."""
    pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')
    from internalize.kinds.selfplay import SelfPlayConfig, rounds
    from internalize.kinds.selfplay import kind as counting
    from internalize.models.mlp import PolicyValue

    config = SelfPlayConfig(
        rounds=2, games=520, simulations=100, width=16, depth=2, updates=6, batch=8, matches=10
    )
    asked = {"self_play": 0, "measuring": 0}
    now, updates = ["measuring"], 0.0
    real_forward, real_play, real_train = PolicyValue.forward, rounds.play_part, rounds.train_part

    def forward(self: PolicyValue, x: Tensor) -> tuple[Tensor, Tensor]:
        if not torch.is_grad_enabled():
            asked[now[0]] += len(x)
        return real_forward(self, x)

    def play(*arguments: Any) -> None:
        now[0] = "self_play"
        real_play(*arguments)
        now[0] = "measuring"

    def learn(*arguments: Any) -> None:
        nonlocal updates
        with FlopCounterMode(display=False) as counter:
            real_train(*arguments)
        updates += counter.get_total_flops()

    monkeypatch.setattr(PolicyValue, "forward", forward)
    monkeypatch.setattr("internalize.kinds.selfplay.experiment.play_part", play)
    monkeypatch.setattr("internalize.kinds.selfplay.experiment.train_part", learn)
    carried_out(config)
    facts = counting.facts_of("tic_tac_toe", "auto")
    assert facts.going == 4_520  # of 5,478 reachable positions 958 are ends
    network = PolicyValue(28, 9, 16, 2)
    assert network.flops == 2 * (28 * 16 + 16 * 16 + 16 * 9 + 16)
    assert updates == 2 * 6 * counting.update_flops(network, 8)
    playing = 2 * counting.evaluations_of_round(config, facts)
    measuring = counting.measured_evaluations(config, facts)
    assert 0.5 * playing < asked["self_play"] <= playing
    assert 0.8 * measuring < asked["measuring"] <= measuring
    counted = forecast_of(config)
    assert counted.training_flops == playing * network.flops + updates
    assert counted.measuring_flops == measuring * network.flops
    # by hand: weights five times (θ, its gradient and moments, and before the round), the examples of two
    # rounds, and 101 nodes with nine moves each in the trees of 512 games
    examples = round(2 * 520 * facts.moves) * (4 * (28 + 9 + 1) + 9)
    weights = 4 * sum(parameter.numel() for parameter in network.parameters())
    assert counted.memory_bytes == 5 * weights + examples + 512 * 101 * (36 + 9 * 24)


def test_moves_of_random_games_are_those_of_all_lines() -> None:
    """Of tic-tac-toe, by going through all positions: the mean number of moves to the end of a random game."""
    pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')
    from internalize.kinds.selfplay.kind import facts_of
    from internalize.kinds.selfplay.positions import Positions

    table = Positions("tic_tac_toe")
    assert table.enumerate()
    left = np.zeros(table.count)
    for number in reversed(range(table.count)):  # breadth first: what follows has a larger number
        moves = slice(table.first_move[number], table.first_move[number] + table.moves[number])
        if table.moves[number]:
            left[number] = 1 + left[table.child[moves]].mean()
    going = table.moves[: table.count] > 0
    assert facts_of("tic_tac_toe", "auto").moves == pytest.approx(left[going].mean(), rel=0.1)
    assert facts_of("tic_tac_toe", "empty").moves == pytest.approx(left[0], rel=0.1)


# Bytes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data", "near"),
    [
        ("hints", {"d": 5, "k": 3, "width": 20, "steps": 6, "batch": 4,
                   "evaluation": {"samples": 10, "final_samples": 10}}, 0.01),
        ("parity", {"d": 10, "k": 3, "batch": 50, "steps": 4, "contrast": False}, 0.02),
        ("selfplay", {"rounds": 3, "games": 40, "simulations": 2, "width": 8, "depth": 1, "updates": 2,
                      "batch": 4, "window": 2, "measured": 20, "matches": 2}, 0.15),
    ],
)  # fmt: skip
@pytest.mark.parametrize("keep", ["all", "none"])
def test_the_bytes_are_those_of_the_tensors_in_the_folder(
    kind: str, data: dict[str, Any], near: float, keep: Any, tmp_path: Path
) -> None:
    if kind == "selfplay":
        pytest.importorskip("pyspiel", reason='needs OpenSpiel: pip install "internalize[selfplay]"')
    config = config_from_json(kind, data)
    execution = Execution(out=tmp_path, keep_stages=keep)
    run = train(config, execution)
    files = [load_tensors(path)[0] for path in run.path.rglob("*.safetensors")]
    # checkpoints hold the journal, too, which is not counted: it is small beside weights of any size
    kept = [tensor for file in files for name, tensor in file.items() if name != METRICS]
    written = sum(tensor.numel() * tensor.element_size() for tensor in kept)
    assert forecast_of(config, execution).disk_bytes == pytest.approx(written, rel=near)
