"""`internalize tasks`: which semiautomata there are, and what one of them does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from internalize.configs.folders import make_folder, require_writable
from internalize.display.terminal import results_table
from internalize.errors import require
from internalize.tasks.names import FAMILIES, parse_task
from internalize.tasks.semiautomaton import Semiautomaton

LARGEST_SHOWN = 40


@dataclass(frozen=True)
class TasksArguments:
    """List the tasks there are, or show the transitions of one."""

    task: Annotated[str | None, tyro.conf.Positional] = None
    """A task's name, a .json or .yaml file, or module:attribute."""
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
        print(json.dumps(task_as_json(task)))
    elif not arguments.draw:
        _print_task(task)
    if arguments.draw:
        _draw(task, arguments.out)


def task_as_json(task: Semiautomaton) -> dict[str, object]:
    """The same form that `tasks/names.py` reads."""
    return {
        "name": task.name,
        "states": list(task.state_names),
        "symbols": list(task.symbol_names),
        "transitions": task.table.tolist(),
        "initial_state": task.initial_state,
    }


def _print_families() -> None:
    rows = [[f"{family}<n>", what] for family, (what, _) in FAMILIES.items()]
    rows += [
        ["Q8", "quaternions: multiplication by 1, i, j, k"],
        ["C2xC3", "direct product: both run side by side, on pairs of symbols"],
        [
            "file.json, file.yaml",
            'your own: {"transitions": [[0, 1], [1, 0]]}, one row for each state, one column for each symbol',
        ],
        [
            "module:attribute",
            "your own: a Semiautomaton, or a function that returns one; also file.py:attribute",
        ],
    ]
    table = results_table("Tasks", ["name", "what it computes"], rows)
    table.columns[1].justify = "left"
    Console(highlight=False).print(table)


def _print_task(task: Semiautomaton) -> None:
    console = Console(highlight=False)
    console.print(
        f"[bold]{escape(task.name)}[/bold]: {task.states} states, {task.symbols} symbols, "
        f"starts in {escape(task.state_names[task.initial_state])}"
    )
    if max(task.states, task.symbols) > LARGEST_SHOWN:
        console.print("too many to print; --json prints all of them")
        return
    names = [escape(name) for name in task.state_names]  # a user's name may look like markup
    rows = [[names[q], *(names[t] for t in row)] for q, row in enumerate(task.table.tolist())]
    console.print(results_table("", ["state \\ symbol", *map(escape, task.symbol_names)], rows))


def _draw(task: Semiautomaton, out: Path) -> None:
    from internalize.display.plots import save
    from internalize.tasks.diagram import draw_diagram

    figure = draw_diagram(task)
    make_folder(out)
    name = "".join(c if c.isalnum() else "_" for c in task.name)
    for path in save(figure, out / f"{name}-diagram"):
        print(path)
