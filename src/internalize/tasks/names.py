"""The one parser that turns names and users' files into tasks.

A file is JSON or YAML, with states by name or by number:

    {"transitions": {"locked": {"push": "locked", "coin": "open"}, "open": {"push": "locked", "coin": "open"}}}
    {"name": "turnstile", "states": ["locked", "open"], "symbols": ["push", "coin"],
     "transitions": [[0, 1], [0, 1]], "initial_state": 0, "accepting": ["open"]}

Only `transitions` is needed: one row for each state, and in it one column for each symbol. With `accepting` the
answer is yes or no; with `outputs`, {"locked": "stop", "open": "go"}, it is what they say of the last state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.markup import escape

from internalize.configs.files import make_folder, read_data, require_writable
from internalize.configs.named import Copies, Source, is_object_name, load_object, own_files
from internalize.display.terminal import PlainConsole, results_table
from internalize.errors import BadInput, closest, closest_file, require

if TYPE_CHECKING:
    from internalize.tasks.semiautomaton import Semiautomaton

KEYS = ["name", "states", "symbols", "transitions", "initial_state", "outputs", "accepting"]
ALSO_CALLED = {
    "start": "initial_state",
    "initial": "initial_state",
    "alphabet": "symbols",
    "inputs": "symbols",
    "accept": "accepting",
    "final": "accepting",
    "delta": "transitions",
    "output": "outputs",
}
"""What other people's files call these keys → the key."""
SUFFIXES = (".json", ".yaml", ".yml")
FSM_SUFFIXES = (".fsm", ".att")
EXPRESSION = "regex:"


def read_semiautomaton(path: Path, field: str) -> Semiautomaton:
    """Read and check the file; every problem is one line that names the file and the key in it."""
    data = read_data(path, field)
    where = f"{field} ({path.name})"
    require(isinstance(data, dict), where, f"must be an object with the keys {', '.join(KEYS)}")
    for key in data:
        known = ALSO_CALLED.get(str(key))
        near = f" (did you mean {known!r}?)" if known else closest(str(key), KEYS)
        require(key in KEYS, where, f"unknown key {key!r}{near}; known: {', '.join(KEYS)}")
    rows, name = data.get("transitions"), data.get("name", path.stem)
    entries = rows if isinstance(rows, list) else rows.values() if isinstance(rows, dict) else [None]
    good = all(isinstance(row, list | dict) for row in entries)
    shape = "one row for each state, one column for each symbol; or an object of objects, by name"
    require(good, where, f"transitions must be a list of lists: {shape}")
    named = isinstance(name, str) and name != "" and not any(c.isspace() for c in name)
    require(named, where, f"name must be a word without spaces, got {name!r}")
    for key in ("states", "symbols", "accepting"):
        require(isinstance(data.get(key, []), list), where, f"{key} must be a list of names")
    good = isinstance(data.get("outputs", []), list | dict)
    require(good, where, "outputs must name the output of each state, as a list or as an object")
    try:
        return task_of({**data, "name": name})
    except BadInput as error:
        raise BadInput(where, str(error)) from None


def task_of(data: Mapping[str, Any]) -> Semiautomaton:
    """The task that an object with the keys of a task file describes."""
    from internalize.tasks.semiautomaton import semiautomaton

    names = data.get("states"), data.get("symbols")
    initial = data.get("initial_state", 0)
    return semiautomaton(
        data["name"], data["transitions"], *names, initial, data.get("outputs"), data.get("accepting")
    )


def data_of(task: Semiautomaton) -> dict[str, Any]:
    """The other way round: the keys and values of a file that describes the task."""
    inner = task.inner_states
    data: dict[str, Any] = {
        "name": task.name,
        "states": list(task.state_names[:inner]),
        "symbols": list(task.symbol_names),
        "transitions": task.transitions[:inner].tolist(),
        "initial_state": task.initial_state,
    }
    if task.outputs is not None:
        data["outputs"] = [task.state_names[said] for said in task.outputs[:inner].tolist()]
    return data


