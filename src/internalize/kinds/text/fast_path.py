"""GPT-2's fast path on rows of text: the same weights, trained by this package's own engine where it can.

The model of transformers and our GPT-2 share one storage: what trains one trains the other, and answering,
saving and everything else go on with the library's. A step takes the fast path if all its rows have one form
(equally long prompts and answers), as exercises with a fixed number of digits do; others take the plain one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from internalize.kinds.text.config import TextConfig
from internalize.kinds.text.network import drawing_from, weights_of
from internalize.kinds.text.rendering import Rendered
from internalize.kinds.text.state import SlotStats
from internalize.kinds.text.step import TextStep
from internalize.models.gpt2 import GPT2, LAYER_NORM_EPSILON, ModelConfig
from internalize.models.parameters import flatten_parameters
from internalize.models.path import choose_kernel, make_step

AS_OURS = {
    "activation_function": "gelu_new",
    "layer_norm_epsilon": LAYER_NORM_EPSILON,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
"""What a config of Hugging Face's GPT-2 must say to mean our GPT-2."""


def fast_shape(library: Any, config: TextConfig, device: torch.device) -> ModelConfig | None:
    """Our shape of transformers' config where the fast path computes the same and is faster; else None."""
    if config.kernel == "plain" or library.model_type != "gpt2" or device.type != "cpu":
        return None
    same = all(getattr(library, name, wanted) == wanted for name, wanted in AS_OURS.items())
    special = (
        config.dropout > 0
        or config.checkpointing
        or config.accumulate > 1
        or config.lora.rank is not None
        or config.removal.positions == "kept"
    )
    if special or not same:
        return None
    shape = ModelConfig(library.n_layer, library.n_embd, library.n_head, library.n_inner)
    return shape if choose_kernel(shape, device) == "fast" else None


def share_storage(model: nn.Module, shape: ModelConfig) -> tuple[GPT2, Tensor, Tensor]:
    """Our GPT-2 with the model's weights, the flat weights and the flat gradient of both."""
    library: Any = model
    vocabulary = library.get_input_embeddings().num_embeddings
    with drawing_from(torch.Generator().manual_seed(0)):  # what torch draws for new layers is loaded over
        own = GPT2(shape, vocabulary, library.config.n_positions)
    own.load(weights_of(model), "model")
    parameters, gradient = flatten_parameters(own)
    theirs = dict(model.named_parameters())
    for name, parameter in own.named_parameters():
        theirs[name].data = parameter.data
        theirs[name].grad = parameter.grad
    return own, parameters, gradient


class FastTextStep:
    """Fills the flat gradient as `TextStep` does, by the fast path where the rows have one form."""

    def __init__(self, plain: TextStep, own: GPT2) -> None:
        self.plain = plain
        self.fast = make_step("fast", plain.precision, own, plain.gradient)

    def __call__(self, rows: Sequence[Rendered], drops: torch.Generator | None = None) -> SlotStats:
        first = rows[0]
        length = len(first.tokens)
        if any(len(row.tokens) != length or row.slots != first.slots for row in rows):
            return self.plain(rows, drops)
        found = self.fast(torch.tensor([row.tokens for row in rows]), first.prompt)
        counts = torch.zeros(self.plain.renderer.slots)
        loss, correct = torch.zeros_like(counts), torch.zeros_like(counts)
        where = torch.tensor(first.slots)
        for total, values in ((loss, found.loss), (correct, found.correct), (counts, torch.ones(len(where)))):
            total[where] = len(rows) * values
        return SlotStats(loss, correct, counts)
