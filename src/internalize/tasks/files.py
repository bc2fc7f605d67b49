"""A semiautomaton from a user's JSON or YAML file.

    {"name": "turnstile", "states": ["locked", "open"], "symbols": ["push", "coin"],
     "transitions": [[0, 1], [0, 1]], "initial_state": 0}

Only `transitions` is needed: a row for each state, in it a column for each symbol.
"""

from __future__ import annotations

from pathlib import Path

from internalize.configs.data_files import read_data
from internalize.errors import BadInput, closest, require
from internalize.tasks.semiautomaton import Semiautomaton, semiautomaton

KEYS = ["name", "states", "symbols", "transitions", "initial_state"]
SUFFIXES = (".json", ".yaml", ".yml")


def read_semiautomaton(path: Path, field: str) -> Semiautomaton:
    """Read and check the file; every problem is one line that names the file and the key in it."""
    data = read_data(path, field)
    where = f"{field} ({path.name})"
    require(isinstance(data, dict), where, f"must be an object with the keys {', '.join(KEYS)}")
    for key in data:
        require(key in KEYS, where, f"unknown key {key!r}{closest(str(key), KEYS)}; known: {', '.join(KEYS)}")
    rows = data.get("transitions")
    good = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
    require(good, where, "transitions must be a list of lists: a row a state, a column a symbol")
    initial, name = data.get("initial_state", 0), data.get("name", path.stem)
    is_index = isinstance(initial, int) and not isinstance(initial, bool)
    require(is_index, where, f"initial_state must be a whole number, got {initial!r}")
    named = isinstance(name, str) and name != "" and not any(c.isspace() for c in name)
    require(named, where, f"name must be a word without spaces, got {name!r}")
    for key in ("states", "symbols"):
        require(isinstance(data.get(key, []), list), where, f"{key} must be a list of names")
    try:
        return semiautomaton(name, rows, data.get("states"), data.get("symbols"), initial)
    except BadInput as error:
        raise BadInput(where, str(error)) from None
