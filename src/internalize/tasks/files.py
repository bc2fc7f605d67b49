"""A semiautomaton from a user's JSON or YAML file.

    {"name": "turnstile", "states": ["locked", "open"], "symbols": ["push", "coin"],
     "transitions": [[0, 1], [0, 1]], "initial_state": 0}

Only `transitions` is needed: a row for each state, in it a column for each symbol.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from internalize.errors import BadInput, closest, require
from internalize.tasks.semiautomaton import Semiautomaton, semiautomaton

LARGEST_JSON = 100 * 2**20
LARGEST_YAML = 2**18
"""Seconds to read already; the fast reader of YAML crashes on deeply nested text."""
KEYS = ["name", "states", "symbols", "transitions", "initial_state"]
SUFFIXES = (".json", ".yaml", ".yml")


def read_semiautomaton(path: Path, field: str) -> Semiautomaton:
    """Read and check the file; every problem is one line that names the file and the key in it."""
    data = _parse(path, field)
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


def _parse(path: Path, field: str) -> Any:
    where = f"{field} ({path.name})"
    is_json = path.suffix.lower() == ".json"
    try:
        size = path.stat().st_size
        require(path.is_file(), field, f"{path} is not a file")
        require(size > 0, where, "the file is empty")
        most = LARGEST_JSON if is_json else LARGEST_YAML
        hint = "" if is_json else " (of JSON more)"
        require(size <= most, where, f"the file has {size:,} bytes, at most {most:,} are read{hint}")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput(field, f"there is no file {path}") from None
    except OSError as error:
        raise BadInput(field, f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(where, "the file is not UTF-8 text") from None
    if is_json:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadInput(where, f"the file is not JSON: {error}") from None
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput(where, f"the file is not YAML: {' '.join(str(error).split())}") from None
