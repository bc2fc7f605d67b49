"""Circuits by name: those that are shipped, a user's JSON or YAML file, or a user's Python object."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from internalize.configs.data_files import read_data
from internalize.configs.named import Copies, Source, is_object_name, load_object
from internalize.errors import BadInput, closest, require
from internalize.tasks.circuits import Circuit, Gate, addition_circuit, majority_of_parities
from internalize.tasks.files import SUFFIXES

KEYS = ["name", "inputs", "gates", "output", "hints"]
KNOWN = "parity, adder<n>, majority<m>x<n>, a .json or .yaml file, or module:attribute"


def find_circuit(text: str, field: str, copies: Copies) -> tuple[Circuit, Source | None]:
    """A circuit, and the user's file behind it where there is one. `parity` has arguments: not found here."""
    if text.lower().endswith(SUFFIXES):
        path = copies.get(text, Path(text))
        return read_circuit(path, field), Source(text, path)
    if is_object_name(text):
        made, source = load_object(text, field, copies)
        return _users_circuit(made, text, field), source
    adder = re.fullmatch(r"adder(\d{1,4})", text)
    if adder is not None:
        return addition_circuit(int(adder[1])), None
    parities = re.fullmatch(r"majority(\d{1,4})x(\d{1,4})", text)
    if parities is not None:
        return majority_of_parities(int(parities[1]), int(parities[2])), None
    raise BadInput(field, f"unknown circuit {text!r}; known: {KNOWN}")


def read_circuit(path: Path, field: str) -> Circuit:
    """Read and check the file; every problem is one line that names the file and the key in it."""
    data, where = read_data(path, field), f"{field} ({path.name})"
    require(isinstance(data, dict), where, f"must be an object with the keys {', '.join(KEYS)}")
    for key in data:
        require(key in KEYS, where, f"unknown key {key!r}{closest(str(key), KEYS)}; known: {', '.join(KEYS)}")
    for key in ("inputs", "gates", "output"):
        require(key in data, where, f"{key} is missing")
    number = isinstance(data["inputs"], int) and not isinstance(data["inputs"], bool)
    require(number, where, f"inputs must be a whole number, got {data['inputs']!r}")
    require(_texts_of_texts(data["gates"]), where, 'gates must be a list such as [["y", "and", "x1", "x2"]]')
    hints = data.get("hints")
    good = hints is None or _texts(hints)
    require(good, where, f"hints must be a list of names of gates, got {hints!r}")
    try:
        gates = tuple(Gate(line[0], line[1], tuple(line[2:])) for line in data["gates"])
        shown = None if hints is None else tuple(hints)
        return Circuit(str(data.get("name", path.stem)), data["inputs"], gates, data["output"], shown)
    except BadInput as error:
        raise BadInput(where, str(error)) from None


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _texts_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(_texts(line) and len(line) >= 3 for line in value)


def _users_circuit(made: object, text: str, field: str) -> Circuit:
    try:
        circuit = made() if callable(made) else made
    except BadInput as error:
        raise BadInput(field, f"{text}: {error}") from None
    except Exception as error:  # a user's function may fail in any way
        raise BadInput(field, f"{text} failed: {type(error).__name__}: {error}") from error
    require(isinstance(circuit, Circuit), field, f"{text} is not a Circuit but {circuit!r}")
    assert isinstance(circuit, Circuit)
    return circuit
