"""The algorithm against plain Python, the outcomes that are known, and the watch against brute force."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from internalize.kinds.parity import ParityConfig
from internalize.kinds.parity.descent import PhaseBatch, descend, phase_batch
from internalize.kinds.parity.evaluation import train_directly
from internalize.kinds.parity.experiment import ParityExperiment, ParityState
from internalize.kinds.parity.stall import leftover, predicted_loss, second_phase
from internalize.kinds.parity.watch import (
    Extremes,
    no_extremes,
    phase_report,
    population_gram,
    update_extremes,
)
from internalize.models.linear_attention import initial_weights
from internalize.runtime.kind import Streams
from internalize.tasks.parity import HiddenParity, all_bits

SMALL = HiddenParity(5, (2, 5, 1))


def small_batch(phase: int, size: int = 40) -> PhaseBatch:
    return phase_batch(SMALL, phase, size, torch.Generator().manual_seed(phase))


def run_in_memory(config: ParityConfig) -> tuple[HiddenParity, ParityState]:
    """The hidden parity, and the state after the last phase."""
    experiment, streams = ParityExperiment(config), Streams(config.seed)
    state = experiment.init(streams)
    while not experiment.done(state):
        state, _ = experiment.advance(state, streams)
    return experiment.parity(streams), state


def rows_of(batch: PhaseBatch, W: torch.Tensor, d: int) -> NDArray[np.float64]:
    return W[d - 1 : d - 1 + batch.rows, : len(batch.contents)].numpy()


def sigma(s: float) -> float:
    """0 on even and 1 on odd integers, linear between."""
    below = math.floor(s)
    return s - below if below % 2 == 0 else below + 1 - s


def slope_from_the_left(s: float) -> float:
    """Of the piece of σ that ends at s or holds it: rising to an odd integer, falling to an even one."""
    return 1.0 if math.ceil(s) % 2 == 1 else -1.0


def naive_step(batch: PhaseBatch, rows: NDArray[np.float64], eta: float) -> tuple[NDArray[np.float64], float]:
    """One step and the loss before it, example by example, with σ and σ' as the paper writes them."""
    gradient, loss = np.zeros_like(rows), 0.0
    for r in range(batch.rows):
        for b in range(batch.size):
            a = [float(batch.contents[j, b]) for j in range(int(batch.widths[r]))]
            s = float(sum(w * v for w, v in zip(rows[r], a, strict=False)))
            error = sigma(s) - float(batch.targets[r, b])
            loss += error**2 / (2 * batch.size)
            for j, value in enumerate(a):
                gradient[r, j] += error * slope_from_the_left(s) * value / batch.size
    return rows - eta * gradient, loss


@pytest.mark.parametrize("phase", [1, 2])
@pytest.mark.parametrize("start", ["initial", "random"])
def test_descent_is_plain_gradient_descent(phase: int, start: str) -> None:
    batch = small_batch(phase)
    W = initial_weights(5, 3)
    if start == "random":
        W = torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    rows = np.where(np.arange(len(batch.contents)) < batch.widths[:, None], rows_of(batch, W, 5), 0.0)
    descent = descend(batch, rows, 6, 0.3, keep_path=True)
    for step in range(6):
        assert np.allclose(descent.path[step], rows, atol=1e-12)
        rows, loss = naive_step(batch, rows, 0.3)
        assert descend(batch, descent.path[step], 0, 0.3).loss == pytest.approx(loss, abs=1e-12)
    assert np.allclose(descent.weights, rows, atol=1e-12)


@pytest.mark.parametrize("eta", [0.05, 0.5, 3.0])
def test_looking_only_when_needed_changes_no_bit(eta: float) -> None:
    parity = HiddenParity(9, (4, 2, 8, 1))
    for phase in (1, 3):
        batch = phase_batch(parity, phase, 300, torch.Generator().manual_seed(0))
        start = rows_of(batch, initial_weights(9, 4), 9)
        lazy = descend(batch, start, 300, eta)
        eager = descend(batch, start, 300, eta, lazy=False)
        assert np.array_equal(lazy.weights, eager.weights)
        assert lazy.cell_changes == eager.cell_changes
        assert lazy.placings <= eager.placings
        assert lazy.placings < 10 * batch.rows or eta > 0.1


