"""Linear probes: can a label be read from the residual stream, at some layer and position?

A probe is a ridge regression from the residual stream at one layer and position to the indicator of a label;
it says the class with the largest value. The labels are the states q_1 … q_T, or whatever one looks for. All
probes of a place share one Gram matrix, so that every label and its shuffled twin cost one solve. The stream is
read in pieces: nothing but sums over inputs is kept.

Two controls tell what a probe can do by itself: the same model before training, and labels that were shuffled
over inputs. Accuracies are on inputs that no probe was fitted to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from internalize.errors import require
from internalize.statistics import Rate

if TYPE_CHECKING:
    from jaxtyping import Float, Int

RIDGE = 1e-3
"""Weight decay of a probe, relative to the mean square of what it reads."""
CHUNK = 250

ReadStream = Callable[[Tensor], list[Tensor]]
"""(batch, length) tokens to the residual stream, (batch, length, width), before and after every layer."""


@dataclass(frozen=True)
class ProbeHits:
    """How often the probes were right on held-out inputs."""

    hits: Tensor
    """(layers+1, positions, labels) int64; layer 0 is the embedding. For states, entry t-1 is for q_t."""
    shuffled: Tensor
    """The same with labels shuffled over inputs."""
    held_out: int
    chance: Tensor
    """(labels,): share of the commonest class among the held-out inputs."""

    @property
    def accuracy(self) -> Float[Tensor, "layers positions T"]:
        return self.hits.double() / self.held_out

    def above_chance(self) -> Float[Tensor, "layers positions T"]:
        """0 at chance, 1 where always right; (layers+1, positions, labels)."""
        room = (1 - self.chance).clamp(min=1e-9)
        return ((self.accuracy - self.chance) / room).clamp(0, 1)

    def rate(self, layer: int, position: int, t: int) -> Rate:
        return Rate(int(self.hits[layer, position, t - 1]), self.held_out)


def fit_probes(
    read: ReadStream,
    tokens: Int[Tensor, "inputs length"],
    labels: Int[Tensor, "inputs targets"],
    classes: int,
    fitted: int,
    generator: torch.Generator,
) -> ProbeHits:
    """Fit on the first `fitted` inputs, test on the rest. The generator shuffles the control's labels.

    tokens: (count, length); labels: (count, labels), each below `classes`.
    """
    require(0 < fitted < len(tokens), "samples", f"probes need inputs to fit and to test, got {len(tokens)}")
    labels = labels.cpu()
    order = _shuffle_within(fitted, len(labels), generator)
    both = torch.cat([labels, labels[order]], dim=1)
    probes = solve_probes(read, tokens[:fitted], both[:fitted], classes)
    hits = count_hits(read, tokens[fitted:], both[fitted:], classes, probes)
    count, held = labels.shape[1], labels[fitted:]
    chance = torch.stack([held[:, i].bincount(minlength=classes).max() / len(held) for i in range(count)])
    return ProbeHits(hits[..., :count], hits[..., count:], len(held), chance.double())


def _shuffle_within(fitted: int, count: int, generator: torch.Generator) -> Int[Tensor, " inputs"]:
    """A permutation that keeps the fitted and the held-out inputs apart."""
    first = torch.randperm(fitted, generator=generator)
    return torch.cat([first, fitted + torch.randperm(count - fitted, generator=generator)])


def solve_probes(
    read: ReadStream, tokens: Int[Tensor, "inputs length"], labels: Int[Tensor, "inputs targets"], classes: int
) -> list[Tensor]:
    """A list over layers of (positions, width+1, targets · classes) weights, the last row the bias."""
    grams: list[Tensor] = []
    products: list[Tensor] = []
    for features, part in _pieces(read, tokens, labels):
        targets = F.one_hot(part, classes).double().flatten(1)
        for layer, x in enumerate(features):
            if len(grams) == layer:
                places, size = x.shape[0], x.shape[2]
                grams.append(x.new_zeros(places, size, size))
                products.append(x.new_zeros(places, size, targets.shape[1]))
            grams[layer] += x.transpose(1, 2) @ x
            products[layer] += x.transpose(1, 2) @ targets
    found = []
    for gram, product in zip(grams, products, strict=True):
        decay = RIDGE * gram.diagonal(dim1=1, dim2=2)[:, :-1].mean(dim=1) + 1e-9
        penalty = decay[:, None].expand(-1, gram.shape[-1]).clone()
        penalty[:, -1] = 1e-9  # the bias is not held back
        found.append(torch.linalg.solve(gram + torch.diag_embed(penalty), product))
    return found


def count_hits(
    read: ReadStream,
    tokens: Int[Tensor, "inputs length"],
    labels: Int[Tensor, "inputs targets"],
    classes: int,
    probes: list[Tensor],
) -> Int[Tensor, "layers positions targets"]:
    """(layers+1, positions, targets) int64: right answers."""
    hits = torch.zeros(len(probes), probes[0].shape[0], labels.shape[1], dtype=torch.int64)
    for features, part in _pieces(read, tokens, labels):
        for layer, x in enumerate(features):
            said = (x @ probes[layer]).unflatten(-1, (-1, classes)).argmax(dim=-1)
            hits[layer] += (said == part).sum(dim=1)
    return hits


@torch.no_grad()
def _pieces(
    read: ReadStream, tokens: Int[Tensor, "inputs length"], labels: Int[Tensor, "inputs targets"]
) -> Iterator[tuple[list[Tensor], Tensor]]:
    """Piece by piece: for every layer (positions, batch, width+1) float64 with a column of ones, and labels."""
    for piece, part in zip(tokens.split(CHUNK), labels.split(CHUNK), strict=True):
        # float64 on the processor: not every device has it
        stream = [x.transpose(0, 1).cpu().double() for x in read(piece)]
        yield [torch.cat([x, torch.ones_like(x[..., :1])], dim=-1) for x in stream], part
