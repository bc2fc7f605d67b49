"""The figures of the paper, one file each; a figure is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from internalize.configs.named import is_object_name, load_object, own_files
from internalize.errors import BadInput, closest, require
from internalize.figures.figure import Figure

NAMES = (
    "ood-degradation",
    "methods",
    "orders",
    "isoparameter",
    "scatter",
    "mlp-hints",
    "mixture",
    "attention-parity",
    "heads",
    "left-vs-right",
    "construction-size",
    "parity-watch",
)
"""In the order of the paper."""


def find_figure(name: str) -> Figure:
    """One of the paper's, or a user's own: `module:attribute` or `file.py:attribute`."""
    if is_object_name(name):
        with own_files():
            made, _ = load_object(name, "figure", {})
        kind = type(made).__name__
        require(isinstance(made, Figure), "figure", f"{name} is no internalize.figures.Figure but a {kind}")
        own: Figure = made
        return own
    known = name.replace("_", "-")
    if known not in NAMES:
        near = closest(known, list(NAMES))
        raise BadInput(
            "figure", f"unknown figure {name!r}{near}; known: {', '.join(NAMES)}, or your own module:attribute"
        )
    found: Figure = import_module(f"internalize.figures.paper.{known.replace('-', '_')}").FIGURE
    return found