FAMILIES: dict[str, tuple[str, str]] = {
    "C": ("counter: the sum of the symbols modulo n", "counter"),
    "S": ("permutations of n places: identity, two swaps, shift; S4:adjacent, S4:all, S4:(1 2),(1 2 3 4)",
          "symmetric"),
    "A": ("even permutations of n places; other symbols as for S", "alternating"),
    "D": ("symmetries of a regular n-gon: identity, turn, mirror", "dihedral"),
    "flipflop": ("a memory of n values: keep, or write one", "flip_flop"),
}  # fmt: skip
"""name → (what it is, the function in `groups` that makes it from n)."""

_FORM = re.compile(r"(?P<family>flipflop|[CSAD])_?(?P<n>-?[0-9]{1,18})?(?::(?P<generators>.+))?")


def parse_task(text: str, field: str = "task", copies: Copies | None = None) -> Semiautomaton:
    """The task that the text names: see `find_task`. Without copies the user has named it: it is trusted."""
    if copies is not None:
        return find_task(text, field, copies)[0]
    with own_files():
        return find_task(text, field, {})[0]


def find_task(text: str, field: str, copies: Copies) -> tuple[Semiautomaton, Source | None]:
    """A task, and the user's file behind it where there is one.

    Names: `C7`, `S3`, `A5`, `D4`, `Q8`, `flipflop2`, products such as `C2xC3`, `regex:(0|1)*11`, a `.json`,
    `.yaml` or `.fsm` file, `module:attribute` or `file.py:attribute` (a Semiautomaton, or a function that
    returns one).
    """
    from internalize.tasks.regular import from_expression, read_fsm
    from internalize.tasks.semiautomaton import direct_product

    if text.startswith(EXPRESSION):
        return from_expression(text.removeprefix(EXPRESSION), field), None
    if text.lower().endswith(FSM_SUFFIXES):
        path = copies.get(text, Path(text))
        return read_fsm(path, field), Source(text, path)
    if text.lower().endswith(SUFFIXES):
        path = copies.get(text, Path(text))
        return read_semiautomaton(path, field), Source(text, path)
    if is_object_name(text) and not _FORM.fullmatch(text):
        made, source = load_object(text, field, copies)
        return _users_task(made, text, field), source
    if ":" in text:
        return _single(text, field), None
    parts = re.split(r"[x×]", text)
    if "" in parts:
        parts = [text]  # no product: refused by the whole of it
    return reduce(direct_product, (_single(part, field) for part in parts)), None


def _users_task(made: object, text: str, field: str) -> Semiautomaton:
    """The user's object, or what the user's function returns, checked like a file."""
    from internalize.tasks.semiautomaton import Semiautomaton

    try:
        task = made() if callable(made) else made
        if not isinstance(task, Semiautomaton):
            raise BadInput(field, f"{text} is not a Semiautomaton but {task!r}")
        return task_of(data_of(task))
    except BadInput as error:
        raise BadInput(field, error.message if error.field == field else f"{text}: {error}") from None
    except Exception as error:  # a user's function may fail in any way
        raise BadInput(field, f"{text} failed: {type(error).__name__}: {error}") from error


def _single(text: str, field: str) -> Semiautomaton:
    from internalize.tasks import groups

    if text == "Q8":
        return groups.quaternion()
    form = _FORM.fullmatch(text)
    if form is None or (form["n"] is None and form["family"] != "flipflop"):
        names = ", ".join([*(f"{family}<n>" for family in FAMILIES), "Q8"])
        near = closest_file(Path(f"{text}.json")) or closest_file(Path(text))
        known = (
            f"{names}, products like C2xC3, regex:(0|1)*11, a .json, .yaml or .fsm file, or module:attribute"
        )
        raise BadInput(field, f"unknown task {text!r}{near}; known: {known}")
    n = int(form["n"] or 2)
    if form["generators"] is None:
        made: Semiautomaton = getattr(groups, FAMILIES[form["family"]][1])(n)
        return made
    makers = {"S": groups.symmetric, "A": groups.alternating}
    require(form["family"] in makers, field, f"only S and A take generators, got {text!r}")
    return makers[form["family"]](n, form["generators"])


