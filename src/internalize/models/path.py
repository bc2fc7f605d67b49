"""Which code trains and runs a model: the plain path, or the fast one of the CPU.

Both offer a `Step`, from a batch to the gradient and the loss at every answer position, and a `Decoder`, which
reads token by token for generation. The plain ones stand here; the fast ones in `models/fast/`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from internalize.models.config import ModelConfig, Precision
from internalize.models.dropout import Drops, logits_with_dropout
from internalize.models.gpt2 import GPT2
from internalize.models.language_model import LanguageModel

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass
class AnswerStats:
    """What one training step saw at each of the answer's K+1 positions (K states and EOS)."""

    loss: Float[Tensor, " answer"]
    """(K+1,) mean over the batch of the next-token log loss."""
    correct: Float[Tensor, " answer"]
    """(K+1,) share of the batch whose most likely token is the right one."""


class Step(Protocol):
    """Fills the model's flat gradient (overwriting it) with that of the mean loss over the answer."""

    def __call__(
        self,
        tokens: Int[Tensor, "batch length"],
        prompt: int,
        drops: torch.Generator | None = None,
        emphasis: float = 1.0,
    ) -> AnswerStats:
        """tokens: (batch, length) int64, prompt and answer with its EOS; the answer starts at index `prompt`.

        The model reads all but the last token; positions prompt-1 … length-2 predict tokens[:, prompt:].
        drops: decides what dropout sets to 0, for models that have it; consumed. emphasis: how much the
        answer's first position counts in the mean whose gradient is taken; the others count 1 each.
        """
        ...


class PlainStep:
    """The step by autograd: any network, any device; every faster step is compared with it."""

    def __init__(
        self, model: LanguageModel, gradient: Float[Tensor, " numel"], precision: Precision = "fp32"
    ) -> None:
        """gradient: the flat gradient that `flatten_parameters(model)` returned."""
        self.model = model
        self.gradient = gradient
        self.precision = precision

    def __call__(
        self,
        tokens: Int[Tensor, "batch length"],
        prompt: int,
        drops: torch.Generator | None = None,
        emphasis: float = 1.0,
    ) -> AnswerStats:
        self.gradient.zero_()
        with self._products(tokens.device):
            logits = self._logits(tokens[:, :-1], prompt - 1, drops)
        logits = logits.float()
        target = tokens[:, prompt:]
        loss = cross_entropy(logits.transpose(1, 2), target, reduction="none")
        weighted_mean(loss, emphasis).backward()
        correct = (logits.detach().argmax(-1) == target).to(torch.float32)
        return AnswerStats(loss.detach().mean(0), correct.mean(0))

    def _logits(
        self, tokens: Int[Tensor, "batch positions"], first: int, drops: torch.Generator | None
    ) -> Float[Tensor, "batch positions-{first} vocabulary"]:
        if drops is not None:
            assert isinstance(self.model, GPT2)  # a config with another network has no dropout
            config = self.model.config
            dropped = Drops.draw(config.dropout or 0.0, config.depth, drops)
            return logits_with_dropout(self.model, tokens, first, dropped)
        logits: Tensor = self.model(tokens, first=first)[0]
        return logits

    def _products(self, device: torch.device) -> AbstractContextManager[object]:
        """How matrix products are computed; not every device has autocast, so it is asked only when needed."""
        return torch.autocast(device.type, torch.bfloat16) if self.precision == "bf16" else nullcontext()


def weighted_mean(loss: Float[Tensor, "batch answer"], emphasis: float) -> Float[Tensor, ""]:
    """The mean in which an answer's first position counts as much as `emphasis` others."""
    if emphasis == 1.0:
        return loss.mean()
    weights = torch.ones_like(loss[0])
    weights[0] = emphasis
    return (loss @ weights).mean() / weights.sum()


class Decoder(Protocol):
    """A model that reads a prompt once and is then given one token at a time."""

    def prefill(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch vocabulary"]:
        """(batch, length) tokens; the logits (batch, vocabulary) after the last."""

    def append(self, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch vocabulary"]:
        """(batch,) next tokens; the logits (batch, vocabulary) after them."""

    def go_on(self, tokens: Int[Tensor, "batch new"]) -> Float[Tensor, "batch vocabulary"]:
        """(batch, new) tokens right after the prompt, as if nothing had come after it yet; the last logits."""


class PlainDecoder:
    """Any model with its own cache, on any device."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self._cache: Any = None
        self._prompt: Any = None

    def prefill(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch vocabulary"]:
        logits, self._cache = self.model(tokens, first=tokens.shape[1] - 1)
        self._prompt = self._cache  # it does not change when the model reads on
        return logits[:, 0]

    def append(self, tokens: Int[Tensor, " batch"]) -> Float[Tensor, "batch vocabulary"]:
        logits, self._cache = self.model(tokens[:, None], cache=self._cache)
        return logits[:, 0]

    def go_on(self, tokens: Int[Tensor, "batch new"]) -> Float[Tensor, "batch vocabulary"]:
        logits, self._cache = self.model(tokens, first=tokens.shape[1] - 1, cache=self._prompt)
        return logits[:, 0]


Kernel = Literal["plain", "fast"]
Attention = Literal["fused", "products"]
"""The fast path's two: with heads side by side in a vector, or by batched products."""


def choose_kernel(device: torch.device) -> Kernel:
    """The faster path: on a CPU the fast one for every shape, elsewhere the plain one."""
    return "fast" if device.type == "cpu" else "plain"


def rule(config: ModelConfig) -> Attention:
    """Which attention the fast path takes: batched products for one or two heads of size 64 and more.

    A rule and not a timing at the start of every run: the same config must give the same bytes, however busy
    the machine is. Steps of 32 sequences of 52 tokens at depth 1 and 2, processor time over that of the fast
    path with products (`internalize bench --kernels` prints plain over fast):

        heads × size     1×64      1×128     2×32      2×64      4×16      4×32      1×512     4×128
        plain          2.4 1.6   2.2 1.6   2.5 1.5   2.0 1.5   2.1 1.5   2.0 1.5   2.2 1.5   2.5 1.6
        fused          2.1 1.7   2.0 1.8   1.3 1.1   1.4 1.3   0.9 0.8   1.1 1.0      –      1.1 1.1

    The plain path won nowhere: depth 4 still gives 1.1, 2,002 tokens 1.35, bfloat16 1.8, rotary positions 1.7.
    Two heads of 32 and four of 128 would gain a little by products, and keep the bytes that they had. Products
    drop nothing: a model with dropout takes the other one.
    """
    few = config.heads <= 2 and config.head_size >= 64
    return "products" if few and config.dropout is None else "fused"


def make_step(
    kernel: Kernel, precision: Precision, model: LanguageModel, gradient: Float[Tensor, " numel"]
) -> Step:
    """A training step of that kernel; gradient: the flat one of `flatten_parameters(model)`."""
    if kernel == "fast":
        from internalize.models.fast import FastStep

        assert isinstance(model, GPT2)  # no other network has a fast path
        return FastStep(model, gradient, precision)
    return PlainStep(model, gradient, precision)


def make_decoder(kernel: Kernel, model: LanguageModel, batch: int) -> Decoder:
    """A decoder of that kernel for at most so many sequences at once.

    Token by token nothing is gained over few large heads: such a model has the plain decoder on either path.
    """
    if kernel == "fast" and rule(model.config) == "fused":
        from internalize.models.fast import FastDecoder

        assert isinstance(model, GPT2)
        return FastDecoder(model, batch)
    return PlainDecoder(model)
