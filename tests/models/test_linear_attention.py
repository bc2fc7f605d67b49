"""The layer: its full form against the simplified one, and the activation against a table by hand."""

from __future__ import annotations

import pytest
import torch

from internalize.models.linear_attention import (
    activate,
    full_form,
    initial_weights,
    left_slope,
    simplified_form,
    token_matrix,
)

# s, σ(s), σ'(s) from the left
TABLE = [
    (-3.0, 1.0, 1.0),
    (-2.75, 0.75, -1.0),
    (-2.0, 0.0, -1.0),
    (-1.5, 0.5, 1.0),
    (-1.0, 1.0, 1.0),
    (-0.25, 0.25, -1.0),
    (0.0, 0.0, -1.0),
    (0.25, 0.25, 1.0),
    (1.0, 1.0, 1.0),
    (1.75, 0.25, -1.0),
    (2.0, 0.0, -1.0),
    (3.0, 1.0, 1.0),
    (4.0, 0.0, -1.0),
    (5.5, 0.5, -1.0),
]


@pytest.mark.parametrize(("s", "value", "slope"), TABLE)
def test_the_activation_and_its_left_derivative(s: float, value: float, slope: float) -> None:
    at = torch.tensor(s, dtype=torch.float64, requires_grad=True)
    out = activate(at)
    assert out.item() == value
    out.backward()
    assert at.grad is not None
    assert at.grad.item() == left_slope(at.detach()).item() == slope


@pytest.mark.parametrize("n", [1, 4, 7])
def test_the_full_form_is_the_simplified_form(n: int) -> None:
    draw = torch.Generator().manual_seed(n)
    W = torch.randn(7, 7, dtype=torch.float64, generator=draw)
    a = torch.randint(2, (30, n), generator=draw).double()
    assert torch.allclose(full_form(W, a), simplified_form(W, a), atol=1e-12)


def test_the_forms_have_the_same_gradient() -> None:
    draw = torch.Generator().manual_seed(0)
    W = torch.randn(5, 5, dtype=torch.float64, generator=draw).requires_grad_()
    a = torch.randint(2, (16, 5), generator=draw).double()
    z = torch.randint(2, (16, 5), generator=draw).double()
    gradients = [
        torch.autograd.grad(((form(W, a) - z) ** 2).sum(), W)[0] for form in (full_form, simplified_form)
    ]
    assert torch.allclose(gradients[0], gradients[1], atol=1e-12)
    assert torch.equal(gradients[0].triu(1), torch.zeros(5, 5, dtype=torch.float64))


def test_a_later_token_changes_no_earlier_output() -> None:
    W = torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    a = torch.zeros(1, 6, dtype=torch.float64)
    b = a.clone()
    b[0, 3] = 1.0
    assert torch.equal(full_form(W, a)[0, :3], full_form(W, b)[0, :3])


def test_the_token_matrix_holds_content_and_place() -> None:
    X = token_matrix(torch.tensor([[7.0, 8.0]]), 3)
    assert X.tolist() == [[[7.0, 1.0, 0.0, 0.0], [8.0, 0.0, 1.0, 0.0]]]


def test_the_initial_weights_read_the_token_at_their_own_place() -> None:
    W = initial_weights(4, 3)
    assert W.nonzero().tolist() == [[4, 4], [5, 5]]
    assert W[4, 4] == W[5, 5] == -1.0
    assert not initial_weights(4, 3, zero=True).any()