def test_the_order_of_the_examples_changes_no_bit() -> None:
    batch = small_batch(1)
    order = np.random.default_rng(0).permutation(batch.size)
    shuffled = PhaseBatch(
        np.ascontiguousarray(batch.contents[:, order]),
        np.ascontiguousarray(batch.targets[:, order]),
        batch.widths,
    )
    start = rows_of(batch, initial_weights(5, 3), 5)
    assert np.array_equal(descend(batch, start, 50, 0.4).weights, descend(shuffled, start, 50, 0.4).weights)


def test_a_batch_pairs_row_d_plus_l_minus_one_with_z_l() -> None:
    batch = small_batch(1)
    x, z = torch.from_numpy(batch.contents[:5].T), torch.from_numpy(batch.targets.T)
    assert torch.equal(SMALL.chain(x), z)
    assert np.array_equal(batch.contents[5:], batch.targets[:2])
    assert batch.widths.tolist() == [5, 6, 7]
    later = small_batch(3)
    assert np.array_equal(later.targets[0], SMALL.chain(torch.from_numpy(later.contents.T))[:, 2].numpy())


@pytest.mark.parametrize(("d", "k"), [(8, 3), (20, 9)])
def test_the_theorem_regime_recovers_the_signed_prefix(d: int, k: int) -> None:
    for seed in range(3):
        parity, state = run_in_memory(ParityConfig(d=d, k=k, seed=seed, watch=False))
        assert torch.equal(state.W[d - 1, :d], -parity.indicator(k))
        chain = initial_weights(d, k)
        for row, coordinate in enumerate(parity.columns):
            chain[d - 1 + row, coordinate] = -1.0
        assert torch.equal(state.W_chain, chain)


def test_without_rounding_the_support_is_found_up_to_signs() -> None:
    config = ParityConfig(regime="threshold", threshold=1e-8, watch=False)
    parity, state = run_in_memory(config)
    row = state.W[19, :20]
    assert not state.stalled
    assert float((row.abs() - parity.indicator(9)).abs().max()) < 1e-3


def test_a_loose_threshold_stalls_in_the_predicted_local_minimum() -> None:
    parity, state = run_in_memory(ParityConfig(regime="threshold", threshold=1e-3, batch=16_384, watch=False))
    assert state.stalled
    assert state.loss == pytest.approx(predicted_loss(20), abs=0.003)
    given_back = parity.columns[state.phase - 2]
    assert abs(float(state.W[19, given_back])) < 0.1


def test_the_stall_is_decided_by_the_leftovers_direction_not_by_the_step() -> None:
    """Seed 0: as left at 1e-3 it stalls for every step size; as left at 1e-8 it does not, at the same size."""
    early, late = (leftover(20, 9, threshold, 1024, Streams(0)) for threshold in (1e-3, 1e-8))
    for eta in (1e-3, 1e-2):
        assert not second_phase(early, 1.0, eta, 1024, Streams(0))[0]
        assert second_phase(late, (early.loss / late.loss) ** 0.5, eta, 1024, Streams(0))[0]


def test_direct_training_guesses() -> None:
    config = ParityConfig(d=8, k=3)
    parity = HiddenParity(8, (3, 6, 1))
    contrast = train_directly(config, parity, config.most_steps, Streams(0))
    assert not contrast.exact
    assert contrast.accuracy < 0.7


def test_with_zero_initialisation_the_direct_answer_is_still_learned() -> None:
    parity, state = run_in_memory(ParityConfig(d=8, k=3, zero_init=True, watch=False))
    assert torch.equal(state.W[7, :8], -parity.indicator(3))


