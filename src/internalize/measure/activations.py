"""Activations by name: read all of them in one pass over tokens, or replace some and see what is said then.

The built-in GPT-2    `embedding`, `attention.l`, `mlp.l`, `residual.l` for the layers l = 1, 2, …; to be read
                      also `pattern.l`, `logits`, and `residual.0`, another name of the embedding.
A user's network      the outputs of its submodules, by the names that `named_modules` gives them: those with
                      one vector for each position, (batch, length, width). Of a tuple it is the first entry, as
                      in torch's GRU. A submodule that is called again has `name#2` for its second call. Where a
                      container only hands on what its last part gave, the container's name stands for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from internalize.errors import BadInput, closest
from internalize.models.gpt2 import GPT2, Block, attention_pattern
from internalize.models.language_model import LanguageModel
from internalize.models.own_network import OwnNetwork

if TYPE_CHECKING:
    from jaxtyping import Float, Int

Change = Callable[[Tensor], Tensor]
"""An activation to the one that takes its place, of the same shape."""
MOST_NAMED = 12


def names_of(model: LanguageModel, length: int | None = None) -> list[str]:
    """The activations that can be read and replaced, in the order in which they are computed.

    length: of the tokens to be read, for networks that call a submodule more often for longer inputs; as many
    tokens as the model can read if not given.
    """
    if isinstance(model, OwnNetwork):
        return [call.name for call in calls_of(model, length) if call.misfit is None]
    layers = range(1, model.config.depth + 1)
    return ["embedding", *(f"{part}.{l}" for l in layers for part in ("attention", "mlp", "residual"))]  # noqa: E741


@torch.no_grad()
def activations(
    model: LanguageModel, tokens: Int[Tensor, "batch length"], names: Sequence[str] | None = None
) -> dict[str, Tensor]:
    """The named activations of a plain pass over (batch, length) tokens; all there are if none are named."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Change:
        def look(value: Float[Tensor, ...]) -> Float[Tensor, ...]:
            # a user's module may write into what another one gave
            found[name] = value if isinstance(model, GPT2) else value.clone()
            return value

        return look

    with ExitStack() as hooks:
        for name in names_of(model, tokens.shape[1]) if names is None else names:
            hooks.enter_context(_changing(model, name, keep(name), tokens.shape[1]))
        if isinstance(model, GPT2) and names is None:
            for layer, block in enumerate(_blocks(model), start=1):
                hooks.enter_context(_seeing_pattern(block, f"pattern.{layer}", found))
        found["logits"] = model(tokens)[0]
    if "embedding" in found and isinstance(model, GPT2):
        found["residual.0"] = found["embedding"]
    return found


@torch.no_grad()
def run_with_changes(
    model: LanguageModel, tokens: Int[Tensor, "batch length"], changes: Mapping[str, Change], first: int = 0
) -> Float[Tensor, "batch new vocabulary"]:
    """The logits (batch, length - first, vocabulary) of a pass in which some activations are replaced."""
    with ExitStack() as hooks:
        for name, change in changes.items():
            hooks.enter_context(_changing(model, name, change, tokens.shape[1]))
        logits: Tensor = model(tokens, first=first)[0]
    return logits


@contextmanager
def _changing(model: LanguageModel, name: str, change: Change, length: int) -> Iterator[None]:
    """While the block runs, the activation of that name is what `change` makes of it, in one pass."""
    if isinstance(model, OwnNetwork):
        with _changing_own(model, name, change, length):
            yield
        return
    handle = _change_built_in(cast(GPT2, model), name, change)
    try:
        yield
    finally:
        handle.remove()


def _no_such(name: str, known: list[str]) -> BadInput:
    return BadInput("activation", f"there is no {name!r}{closest(name, known)}; there are {', '.join(known)}")


# The built-in GPT-2 ---------------------------------------------------------------------------------------


def _blocks(model: GPT2) -> list[Block]:
    return cast(list[Block], list(model.transformer.h))


