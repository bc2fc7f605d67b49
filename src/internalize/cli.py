"""The command line: a table of command → function. Each room offers its own commands."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from internalize.errors import BadInput, closest


class Command(NamedTuple):
    """Where the dataclass of arguments and the function that takes it are, and what the command is for."""

    module: str
    arguments: str
    function: str
    purpose: str


COMMANDS: dict[str, Command] = {
    "demo": Command("internalize.analysis.demo", "DemoArguments", "demo_command",
                    "see the paper's main effect in minutes: out loud, at once, internalized"),
    "train": Command("internalize.experiments.commands", "TrainArguments", "train_command",
                     "train a transformer on a semiautomaton"),
    "resume": Command("internalize.experiments.commands", "ResumeArguments", "resume_command",
                      "go on with an interrupted run"),
    "evaluate": Command("internalize.analysis.commands", "EvaluateArguments", "evaluate_command",
                        "measure a finished run on fresh inputs of any distribution"),
    "show": Command("internalize.analysis.commands", "ShowArguments", "show_command",
                    "prompts, answers and truth side by side"),
    "tasks": Command("internalize.tasks.commands", "TasksArguments", "tasks_command",
                     "list the tasks, or show one of them"),
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except BadInput as error:
        print(f"internalize: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of a pipe has gone: nothing is wrong here
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if words[0] in ("-V", "--version"):
        from internalize.runs.provenance import package_version

        print(f"internalize {package_version()}")
        return 0
    name = words[0]
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        raise BadInput("command", f"unknown command {name!r}{closest(name, list(COMMANDS))}; known: {known}")
    command = COMMANDS[name]
    module = import_module(command.module)
    arguments = parse(getattr(module, command.arguments), words[1:], f"internalize {name}")
    function: Callable[[Any], int | None] = getattr(module, command.function)
    return _carry_out(function, arguments)


def _carry_out(function: Callable[[Any], int | None], arguments: Any) -> int:
    from internalize.experiments.interruption import Interrupted
    from internalize.experiments.loop import Diverged

    try:
        return function(arguments) or 0
    except Interrupted as stopped:
        print(f"internalize: {stopped}", file=sys.stderr)
        return stopped.exit_code
    except Diverged as problem:
        print(f"internalize: the run failed: {problem}", file=sys.stderr)
        return 1


def overview() -> str:
    """What `internalize --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.purpose}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: internalize COMMAND [OPTIONS]",
            "",
            "Learning through internalization: teach a network to reason out loud, take the words away, and",
            "measure what is left.",
            "",
            *lines,
            "",
            "internalize COMMAND --help lists a command's options.",
        ]
    )


def parse(arguments: type[Any], words: list[str], program: str) -> Any:
    """The dataclass from the words; whatever is wrong with them becomes one line."""
    import tyro

    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(arguments, args=words, prog=program, config=(tyro.conf.FlagCreatePairsOff,))
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise BadInput(program, _one_line(complaint.getvalue())) from None


def _one_line(box: str) -> str:
    """The first sentence of tyro's framed message, and its suggestion."""
    lines = [re.sub(r"^[│|]|[│|]$", "", line.strip()).strip() for line in box.splitlines()]
    parts: list[list[str]] = [[]]
    for line in lines:
        if line.startswith(("╭", "╰")):
            continue
        if line.startswith("──"):
            parts.append([])
        elif line:
            parts[-1].append(line)
    message = " ".join(parts[0])
    for part in parts[1:]:
        if part and part[0].startswith("Perhaps you meant"):
            flags = [line.split()[0] for line in part[1:] if line.startswith("--")]
            message += f" (did you mean {' or '.join(flags)}?)" if flags else ""
    message = re.sub(
        r"Error parsing (\S+): invalid literal for int\(\) with base 10: ",
        r"\1: must be a whole number, got ",
        message,
    )
    message = re.sub(
        r"Error parsing (\S+): could not convert string to float: ", r"\1: must be a number, got ", message
    )
    return message or "the arguments cannot be read; see --help"


if __name__ == "__main__":
    sys.exit(main())
