"""How the layer is trained, against the layer as the paper writes it; and the table of stalls."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from internalize.kinds.parity import stall
from internalize.kinds.parity.descent import PhaseBatch, descend, phase_batch
from internalize.models.linear_attention import full_form
from internalize.runtime.kind import Streams
from internalize.runtime.loop import StopRequest, compute
from internalize.tasks.parity import HiddenParity


@pytest.mark.parametrize("phase", [1, 2])
def test_a_step_follows_autograds_gradient_of_the_attention(phase: int) -> None:
    """Rows d … d+k-1 in phase 1, row d alone later; every later row of W stays as it is."""
    draw = torch.Generator().manual_seed(phase)
    batch = phase_batch(HiddenParity(5, (2, 5, 1)), phase, 40, draw)
    W = torch.randn(8, 8, dtype=torch.float64, generator=draw).tril()
    W.requires_grad_()
    outputs = full_form(W, torch.from_numpy(batch.contents.T).double())[:, 4 : 4 + batch.rows]
    loss = ((outputs - torch.from_numpy(batch.targets.T)) ** 2).sum() / (2 * 40)
    (gradient,) = torch.autograd.grad(loss, W)
    trained = slice(4, 4 + batch.rows), slice(0, len(batch.contents))
    descent = descend(batch, W.detach()[trained].numpy(), 1, 0.3, keep_path=True)
    assert np.allclose(descent.weights, (W - 0.3 * gradient).detach()[trained].numpy(), atol=1e-12)
    assert descend(batch, descent.path[0], 0, 0.3).loss == pytest.approx(loss.item(), abs=1e-12)


@given(st.floats(-50, 50) | st.integers(-50, 50).map(float), st.integers(0, 1))
def test_a_whole_step_on_one_example_leads_to_the_nearest_integer_of_its_parity(s: float, z: int) -> None:
    """Of two equally near ones to the left, which the derivative is from."""
    one = PhaseBatch(np.ones((1, 1), np.uint8), np.array([[z]], np.uint8), np.array([1]))
    reached = float(descend(one, np.array([[s]]), 1, 1.0).weights[0, 0])
    candidates = [integer for integer in range(-53, 54) if integer % 2 == z]
    nearest = min(candidates, key=lambda integer: (abs(integer - Fraction(s)), integer))
    assert reached == pytest.approx(nearest, abs=1e-9)


def test_a_setting_of_several_rows_is_trained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row still tells of its own setting, as it does where each is trained for itself."""
    trained: list[tuple[float, float, float, int]] = []

    def remembering(
        start: stall.Leftover, scale: float, eta: float, batch: int, streams: Streams
    ) -> tuple[bool, float, float]:
        size = round(scale**2 * start.loss, 12)
        trained.append((start.loss, size, eta, batch))
        return False, size + 10 * eta, float(batch)

    monkeypatch.setattr(stall, "second_phase", remembering)
    monkeypatch.setattr(stall, "DIRECTIONS", (1e-2, 1e-3))
    configs = stall.stall_configs(6, 2, 1)
    stop = StopRequest(aloud=False)
    runs = [compute(stall.StallExperiment(config), Streams(config.seed), stop) for config in configs]
    rows = stall.stall_table(configs, [summary for summary, _ in runs]).rows
    # sizes for both directions; for the first also three step sizes, one of them the sizes' own, and a batch
    assert [row["varied"] for row in rows] == ["size"] * 5 + ["step"] * 15 + ["batch"] * 5 + ["size"] * 5
    assert len(set(trained)) == len(trained) == 5 + 10 + 5 + 5
    for row in rows:
        assert row["stalled_loss"] == pytest.approx(row["leftover_loss"] + 10 * row["eta"])
        assert row["stalled_weight_on_i1"] == row["B"] == (16_384 if row["varied"] == "batch" else 1_024)
