"""One causal linear-attention layer on scalar tokens, with the parity activation (paper §4, appendix D).

The layer has one matrix of weights, W ∈ R^{D×D}: what position i takes from position j. It is written here
twice, as the paper has it: in its full form, as attention over a token matrix, and in its simplified form. Both
are slow, and autograd goes through them. They say what the layer is: what trains it
(`kinds/parity/descent.py`) and what asks it (`kinds/parity/evaluation.py`) compute the same in fewer
operations, and are tested against them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float, Float64


def parity_activation(s: Float[Tensor, " *shape"]) -> Float[Tensor, " *shape"]:
    """σ: 0 on even and 1 on odd integers, linear between; the distance to the nearest even integer."""
    return (s - 2 * torch.round(s / 2)).abs()


def left_slope(s: Float[Tensor, " *shape"]) -> Float[Tensor, " *shape"]:
    """σ', at integers from the left: +1 on (m, m+1] for even m, -1 for odd m."""
    return 1 - 2 * (torch.remainder(torch.ceil(s), 2) == 0).to(s.dtype)


class ParityActivation(torch.autograd.Function):
    """σ with the left derivative at integers. Autograd's own would differ there, where training begins."""

    @staticmethod
    def forward(ctx: Any, s: Float[Tensor, " *shape"]) -> Float[Tensor, " *shape"]:
        ctx.save_for_backward(s)
        return parity_activation(s)

    @staticmethod
    def backward(ctx: Any, *gradients: Float[Tensor, " *shape"]) -> Float[Tensor, " *shape"]:
        (s,) = ctx.saved_tensors
        return gradients[0] * left_slope(s)


def activate(s: Float[Tensor, " *shape"]) -> Float[Tensor, " *shape"]:
    """σ, differentiable by autograd with the left derivative."""
    activated: Tensor = ParityActivation.apply(s)  # type: ignore[no-untyped-call]
    return activated


def token_matrix(a: Float[Tensor, "batch n"], positions: int) -> Float[Tensor, "batch n 1+{positions}"]:
    """X(a): (batch, n) contents to (batch, n, 1 + positions) tokens (a_i, e_i)."""
    batch, n = a.shape
    places = torch.eye(positions, dtype=a.dtype)[:n].expand(batch, n, positions)
    return torch.cat([a[:, :, None], places], dim=2)


def full_form(W: Float[Tensor, "D D"], a: Float[Tensor, "batch n"]) -> Float[Tensor, "batch n"]:
    """f_W(a) as attention: σ of the content coordinate of (M ⊙ X W_QK Xᵀ) X.

    W: (D, D); a: (batch, n) contents, n ≤ D; returns (batch, n). W_QK ignores the content coordinate, the value
    matrix is the identity.
    """
    n, positions = a.shape[1], W.shape[0]
    X = token_matrix(a, positions)
    W_QK = torch.zeros(positions + 1, positions + 1, dtype=W.dtype)
    W_QK[1:, 1:] = W
    causal = torch.ones(n, n, dtype=W.dtype).tril()
    H = (causal * (X @ W_QK @ X.transpose(1, 2))) @ X
    return activate(H[:, :, 0])


def simplified_form(W: Float[Tensor, "D D"], a: Float[Tensor, "batch n"]) -> Float[Tensor, "batch n"]:
    """f_W(a)_i = σ(Σ_{j≤i} W_ij a_j): the same function of (batch, n) contents, without the tokens."""
    n = a.shape[1]
    return activate(a @ W[:n, :n].tril().T)


def initial_weights(d: int, k: int, zero: bool = False) -> Float64[Tensor, "{d}+{k} {d}+{k}"]:
    """W^(0): (d+k, d+k) float64 zeros, but for -1 at positions d+1 … d+k-1 on the diagonal.

    Those entries let row d+l-1 begin as z_{l-1}, the prefix that stands at its own position. `zero` leaves them
    out: then only the direct answer is guaranteed, not the chain.
    """
    W = torch.zeros(d + k, d + k, dtype=torch.float64)
    if not zero:
        inner = torch.arange(d, d + k - 1)
        W[inner, inner] = -1.0
    return W
