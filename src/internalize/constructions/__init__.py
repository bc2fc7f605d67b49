"""Transformers written by hand, proof beside code."""

from internalize.constructions.construction import Construction
from internalize.constructions.counter import CounterConstruction, build_counter
from internalize.constructions.general import GeneralConstruction, build_general

__all__ = ["Construction", "CounterConstruction", "GeneralConstruction", "build_counter", "build_general"]
