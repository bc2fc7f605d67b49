"""What happens inside a GPT-2, by name: its activations as a dictionary, and a pass with some of them replaced.

embedding      token and position embeddings, what the first layer reads       (batch, length, width)
attention.l    what the attention of layer l adds to the residual stream       (batch, length, width)
mlp.l          what the MLP of layer l adds to it                              (batch, length, width)
residual.l     the residual stream after layer l = 1 … depth                   (batch, length, width)
pattern.l      the attention weights of layer l                                (batch, heads, length, length)
logits         what the model says next, at every position                     (batch, length, vocabulary)

`residual.0` is another name for `embedding`. Forward hooks do the work, on any device: the model itself is not
changed, and its own code computes everything but the patterns, which it never holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from internalize.errors import BadInput, closest
from internalize.models.gpt2 import GPT2, Block
from internalize.models.passes import attention_pattern

if TYPE_CHECKING:
    from jaxtyping import Float, Int

Change = Callable[[Tensor], Tensor]
"""An activation to the one that takes its place, of the same shape."""


def names_of(model: GPT2) -> list[str]:
    """The activations that can be read and replaced, in the order in which they are computed."""
    layers = range(1, model.config.depth + 1)
    return ["embedding", *(f"{part}.{l}" for l in layers for part in ("attention", "mlp", "residual"))]  # noqa: E741


@torch.no_grad()
def activations(model: GPT2, tokens: Int[Tensor, "batch length"]) -> dict[str, Tensor]:
    """All named activations of a plain pass over (batch, length) tokens."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Change:
        def look(value: Float[Tensor, ...]) -> Float[Tensor, ...]:
            found[name] = value
            return value

        return look

    with ExitStack() as hooks:
        for name in names_of(model):
            hooks.enter_context(_changing(model, name, keep(name)))
        for layer, block in enumerate(_blocks(model), start=1):
            hooks.enter_context(_seeing_pattern(block, f"pattern.{layer}", found))
        found["logits"] = model(tokens)[0]
    found["residual.0"] = found["embedding"]
    return found


@torch.no_grad()
def run_with_changes(
    model: GPT2, tokens: Int[Tensor, "batch length"], changes: Mapping[str, Change], first: int = 0
) -> Float[Tensor, "batch new vocabulary"]:
    """The logits (batch, length - first, vocabulary) of a pass in which some activations are replaced."""
    with ExitStack() as hooks:
        for name, change in changes.items():
            hooks.enter_context(_changing(model, name, change))
        logits: Tensor = model(tokens, first=first)[0]
    return logits


def _blocks(model: GPT2) -> list[Block]:
    return cast(list[Block], list(model.transformer.h))


@contextmanager
def _changing(model: GPT2, name: str, change: Change) -> Iterator[None]:
    """While the block runs, the activation of that name is what `change` makes of it."""
    part, layer = _find(model, "embedding" if name == "residual.0" else name)
    if part == "embedding":  # what the first layer is given

        def before(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
            return change(given[0]), *given[1:]

        handle = _blocks(model)[0].register_forward_pre_hook(before)
    else:
        block = _blocks(model)[layer - 1]
        module = {"attention": block.attn, "mlp": block.mlp, "residual": block}[part]

        def after(module: nn.Module, given: tuple[Any, ...], out: Any) -> Any:
            return (change(out[0]), *out[1:]) if isinstance(out, tuple) else change(out)

        handle = module.register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _seeing_pattern(block: Block, name: str, found: dict[str, Tensor]) -> Iterator[None]:
    def look(module: nn.Module, given: tuple[Any, ...], out: Any) -> None:
        found[name] = attention_pattern(block.attn, given[0])

    handle = block.attn.register_forward_hook(look)
    try:
        yield
    finally:
        handle.remove()


def _find(model: GPT2, name: str) -> tuple[str, int]:
    known = names_of(model)
    if name not in known:
        raise BadInput(
            "activation", f"there is no {name!r}{closest(name, known)}; there are {', '.join(known)}"
        )
    part, _, layer = name.partition(".")
    return part, int(layer or 0)
