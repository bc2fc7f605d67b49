"""The written-out step of SGD against autograd and torch.optim.SGD; the subnetwork against its definition."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from internalize.models import mlp
from internalize.models.mlp import MLP, SGD, MLPShape, mlp_from, new_mlp


def sequential(model: MLP) -> nn.Sequential:
    """The same network in PyTorch's own layers."""
    layers: list[nn.Module] = []
    for W, b in zip(model.weights, model.biases, strict=True):
        linear = nn.Linear(W.shape[1], W.shape[0])
        linear.weight.data, linear.bias.data = W.clone(), b.clone()
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def batch(draw: torch.Generator, inputs: int, size: int = 32) -> tuple[Tensor, Tensor]:
    x = torch.randint(2, (size, inputs), generator=draw) * 2.0 - 1.0
    return x, torch.randint(2, (size,), generator=draw) * 2.0 - 1.0


@pytest.mark.parametrize(("depth", "width"), [(1, 16), (2, 24), (4, 12)])
def test_steps_are_those_of_autograd(depth: int, width: int) -> None:
    """In float64, so that nothing but the order of sums can differ."""
    draw = torch.Generator().manual_seed(depth)
    model = mlp_from(new_mlp(MLPShape(9, depth, width), draw).tensors(), torch.device("cpu"))
    model = MLP([W.double() for W in model.weights], [b.double() for b in model.biases])
    twin = sequential(model)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    sgd = SGD(model, 32, 0.1)
    for _ in range(20):
        x, y = (t.double() for t in batch(draw, 9))
        expected = nn.functional.mse_loss(twin(x)[:, 0], y)
        optimizer.zero_grad()
        expected.backward()
        optimizer.step()
        assert float(sgd(x, y)) == pytest.approx(float(expected.detach()), abs=1e-12)
    for ours, theirs in zip(model.tensors().values(), twin.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)
    assert torch.allclose(model(x), twin(x)[:, 0], atol=1e-12)


def test_half_precision_takes_nearly_the_same_step() -> None:
    draw = torch.Generator().manual_seed(0)
    model = new_mlp(MLPShape(9, 3, 64), draw)
    twin = model.clone()
    before = [W.clone() for W in model.weights]
    x, y = batch(draw, 9)
    SGD(model, 32, 0.1)(x, y)
    SGD(twin, 32, 0.1, "bf16")(x, y)
    for start, exact, rounded in zip(before, model.weights, twin.weights, strict=True):
        assert 0 < float((exact - rounded).norm()) < 0.03 * float((exact - start).norm())


def test_blocks_of_rows_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers as wide as the paper's are stepped in blocks; 100 rows do not divide into blocks of 32."""
    draw = torch.Generator().manual_seed(0)
    whole = new_mlp(MLPShape(9, 3, 100), draw)
    blocks = whole.clone()
    at_once = SGD(whole, 32, 0.1, "bf16")
    monkeypatch.setattr(mlp, "BLOCK", 32)
    in_blocks = SGD(blocks, 32, 0.1, "bf16")
    for _ in range(5):
        x, y = batch(draw, 9)
        assert torch.equal(at_once(x, y), in_blocks(x, y))
    assert whole.digest() == blocks.digest()


def test_the_subnetwork_drops_columns_or_folds_them_in() -> None:
    draw = torch.Generator().manual_seed(0)
    model = new_mlp(MLPShape(9, 2, 16), draw)
    x, _ = batch(draw, 6)
    for rest in (0.0, 1.0, -0.5):
        filled = torch.cat([x, torch.full((len(x), 3), rest)], dim=1)
        assert torch.allclose(model.subnetwork(6, rest)(x), model(filled), atol=1e-6)
    assert model.subnetwork(6).weights[0].shape == (16, 6)
    assert torch.equal(model.subnetwork(6).biases[0], model.biases[0])


def test_parameters_and_operations_are_counted() -> None:
    shape = MLPShape(36, 2, 2048)
    model = new_mlp(MLPShape(5, 2, 7), torch.Generator().manual_seed(0))
    assert shape.parameters == 4_274_177  # the paper: approximately 4.27 M
    assert sum(t.numel() for t in model.tensors().values()) == model.shape.parameters
    assert shape.flops == 2 * (36 * 2048 + 2048 * 2048 + 2048)