# The watch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [1, 2])
def test_the_watch_measures_what_brute_force_finds(phase: int) -> None:
    batch, eta, steps = small_batch(phase), 1 / 6, 25
    start = rows_of(batch, initial_weights(5, 3), 5)
    descent = descend(batch, start, steps, eta, keep_path=True)
    extremes = no_extremes(batch.rows)
    update_extremes(extremes, batch, descent, torch.from_numpy(start), SMALL, phase, 0, eta)
    for row in range(batch.rows):
        found = Extremes(*extremes[row].tolist())
        assert found == pytest.approx(brute_force(batch, descent.path, row, phase, eta), abs=1e-9)


def brute_force(
    batch: PhaseBatch, path: NDArray[np.float64], row: int, phase: int, eta: float
) -> tuple[float, ...]:
    width = int(batch.widths[row])
    e = np.eye(width)[SMALL.columns[phase - 1 + row]]
    gram, population = population_gram(SMALL, width).numpy(), np.zeros(width)
    low = high = population_high = tracking = norm = contraction = 0.0
    for step in range(len(path)):
        u = path[0, row, :width] - path[step, row, :width]
        for b in range(batch.size):
            x = batch.contents[:width, b]
            reach, expected = float(u @ x), float(population @ x)
            low, high = min(low, reach), max(high, reach)
            population_high = max(population_high, expected)
            tracking = max(tracking, abs(reach - expected))
        norm = max(norm, float(np.linalg.norm(u - population)))
        if step:
            contraction = max(contraction, float(np.linalg.norm(u - e)) / (1 - eta / 8) ** step)
        population = population - eta * gram @ (population - e)
    return low, high, population_high, tracking, norm, contraction, float(np.abs(u - e).max())


def test_the_watch_cut_into_parts_is_the_watch_as_a_whole() -> None:
    batch, eta = small_batch(1), 1 / 6
    start = rows_of(batch, initial_weights(5, 3), 5)
    whole, parts = no_extremes(3), no_extremes(3)
    update_extremes(
        whole, batch, descend(batch, start, 30, eta, keep_path=True), torch.from_numpy(start), SMALL, 1, 0, eta
    )
    first = descend(batch, start, 11, eta, keep_path=True)
    second = descend(batch, first.weights, 19, eta, keep_path=True)
    for step, part in ((0, first), (11, second)):
        update_extremes(parts, batch, part, torch.from_numpy(start), SMALL, 1, step, eta)
    assert torch.equal(whole, parts)


def test_the_population_gram_is_the_mean_over_all_inputs() -> None:
    (x,) = all_bits(5)
    a = torch.cat([x, SMALL.chain(x)[:, :2]], dim=1).double()
    assert torch.equal(population_gram(SMALL, 7), a.T @ a / len(a))


def test_a_phase_reports_each_quantity_with_its_bound() -> None:
    config = replace(ParityConfig(d=5, k=3), batch=40, steps=100)
    batch = small_batch(2)
    report = {
        m.quantity: m for m in phase_report(config, SMALL, 2, batch, no_extremes(1), 7, -SMALL.indicator(1))
    }
    x = batch.contents.astype(float)
    eigenvalues = np.linalg.eigvalsh(x @ x.T / 40)
    assert report["lambda_min"].value == pytest.approx(eigenvalues[0])
    assert report["lambda_max"].value == pytest.approx(eigenvalues[-1])
    error = np.linalg.norm(x @ x.T / 40 - (np.eye(5) + 1) / 4, 2)
    assert report["covariance"].value == pytest.approx(error)
    assert report["batch"].bound == pytest.approx(20 * 125 * np.log(3 * 100 / 0.05))
    assert not report["batch"].holds
    assert (report["cell_changes"].value, report["cell_changes"].holds) == (7, False)
    assert (report["prefix_errors"].value, report["prefix_errors"].holds) == (1, False)
