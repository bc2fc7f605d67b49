"""A ReLU network with a scalar output, and plain SGD on it with the gradient written out.

g(x) = W_{L+1} relu(W_L … relu(W_1 x + b_1) … + b_L) + b_{L+1}, L hidden layers. Where a layer is narrow,
autograd's bookkeeping, the gradients' own memory and a second pass for the update cost about as much as the
products; here a step takes three products for each layer, the last of which adds to the weights in place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from internalize.errors import require
from internalize.models.config import Precision
from internalize.models.parameters import digest_of

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

CHUNK = 2_048
"""Inputs that are answered at once, so that a large sample needs little memory."""


BLOCK = 256
"""Rows of a wide layer that are stepped and rounded at once, so that they stay in the cache: the same sums."""


@dataclass(frozen=True)
class MLPShape:
    """What a network reads and how large it is."""

    inputs: int
    depth: int
    """Number of hidden layers."""
    width: int
    """Number of units of a hidden layer."""

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """(outputs, inputs) of every layer, the last one's single output included."""
        widths = [self.inputs, *[self.width] * self.depth, 1]
        return [(widths[i + 1], widths[i]) for i in range(len(widths) - 1)]

    @property
    def parameters(self) -> int:
        return sum(outputs * (inputs + 1) for outputs, inputs in self.sizes)

    @property
    def flops(self) -> int:
        """Operations of one forward pass on one input; a product of (a, b) and (b, c) counts 2abc."""
        return sum(2 * outputs * inputs for outputs, inputs in self.sizes)


class MLP:
    """The weights W_l (outputs, inputs) and b_l (outputs,) of every layer, float32 or float64."""

    def __init__(self, weights: list[Tensor], biases: list[Tensor]) -> None:
        self.weights = weights
        self.biases = biases

    @property
    def shape(self) -> MLPShape:
        hidden = self.weights[:-1]
        return MLPShape(self.weights[0].shape[1], len(hidden), hidden[0].shape[0])

    def __call__(self, x: Float[Tensor, "batch inputs"]) -> Float[Tensor, " batch"]:
        """The network's output on every input."""
        return torch.cat([self._outputs(chunk) for chunk in x.split(CHUNK)])

    def _outputs(self, hidden: Float[Tensor, "batch inputs"]) -> Float[Tensor, " batch"]:
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = torch.addmm(b, hidden, W.t()).relu_()
        return torch.addmv(self.biases[-1], hidden, self.weights[-1][0])

    def subnetwork(self, inputs: int, rest: float = 0.0) -> MLP:
        """The network that reads the first `inputs` coordinates alone, as if all others were `rest`.

        rest = 0 drops their columns of W_1, which is the paper's h; otherwise they go into b_1.
        """
        first, bias = self.weights[0], self.biases[0]
        return MLP(
            [first[:, :inputs].contiguous(), *self.weights[1:]],
            [bias + rest * first[:, inputs:].sum(1), *self.biases[1:]],
        )

    def tensors(self) -> dict[str, Tensor]:
        """All weights by name: W1, b1, W2, …"""
        named = zip(self.weights, self.biases, strict=True)
        return {
            f"{letter}{i}": t for i, pair in enumerate(named, 1) for letter, t in zip("Wb", pair, strict=True)
        }

    def clone(self) -> MLP:
        return MLP([W.clone() for W in self.weights], [b.clone() for b in self.biases])

    def digest(self) -> str:
        """A hash of all weights."""
        return digest_of(self.tensors().items())


