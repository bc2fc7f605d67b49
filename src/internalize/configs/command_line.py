"""The words of a command line as a frozen dataclass, by way of tyro."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
from typing import Any

from internalize.errors import BadInput

_OPTIONAL = r"Error parsing (\S+): no type matching \{None\}\|%s could .* from \[(.*?)\].*"
PLAIN_WORDS = {
    r"Error parsing (\S+): invalid literal for int\(\) with base 10: ": r"\1: must be a whole number, got ",
    r"Error parsing (\S+): could not convert string to float: ": r"\1: must be a number, got ",
    _OPTIONAL % "INT": r"\1: must be a whole number, got \2",
    _OPTIONAL % "FLOAT": r"\1: must be a number, got \2",
    r"Error parsing (\S+): Could not parse arguments \[(.*)\] into .*float\]": r"\1: must be numbers, got \2",
    r"invalid choice (.*) for argument '(\S+)'. Expected one of \((.*?),?\).": r"\2: must be one of \3, got \1",
    r"Missing value for argument '(\S+)'. Expected (\d+) values.": r"\1: \2 value(s) must follow",
    r"Missing from internalize [^:]*: (\S+) (.*) \(required\)": r"\1 is missing: \2",
    r"Unrecognized options: ": r"unknown: ",
}
"""What tyro says, as a pattern → what we say."""


def parse(arguments: type[Any], words: list[str], program: str, default: Any = None) -> Any:
    """The dataclass from the words; whatever is wrong with them becomes one line.

    default: where the fields that no word names take their values from.
    A dataclass with a field `rest` gets the words that none of its other fields takes.
    """
    import tyro

    complaint = io.StringIO()
    keeps_rest = any(field.name == "rest" for field in dataclasses.fields(arguments))
    try:
        with contextlib.redirect_stderr(complaint):
            parsed: Any = tyro.cli(  # type: ignore[call-overload]
                arguments,
                args=words,
                prog=program,
                config=(tyro.conf.FlagCreatePairsOff,),
                return_unknown_args=keeps_rest,
                default=tyro.MISSING_NONPROP if default is None else default,
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise BadInput(program.removeprefix("internalize "), _one_line(complaint.getvalue())) from None
    if not keeps_rest:
        return parsed
    return dataclasses.replace(parsed[0], rest=tuple(parsed[1]))


def _one_line(box: str) -> str:
    """The first sentence of tyro's framed message, and its suggestion."""
    lines = [re.sub(r"^[│|]|[│|]$", "", line.strip()).strip() for line in box.splitlines()]
    parts: list[list[str]] = [[]]
    for line in lines:
        if line.startswith(("╭", "╰")):
            continue
        if line.startswith(("──", "--------")):
            parts.append([])
        elif line:
            parts[-1].append(line)
    if "╭" not in box:  # drawn without a frame, where the output is no UTF-8: the title comes first
        parts = parts[1:] or parts
    message = " ".join(parts[0])
    for part in parts[1:]:
        if part and part[0].startswith("Perhaps you meant"):
            flags = [line.split()[0] for line in part[1:] if line.startswith("--")]
            message += f" (did you mean {' or '.join(flags)}?)" if flags else ""
    for words, plain in PLAIN_WORDS.items():
        message = re.sub(words, plain, message)
    return message or "the arguments cannot be read; see --help"