LARGEST_SHOWN = 40
UNBOUNDED = 100_000
"""Columns of a terminal on which every table fits."""


@dataclass(frozen=True)
class TasksArguments:
    """List the tasks there are, or show the transitions of one."""

    task: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")] = None
    """A task's name, a .json, .yaml or .fsm file, or module:attribute."""
    draw: bool = False
    """Write the task's state diagram as PNG and SVG."""
    out: Path = Path()
    """Folder for the drawing."""
    json: bool = False
    """Print the task as JSON, in the form that a task file has."""


def tasks_command(arguments: TasksArguments) -> None:
    if arguments.task is None:
        require(not arguments.draw and not arguments.json, "task", "say which task, for example C5")
        _print_families()
        return
    task = parse_task(arguments.task)
    if arguments.draw:
        require_writable(arguments.out)
    if arguments.json:
        print(json.dumps(data_of(task)))
    elif not arguments.draw:
        _print_task(task)
    if arguments.draw:
        _draw(task, arguments.out)


def _print_families() -> None:
    rows = [[f"{family}<n>", what] for family, (what, _) in FAMILIES.items()]
    rows += [
        ["Q8", "quaternions: multiplication by 1, i, j, k"],
        ["C2xC3", "direct product: both run side by side, on pairs of symbols"],
        [
            "file.json, file.yaml",
            'your own: {"transitions": [[0, 1], [1, 0]]}, one row for each state, one column for each symbol; '
            'or by name, {"transitions": {"even": {"0": "even", "1": "odd"}, …}, "accepting": ["even"]}',
        ],
        ["file.fsm", "your own: a DFA in AT&T's text format, lines such as `from to symbol` and `accepting`"],
        ["regex:(0|1)*11", "does the whole input match the regular expression? yes or no"],
        [
            "module:attribute",
            "your own: a Semiautomaton, or a function that returns one; also file.py:attribute",
        ],
    ]
    table = results_table("Tasks", ["name", "what it computes"], rows)
    table.columns[1].justify = "left"
    PlainConsole().print(table)


def _print_task(task: Semiautomaton) -> None:
    console = PlainConsole()
    inner = task.inner_states
    console.print(
        f"[bold]{escape(task.name)}[/bold]: {inner} states, {task.symbols} symbols, "
        f"starts in {escape(task.state_names[task.initial_state])}"
    )
    if max(inner, task.symbols) > LARGEST_SHOWN:
        console.print("too many to print; --json prints all of them")
        return
    names = [escape(name) for name in task.state_names]  # a user's name may look like markup
    rows = [[names[q], *(names[t] for t in row)] for q, row in enumerate(task.transitions[:inner].tolist())]
    columns = ["state \\ symbol", *map(escape, task.symbol_names)]
    if task.outputs is not None:
        columns.append("answers")
        for row, said in zip(rows, task.outputs.tolist(), strict=False):
            row.append(names[said])
    table = results_table("", columns, rows)
    if console.measure(table, options=console.options.update(width=UNBOUNDED)).maximum <= console.width:
        console.print(table)
        return
    symbols = task.symbols + 1  # the first column names the state
    console.print(f"for each state, where the symbols lead, in this order: {' '.join(columns[1:symbols])}")
    for row in rows:
        answer = f" (answers {row[-1]})" if len(row) > symbols else ""
        console.print(f"  {row[0]}: {' '.join(row[1:symbols])}{answer}", soft_wrap=True)


def _draw(task: Semiautomaton, out: Path) -> None:
    from internalize.display.plots import save
    from internalize.tasks.diagram import draw_diagram

    figure = draw_diagram(task)
    make_folder(out)
    name = "".join(c if c.isalnum() else "_" for c in task.name)
    for path in save(figure, out / f"{name}-diagram"):
        print(path)
