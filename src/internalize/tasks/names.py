"""The one parser that turns names and users' files into tasks.

A file is JSON or YAML:

    {"name": "turnstile", "states": ["locked", "open"], "symbols": ["push", "coin"],
     "transitions": [[0, 1], [0, 1]], "initial_state": 0}

Only `transitions` is needed: one row for each state, and in it one column for each symbol.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path

from internalize.configs.data_files import read_data
from internalize.configs.named import Copies, Source, is_object_name, load_object
from internalize.configs.trust import own_files
from internalize.errors import BadInput, closest, require
from internalize.tasks.groups import alternating, counter, dihedral, flip_flop, quaternion, symmetric
from internalize.tasks.semiautomaton import Semiautomaton, direct_product, semiautomaton

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
    require(
        good, where, "transitions must be a list of lists: one row for each state, one column for each symbol"
    )
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


FAMILIES: dict[str, tuple[str, Callable[[int], Semiautomaton]]] = {
    "C": ("counter: the sum of the symbols modulo n", counter),
    "S": ("permutations of n places: identity, two swaps, shift; S4:adjacent, S4:all, S4:(1 2),(1 2 3 4)",
          symmetric),
    "A": ("even permutations of n places; other symbols as for S", alternating),
    "D": ("symmetries of a regular n-gon: identity, turn, mirror", dihedral),
    "flipflop": ("a memory of n values: keep, or write one", flip_flop),
}  # fmt: skip
"""name → (what it is, how it is made from n)."""

_FORM = re.compile(r"(?P<family>flipflop|[CSAD])_?(?P<n>-?[0-9]{1,9})?(?::(?P<generators>.+))?")


def parse_task(text: str, field: str = "task", copies: Copies | None = None) -> Semiautomaton:
    """The task that the text names: see `find_task`. Without copies the user has named it: it is trusted."""
    if copies is not None:
        return find_task(text, field, copies)[0]
    with own_files():
        return find_task(text, field, {})[0]


def find_task(text: str, field: str, copies: Copies) -> tuple[Semiautomaton, Source | None]:
    """A task, and the user's file behind it where there is one.

    Names: `C7`, `S3`, `A5`, `D4`, `Q8`, `flipflop2`, products such as `C2xC3`, a `.json` or `.yaml` file,
    `module:attribute` or `file.py:attribute` (a Semiautomaton, or a function that returns one).
    """
    if text.lower().endswith(SUFFIXES):
        path = copies.get(text, Path(text))
        return read_semiautomaton(path, field), Source(text, path)
    if is_object_name(text) and not _FORM.fullmatch(text):
        made, source = load_object(text, field, copies)
        return _users_task(made, text, field), source
    if ":" in text:
        return _single(text, field), None
    return reduce(direct_product, (_single(part, field) for part in re.split(r"[x×]", text))), None


def _users_task(made: object, text: str, field: str) -> Semiautomaton:
    """The user's object, or what the user's function returns, checked like a file."""
    try:
        task = made() if callable(made) else made
        if not isinstance(task, Semiautomaton):
            raise BadInput(field, f"{text} is not a Semiautomaton but {task!r}")
        names = task.state_names, task.symbol_names
        return semiautomaton(task.name, task.table.tolist(), *names, task.initial_state)
    except BadInput as error:
        raise BadInput(field, error.message if error.field == field else f"{text}: {error}") from None
    except Exception as error:  # a user's function may fail in any way
        raise BadInput(field, f"{text} failed: {type(error).__name__}: {error}") from error


def _single(text: str, field: str) -> Semiautomaton:
    if text == "Q8":
        return quaternion()
    form = _FORM.fullmatch(text)
    if form is None or (form["n"] is None and form["family"] != "flipflop"):
        names = ", ".join([*(f"{family}<n>" for family in FAMILIES), "Q8"])
        raise BadInput(field, f"unknown task {text!r}; known: {names}, products like C2xC3, a .json or .yaml "
                              "file, or module:attribute")  # fmt: skip
    n = int(form["n"] or 2)
    if form["generators"] is None:
        return FAMILIES[form["family"]][1](n)
    makers = {"S": symmetric, "A": alternating}
    require(form["family"] in makers, field, f"only S and A take generators, got {text!r}")
    return makers[form["family"]](n, form["generators"])