def mlp_from(tensors: Mapping[str, Tensor], device: torch.device) -> MLP:
    """The network with these weights, in memory of its own."""
    layers = range(1, len(tensors) // 2 + 1)
    own = {name: tensor.clone().to(device) for name, tensor in tensors.items()}
    return MLP([own[f"W{i}"] for i in layers], [own[f"b{i}"] for i in layers])


def require_layers(shape: MLPShape, tensors: Mapping[str, Tensor]) -> None:
    """Refuse weights that are not those of a network of this shape, by the name of one that is not."""
    for i, (outputs, inputs) in enumerate(shape.sizes, 1):
        for name, wanted in ((f"W{i}", (outputs, inputs)), (f"b{i}", (outputs,))):
            found = tuple(tensors[name].shape)
            require(found == wanted, name, f"must be of shape {wanted}, got {found}")
            require(tensors[name].dtype == torch.float32, name, f"must be float32, got {tensors[name].dtype}")


def new_mlp(shape: MLPShape, generator: torch.Generator) -> MLP:
    """Weights and biases uniform in ±1/√inputs of the layer, as PyTorch's linear layers begin; consumes it."""
    weights: list[Tensor] = []
    biases: list[Tensor] = []
    for outputs, inputs in shape.sizes:
        bound = 1 / math.sqrt(inputs)
        for tensors, size in ((weights, (outputs, inputs)), (biases, (outputs,))):
            drawn = torch.empty(size, device=generator.device)
            tensors.append(drawn.uniform_(-bound, bound, generator=generator))
    return MLP(weights, biases)


class SGD:
    """Steps of plain SGD on the mean squared error, in place. Holds the memory that a step needs.

    precision bf16: the products between hidden layers, nearly all of the work, take their operands rounded to
    bfloat16; weights, sums, biases, first and last layer stay in float32.
    """

    def __init__(self, model: MLP, batch: int, lr: float, precision: Precision = "fp32") -> None:
        self.model = model
        self.lr = lr
        like, width = model.weights[0], model.shape.width
        self._hidden = [like.new_empty(batch, width) for _ in model.weights[:-1]]
        self._gradients = [like.new_empty(batch, width) for _ in model.weights[:-1]]
        # views are made once: making one takes as long as a small operation
        self._transposed = [W.t() for W in model.weights]
        self._gradients_transposed = [gradient.t() for gradient in self._gradients]
        self._top, self._top_transposed = model.weights[-1][0], self._hidden[-1].t()
        inner = range(1, len(model.weights) - 1) if precision == "bf16" else ()
        self._half = {i: model.weights[i].to(torch.bfloat16) for i in inner}
        self._half_below: dict[int, Tensor] = {}
        self._blocks = [slice(row, row + BLOCK) for row in range(0, width, BLOCK)]

    @torch.no_grad()
    def __call__(self, x: Float[Tensor, "batch inputs"], y: Float[Tensor, " batch"]) -> Float[Tensor, ""]:
        """(batch, inputs) and (batch,) labels to the mean squared error before the step, a scalar tensor.

        The error is multiplied by -lr at once, so that what is usually a gradient is here the step itself.
        """
        b = self.model.biases
        last = len(b) - 1
        below = [x, *self._hidden]
        for i in range(last):
            self._forward(i, below[i], below[i + 1])
        error = torch.addmv(b[last], below[last], self._top).sub_(y)
        loss = torch.dot(error, error).div_(len(error))
        step = error.mul_(-2 * self.lr / len(error))
        gradient = self._gradients[-1]
        torch.outer(step, self._top, out=gradient)
        self._top.addmv_(self._top_transposed, step)
        b[last].add_(step.sum())
        for i in range(last - 1, -1, -1):
            # 0 where the unit was off: relu's slope
            torch.ops.aten.threshold_backward.grad_input(gradient, below[i + 1], 0, grad_input=gradient)
            self._backward(i, gradient, below[i])
            b[i].add_(gradient.sum(0))
            gradient = self._gradients[i - 1]
        return loss

    def _forward(
        self, i: int, below: Float[Tensor, "batch inputs"], above: Float[Tensor, "batch outputs"]
    ) -> None:
        """relu(W_i below + b_i) into `above`; layers counted from 0."""
        b = self.model.biases[i]
        if i in self._half:
            rounded = self._half_below[i] = below.to(torch.bfloat16)
            torch.add(torch.mm(rounded, self._half[i].t()), b, out=above).relu_()
        else:
            torch.addmm(b, below, self._transposed[i], out=above).relu_()

    def _backward(
        self, i: int, gradient: Float[Tensor, "batch outputs"], below: Float[Tensor, "batch inputs"]
    ) -> None:
        """The step of what is below the layer, where anything trainable is, then the layer's own."""
        W = self.model.weights[i]
        if i in self._half:
            rounded = gradient.to(torch.bfloat16)
            self._gradients[i - 1].copy_(torch.mm(rounded, self._half[i]))
            transposed, half = rounded.t(), self._half[i]
            for rows in self._blocks:
                W[rows].add_(torch.mm(transposed[rows], self._half_below[i]))
                half[rows].copy_(W[rows])
            return
        if i > 0:
            torch.mm(gradient, W, out=self._gradients[i - 1])
        W.addmm_(self._gradients_transposed[i], below)


class PolicyValue(nn.Module):
    """A ReLU MLP: (batch, inputs) → move logits (batch, moves) and value logits (batch,).

    The value is the sigmoid of its logit: the outcome expected for the player to move, from 0, lost, to 1, won.
    """

    def __init__(self, inputs: int, moves: int, width: int, depth: int) -> None:
        """depth: hidden layers, each of `width` units."""
        super().__init__()
        sizes = [inputs] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.policy = nn.Linear(width, moves)
        self.value = nn.Linear(width, 1)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> PolicyValue:
        """He's initialisation of the hidden layers; both heads begin at zero, so that no move is preferred."""
        for layer in self.hidden:
            weight = layer.weight
            assert isinstance(weight, Tensor)
            weight.copy_(torch.randn(weight.shape, generator=generator) * (2 / weight.shape[1]) ** 0.5)
        for name, parameter in self.named_parameters():
            if name.endswith("bias") or not name.startswith("hidden"):
                parameter.zero_()
        return self

    def forward(
        self, x: Float[Tensor, "batch inputs"]
    ) -> tuple[Float[Tensor, "batch moves"], Float[Tensor, " batch"]]:
        for layer in self.hidden:
            x = torch.relu(layer(x))
        return self.policy(x), self.value(x)[:, 0]

    @property
    def flops(self) -> float:
        """Operations of one forward pass: one multiplication and one addition for each weight."""
        return 2.0 * sum(p.numel() for name, p in self.named_parameters() if name.endswith("weight"))


def masked_loss(
    logits: Float[Tensor, "batch moves"],
    value_logits: Float[Tensor, " batch"],
    legal: Bool[Tensor, "batch moves"],
    policy: Float[Tensor, "batch moves"],
    outcome: Float[Tensor, " batch"],
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Cross-entropy against the policy over legal moves, and of the value against the outcome: two scalars.

    logits, legal (bool), policy: (batch, moves); value_logits, outcome in [0, 1]: (batch,).
    """
    log_policy = torch.log_softmax(logits.masked_fill(~legal, float("-inf")), dim=1)
    policy_loss = -(policy * log_policy.masked_fill(~legal, 0.0)).sum(1).mean()
    value_loss = nn.functional.binary_cross_entropy_with_logits(value_logits, outcome)
    return policy_loss, value_loss
