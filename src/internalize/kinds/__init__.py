"""The kinds of experiment: each a folder with all that is its own. A new kind is one more line here."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from internalize.configs.codec import from_json
from internalize.configs.named import Copies, is_object_name
from internalize.errors import BadInput, closest

if TYPE_CHECKING:
    from internalize.runtime.kind import Kind, Prepared

KINDS = {
    "chain": "internalize.kinds.chain.kind:KIND",
    "parity": "internalize.kinds.parity.kind:KIND",
    "selfplay": "internalize.kinds.selfplay.kind:KIND",
    "hints": "internalize.kinds.hints.kind:KIND",
    "text": "internalize.kinds.text.kind:KIND",
}
"""name → where the kind is; it is imported when it is asked for."""


def find_kind(name: str, copies: Copies | None = None) -> Kind:
    """A kind of this package by its name, or a user's own: `file.py:NAME` or `module:NAME`."""
    from internalize.runtime.kind import load_kind

    if name not in KINDS and not is_object_name(name):
        near, known = closest(name, list(KINDS)), ", ".join(KINDS)
        raise BadInput("kind", f"unknown kind {name!r}{near}; known: {known}, or your own file.py:NAME")
    return load_kind(KINDS.get(name, name), copies)


def kind_of(config: Any, copies: Copies | None = None) -> Kind:
    """The kind that a config belongs to."""
    name = getattr(config, "kind", None)
    if not isinstance(name, str) or isinstance(config, type):
        said = "must be the config of an experiment, for example ChainConfig(task='C2')"
        raise BadInput("config", f"{said}; of a kind of your own, find_kind('file.py:NAME').config(…)")
    return find_kind(name, copies)


def own_command(command: str, text: str) -> Callable[[Any], int | None] | None:
    """The function by which the kind of a run, RUN[@STAGE][:BUDGET], carries out a command in its own way.

    A command that the kind knows to be of no use for its runs is refused, with what to do instead.
    """
    from internalize.runs.folder import Run

    try:
        kind = Run.open(re.sub(r"(@\d+)?(:\d+)?$", "", text)).identity().kind
        found_kind = find_kind(kind) if kind in KINDS else None
    except BadInput:  # the command itself will say it
        return None
    ways, instead = (getattr(found_kind, name, {}) for name in ("commands", "instead"))
    if command in instead:
        raise BadInput(
            "run", f"{command} looks into chains of states, not into runs of {kind}: {instead[command]}"
        )
    if command not in ways:
        return None
    module, _, function = ways[command].partition(":")
    found: Callable[[Any], int | None] = getattr(import_module(module), function)
    return found


def config_from_json(kind: str, data: dict[str, Any], copies: Copies | None = None) -> Any:
    """The config of that kind with these fields."""
    return from_json(find_kind(kind, copies).config, dict(data))


def prepare(config: Any, copies: Copies | None = None) -> Prepared:
    """A config, checked once, with all that the runtime needs to carry it out."""
    from internalize.runtime.kind import prepare_by

    return prepare_by(kind_of(config, copies), config, copies)