def _change_built_in(model: GPT2, name: str, change: Change) -> Any:
    name, known = ("embedding" if name == "residual.0" else name), names_of(model)
    if name not in known:
        raise _no_such(name, known)
    part, _, layer = name.partition(".")
    if part == "embedding":  # what the first layer is given

        def before(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
            return change(given[0]), *given[1:]

        return _blocks(model)[0].register_forward_pre_hook(before)
    block = _blocks(model)[int(layer) - 1]
    module = {"attention": block.attn, "mlp": block.mlp, "residual": block}[part]

    def after(module: nn.Module, given: tuple[Any, ...], out: Any) -> Any:
        return _with_changed(out, change)

    return module.register_forward_hook(after)


def _with_changed(out: Any, change: Change) -> Any:
    return (change(out[0]), *out[1:]) if isinstance(out, tuple) else change(out)


@contextmanager
def _seeing_pattern(block: Block, name: str, found: dict[str, Tensor]) -> Iterator[None]:
    def look(module: nn.Module, given: tuple[Any, ...], out: Any) -> None:
        found[name] = attention_pattern(block.attn, given[0])

    handle = block.attn.register_forward_hook(look)
    try:
        yield
    finally:
        handle.remove()


# A user's network -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """One call of a submodule in a pass."""

    name: str
    """The submodule's name, with #2 for its second call."""
    misfit: str | None
    """What its output is where it does not have one vector for each position."""


@torch.no_grad()
def calls_of(model: OwnNetwork, length: int | None = None) -> list[Call]:
    """The calls of submodules in a pass over so many tokens, in the order in which they end."""
    length = length or model.context
    batch = 2 if length != 2 else 3  # told apart from the length
    seen: dict[tuple[int, int], int] = {}
    outputs: list[Tensor] = []  # kept, so that no other tensor can come to stand where they are
    calls: list[Call] = []
    counts: dict[str, int] = {}

    def note(name: str) -> Callable[..., None]:
        def look(module: nn.Module, given: tuple[Any, ...], out: Any) -> None:
            counts[name] = counts.get(name, 0) + 1
            called = name if counts[name] == 1 else f"{name}#{counts[name]}"
            value = out[0] if type(out) is tuple and out else out
            call = Call(called, _misfit(value, batch, length))
            if call.misfit is not None:
                calls.append(call)
                return
            outputs.append(value)
            which = (id(value), value._version)
            if which not in seen:
                seen[which] = len(calls)
                calls.append(call)
            elif calls[seen[which]].name.startswith(f"{name}."):  # the container of what gave it
                calls[seen[which]] = call

        return look

    with ExitStack() as hooks:
        for name, module in model.module.named_modules():
            if name:
                hooks.callback(module.register_forward_hook(note(name)).remove)
        device = next(model.parameters()).device
        model(torch.zeros(batch, length, dtype=torch.int64, device=device))
    return calls


def _misfit(value: Any, batch: int, length: int) -> str | None:
    if not isinstance(value, Tensor):
        return type(value).__name__
    fits = value.ndim == 3 and value.shape[:2] == (batch, length) and value.is_floating_point()
    words = {batch: "batch", length: "length"}
    return None if fits else f"({', '.join(words.get(size, str(size)) for size in value.shape)})"


def choose_modules(model: OwnNetwork, wanted: Sequence[str], length: int, field: str = "modules") -> list[str]:
    """The submodules that can be read and replaced: all, or those of these names or patterns."""
    calls, network = calls_of(model, length), model.config.network
    fitting = [call.name for call in calls if call.misfit is None]
    if not fitting:
        others = ", ".join(f"{call.name} {call.misfit}" for call in calls[:MOST_NAMED]) or "none is called"
        needed = "no submodule that gives one vector for each position, (batch, length, width)"
        raise BadInput("run", f"{network} has {needed}: what they give is {others}")
    chosen: list[str] = []
    for text in wanted:
        matched = [name for name in fitting if name == text or fnmatchcase(name, text)]
        if not matched:
            misfit = next((call.misfit for call in calls if call.name == text), None)
            shape = f"{text} of {network} gives {misfit}, not one vector for each position; there are"
            none = f"{network} has no submodule {text!r}{closest(text, fitting)}; there are"
            known = ", ".join(fitting[:MOST_NAMED]) + (", …" if len(fitting) > MOST_NAMED else "")
            raise BadInput(field, f"{none if misfit is None else shape} {known}")
        chosen += matched
    return [name for name in fitting if name in chosen] if wanted else fitting


@contextmanager
def _changing_own(model: OwnNetwork, name: str, change: Change, length: int) -> Iterator[None]:
    module_name, _, which = name.partition("#")
    modules = dict(model.module.named_modules())
    if not module_name or module_name not in modules or not (which or "1").isdecimal():
        raise _no_such(name, names_of(model, length))
    call, calls = int(which or 1), 0

    def after(module: nn.Module, given: tuple[Any, ...], out: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != call:
            return out
        value = out[0] if type(out) is tuple and out else out
        if not isinstance(value, Tensor) or _misfit(value, len(value), length):
            raise _no_such(name, names_of(model, length))
        return _with_changed(out, change)

    handle = modules[module_name].register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()
    if calls < call:  # else a change that never took place would look like one without effect
        raise _no_such(name, names_of(model, length))
