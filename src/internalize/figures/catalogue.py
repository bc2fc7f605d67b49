"""The figures there are, by name; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from internalize.errors import BadInput, closest
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
    known = name.replace("_", "-")
    if known not in NAMES:
        raise BadInput(
            "figure", f"unknown figure {name!r}{closest(known, list(NAMES))}; known: {', '.join(NAMES)}"
        )
    found: Figure = import_module(f"internalize.figures.{known.replace('-', '_')}").FIGURE
    return found
