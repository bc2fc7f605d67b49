"""What a config says of a model and its optimizer: shapes, numbers and their bounds; no tensor is made here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from internalize.configs.codec import IF_NOT_GIVEN, LEFT_OUT_UNLESS_SET, typed
from internalize.errors import require

DEEPEST = 1_000
"""Layers. Each is made before anything is counted."""
WIDEST = 100_000_000
"""Units of a layer. The number of its weights must be one that can be counted."""

GPT2_INIT_STD = 0.02
"""Standard deviation of GPT-2's initial weights, whatever its width."""
GPT2_WIDTH = 512
"""The width of the paper's larger models, for which this is about torch's own scale for a linear layer."""

Precision = Literal["fp32", "bf16"]
"""bf16: matrix products in bfloat16; weights, optimizer, layer norm and softmax stay in fp32."""
Positions = Literal["absolute", "none", "rotary"]


def initial_spread(config: ModelConfig) -> float:
    """The standard deviation of the initial weights: as it is given, or GPT-2's, which grows for a width below
    512 as torch's own does, with 1/√width (docs/readings.md).

    Wider models were not tried: theirs stays. A network of one's own sets its weights itself.
    """
    if config.init_std is not None:
        return config.init_std
    narrow = 1.0 if config.network else max(1.0, GPT2_WIDTH / config.width)
    return GPT2_INIT_STD * math.sqrt(narrow)


@dataclass(frozen=True)
@typed("model")
class ModelConfig:
    """The shape of the transformer."""

    depth: int = 4
    """Number of layers."""
    width: int = 512
    """Embedding dimension d."""
    heads: int = 128
    """Attention heads; must divide the width."""
    mlp: int | None = None
    """Width of the MLP's hidden layer; four times the embedding dimension if not given."""
    positions: Positions = "absolute"
    """Position encoding: learned absolute ones (the paper's), none, or rotary."""
    init_std: float | None = field(default=None, metadata={IF_NOT_GIVEN: initial_spread})
    """Standard deviation of the initial weights; into the residual stream they are √(2·depth) times smaller. If
    not given: GPT-2's 0.02, and 0.02·√(512/width) where the width is less than 512."""
    network: str | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Your own instead of GPT-2: module:name or file.py:name, called with (config, vocabulary, positions)."""

    dropout: float | None = field(default=None, metadata=LEFT_OUT_UNLESS_SET)
    """Share of embeddings, attention weights and residual updates set to 0 in a training step, as Hugging
    Face's GPT-2 does it (0.1 there); nothing is dropped if not given. A step takes about twice as long."""

    def __post_init__(self) -> None:
        require(self.depth >= 1, "model.depth", f"must be at least 1, got {self.depth}")
        good = self.depth <= DEEPEST
        require(
            good, "model.depth", f"must be at most {DEEPEST:,}: each layer takes its time, got {self.depth:,}"
        )
        require(self.width >= 1, "model.width", f"must be at least 1, got {self.width}")
        require(self.heads >= 1, "model.heads", f"must be at least 1, got {self.heads}")
        require(
            self.width % self.heads == 0,
            "model.heads",
            f"must divide model.width = {self.width}, got {self.heads}",
        )
        require(self.mlp is None or self.mlp >= 1, "model.mlp", f"must be at least 1, got {self.mlp}")
        for name, size in (("width", self.width), ("mlp", self.mlp or 1)):
            good = size <= WIDEST or self.network is not None  # whose width may mean anything
            require(good, f"model.{name}", f"must be at most {WIDEST:,}: no machine holds more, got {size:,}")
        good = self.init_std is None or 0 < self.init_std < math.inf
        require(good, "model.init-std", f"must be more than 0 and finite, got {self.init_std}")
        good = self.dropout is None or 0 < self.dropout < 1
        require(good, "model.dropout", f"must lie between 0 and 1 (leave it out for none), got {self.dropout}")
        if self.dropout is not None:
            own = self.network is not None
            require(not own, "model.dropout", "must be left out with model.network: it is the built-in GPT-2's")
            rotary = self.positions == "rotary"
            require(not rotary, "model.dropout", "must be left out with rotary positions: not built")
        if self.positions == "rotary":
            even = (self.width // self.heads) % 2 == 0
            require(even, "model.positions", "rotary needs heads of even size (model.width / model.heads)")

    @property
    def head_size(self) -> int:
        return self.width // self.heads

    @property
    def mlp_width(self) -> int:
        return 4 * self.width if self.mlp is None else self.mlp


@dataclass(frozen=True)
class AdamWConfig:
    """What every kind that trains by AdamW lets one choose."""

    lr: float = 3e-4
    """Learning rate."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Decay of the running mean and of the running square of the gradient."""
    weight_decay: float = 0.01
    """Decoupled weight decay, on every parameter that is trained."""
    reset: bool = True
    """Forget the optimizer's state at every stage end, as the paper does; no-reset keeps it."""

    def __post_init__(self) -> None:
        require(0 < self.lr < math.inf, "optimizer.lr", f"must be more than 0 and finite, got {self.lr}")
        good = all(0 <= beta < 1 for beta in self.betas)
        require(good, "optimizer.betas", f"must lie in [0, 1), got {self.betas}")
        good = 0 <= self.weight_decay < math.inf
        require(good, "optimizer.weight-decay", f"must be 0 or more and finite, got {self.weight_decay}")
