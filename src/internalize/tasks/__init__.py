"""What is computed, with exact oracles. A task knows nothing of tokens, models or training."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from internalize.tasks.inputs import InputDistribution, parse_inputs
    from internalize.tasks.names import parse_task
    from internalize.tasks.semiautomaton import Semiautomaton

__all__ = ["InputDistribution", "Semiautomaton", "parse_inputs", "parse_task"]
_PLACES = {
    "InputDistribution": "internalize.tasks.inputs",
    "parse_inputs": "internalize.tasks.inputs",
    "parse_task": "internalize.tasks.names",
    "Semiautomaton": "internalize.tasks.semiautomaton",
}
"""name → module, imported when first asked for: lists answer before torch would be loaded."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'internalize.tasks' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
