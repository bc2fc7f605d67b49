"""The words of a command line as a frozen dataclass, by way of tyro."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import re
import shutil
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from internalize.errors import BadInput, closest

_OPTIONAL = r"Error parsing (\S+): no type matching \{None\}\|%s could .* from \[(.*?)\].*"
PLAIN_WORDS = {
    r"Error parsing (\S+): invalid literal for int\(\) with base 10: ": r"\1: must be a whole number, got ",
    r"Error parsing (\S+): could not convert string to float: ": r"\1: must be a number, got ",
    _OPTIONAL % "INT": r"\1: must be a whole number, got \2",
    _OPTIONAL % "FLOAT": r"\1: must be a number, got \2",
    r"Error parsing (\S+): Could not parse arguments \[(.*)\] into .*float\]": r"\1: must be numbers, got \2",
    r"Missing value for argument '(\S+)'. Expected 1 values.": r"\1: a value must follow",
    r"Missing value for argument '(\S+)'. Expected (\d+) values.": r"\1: \2 values must follow",
    r"Missing from internalize [^:]*: (\S+) (?:[A-Z]{2,} )?(.*) \(required\)": r"\1 is missing: \2",
    r"Unrecognized options: ": r"unknown: ",
}
"""What tyro says, as a pattern → what we say."""
INDENT = "  "
"""Of a command's description: as far as the frames below it."""
CHOICE = re.compile(
    r"invalid choice '(?P<word>.*)' for argument '(?P<flag>\S+)'. Expected one of \((?P<known>.*)\)\."
)


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
                description=_filled(inspect.getdoc(arguments) or ""),
                return_unknown_args=keeps_rest,
                default=tyro.MISSING_NONPROP if default is None else default,
                registry=_in_words(_hidden(arguments)),
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        message = _one_line(complaint.getvalue(), arguments)
        raise BadInput(program.removeprefix("internalize "), message) from None
    if not keeps_rest:
        return parsed
    return dataclasses.replace(parsed[0], rest=tuple(parsed[1]))


VALUES = {int: "INT", float: "FLOAT", str: "STR", Path: "PATH", bool: "{True,False}"}
"""What help calls a value of this type."""


Hidden = Mapping[type[Any], Collection[str]]
"""Dataclass → its fields that are no options of a command."""


def _hidden(arguments: type[Any]) -> Hidden:
    """What a command never takes, though a config that it shares with others has it: its `HIDDEN`."""
    found: Hidden = getattr(arguments, "HIDDEN", {})
    return found


def _in_words(hidden: Hidden) -> Any:
    """What help says of an option beside its docstring: which value follows, and which one holds if none does.

    tyro says `{None}|INT … (default: None)` of a number that may be left out: we say `INT`, and nothing more.
    """
    import tyro

    registry = tyro.constructors.ConstructorRegistry()
    asked: list[Any] = []  # for which dataclass tyro's own rules are being asked by ours

    @registry.struct_rule
    def described(info: Any) -> Any:
        if not dataclasses.is_dataclass(info.type) or info in asked:
            return None
        asked.append(info)
        try:
            spec = registry.get_struct_spec(info)
        finally:
            asked.pop()
        if not isinstance(spec, tyro.constructors.StructConstructorSpec):
            return spec
        shown_type: Any = info.type
        left_out = hidden.get(shown_type, ())
        fields = tuple(_described_field(field, field.name in left_out) for field in spec.fields)
        return dataclasses.replace(spec, fields=fields)

    return registry


def _described_field(field: Any, hidden: bool) -> Any:
    import tyro

    marks = getattr(field.type, "__metadata__", ())
    plain = get_args(field.type)[0] if marks else field.type
    if dataclasses.is_dataclass(plain):
        return field
    given = next((called for mark in marks if (called := getattr(mark, "metavar", None))), None)
    shown = tyro.conf.arg(metavar=given or _value(plain), help_behavior_hint=_if_not_given)

    def one_paragraph() -> str | None:
        """As wide as the terminal, however wide the lines are in the source."""
        text = field.helptext() if callable(field.helptext) else field.helptext
        return None if text is None else " ".join(text.split())

    marked = Annotated[field.type, shown, tyro.conf.Suppress] if hidden else Annotated[field.type, shown]
    return dataclasses.replace(field, type=marked, helptext=one_paragraph)


def _value(plain: Any) -> str | None:
    """What follows an option that may be left out, in a word; None: tyro's own word is good."""
    parts = [part for part in get_args(plain) if part is not NoneType]
    if get_origin(plain) not in (Union, UnionType) or len(parts) != 1:
        return None
    if get_origin(parts[0]) is Literal:
        return "{" + ",".join(map(str, get_args(parts[0]))) + "}"
    if get_origin(parts[0]) is tuple and get_args(parts[0])[-1:] == (...,):
        return f"{VALUES.get(get_args(parts[0])[0], 'VALUE')} ..."
    return VALUES.get(parts[0])


def _if_not_given(default: str) -> str:
    """The value that holds if an option is not given; nothing where the docstring says what happens then."""
    said = {"None": "", "": "", "''": "", "True": "(default: on)", "False": "(default: off)"}
    if default.endswith("000000.0"):  # 10000000000000.0 is 1e+13
        default = f"{float(default):g}"
    return said.get(default, f"(default: {default})").replace("\n", "\\n")


def _filled(text: str) -> str:
    """Paragraphs no wider than the terminal; tyro leaves indented lines as they are, and joins all others."""
    columns = max(40, shutil.get_terminal_size().columns) - len(INDENT)
    # a file's name is not broken at its hyphens: somebody will copy it
    paragraphs = (textwrap.fill(part, columns, break_on_hyphens=False) for part in text.split("\n\n"))
    return textwrap.indent("\n".join(paragraphs), INDENT)


def _one_line(box: str, arguments: type[Any]) -> str:
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
            flags = [_nearest_flag(message, line) for line in part[1:] if line.startswith("--")]
            message += f" (did you mean {' or '.join(flags)}?)" if flags else ""
    for words, plain in PLAIN_WORDS.items():
        message = re.sub(words, plain, message)
    if message.startswith("unknown: --out") and {"run", "runs"} & {
        f.name for f in dataclasses.fields(arguments)
    }:
        message += " (name runs elsewhere by their path, such as FOLDER/RUN, or set INTERNALIZE_RUNS)"
    elif (word := re.fullmatch(r"unknown: ([^-\s]\S*)", message)) and (flags := _taking(arguments, word[1])):
        message += f" (did you mean {' or '.join(f'{flag} {word[1]}' for flag in flags)}?)"
    message = CHOICE.sub(lambda found: _wrong_choice(found, arguments), message)
    return message or "the arguments cannot be read; see --help"


def _nearest_flag(message: str, line: str) -> str:
    """Of the flags on a suggested line, --reset and --no-reset, the one most like the first in the message."""
    import difflib

    flag = re.compile(r"--[\w.-]+")
    wanted = flag.search(message)
    return difflib.get_close_matches(wanted[0] if wanted else "", flag.findall(line), n=1, cutoff=0)[0]


def _wrong_choice(found: re.Match[str], arguments: type[Any]) -> str:
    """The choices as their `Literal` has them: where None is possible too, tyro says them in no order."""
    known = set(re.findall(r"'([^']*)'", found["known"])) - {"None"}
    ordered = next((choices for choices in _literals(arguments) if set(choices) == known), sorted(known))
    near = closest(found["word"], list(ordered))
    return f"{found['flag']}: must be one of {', '.join(map(repr, ordered))}, got {found['word']!r}{near}"


def _literals(annotation: Any) -> Iterator[tuple[str, ...]]:
    """The choices of every `Literal` of texts in a type, and in the fields of a dataclass."""
    if dataclasses.is_dataclass(annotation):
        for hint in get_type_hints(annotation).values():
            yield from _literals(hint)
    elif get_origin(annotation) is Literal:
        yield get_args(annotation)
    else:
        for part in get_args(annotation):
            yield from _literals(part)


def value_in(words: Sequence[str], option: str) -> str | None:
    """What the words give for an option, before they are parsed: the last of `--option X` and `--option=X`."""
    found = None
    for index, word in enumerate(words):
        if word == option:
            found = words[index + 1] if index + 1 < len(words) else ""
        elif word.startswith(f"{option}="):
            found = word.removeprefix(f"{option}=")
    return found


def _taking(arguments: type[Any], word: str) -> list[str]:
    """The options among whose values the word is."""
    return [option for option, values in options_of(arguments).items() if word in (values or ())]


def options_of(arguments: type[Any]) -> dict[str, tuple[str, ...] | None]:
    """The options of a command, as shells complete them: each with the values to choose from.

    None: a switch, which no value follows. Empty: a value of one's own follows.
    """
    return {"--help": None, **_options_below(arguments, "", _hidden(arguments))}


def _options_below(arguments: type[Any], prefix: str, hidden: Hidden) -> dict[str, tuple[str, ...] | None]:
    found: dict[str, tuple[str, ...] | None] = {}
    for plain, given in _fields(arguments):
        if given in hidden.get(arguments, ()):
            continue
        name = f"{prefix}{given.replace('_', '-')}"
        if dataclasses.is_dataclass(plain):
            found |= _options_below(plain, f"{name}." if given else prefix, hidden)  # type: ignore[arg-type]
        elif plain is bool:
            start, dot, last = name.rpartition(".")
            found |= {f"--{name}": None, f"--{start}{dot}no-{last}": None}
        else:
            found[f"--{name}"] = next(_literals(plain), ())
    return found


def positional_of(arguments: type[Any]) -> tuple[str, tuple[str, ...]]:
    """What the first word is called that belongs to no option, and what there is to choose from."""
    import tyro

    hints = get_type_hints(arguments, include_extras=True)
    for hint in hints.values():
        marks = getattr(hint, "__metadata__", ())
        if tyro.conf.Positional in marks:
            called = next((m for mark in marks if (m := getattr(mark, "metavar", None))), "")
            return called, next(_literals(get_args(hint)[0]), ())
    return "", ()


def _fields(arguments: type[Any]) -> Iterator[tuple[Any, str]]:
    """Of the fields that are options: its type without marks, and its name on the command line."""
    import tyro

    hints = get_type_hints(arguments, include_extras=True)
    for field in dataclasses.fields(arguments):
        marks = getattr(hints[field.name], "__metadata__", ())
        if any(mark in (tyro.conf.Positional, tyro.conf.Suppress) for mark in marks):
            continue
        plain = get_args(hints[field.name])[0] if marks else hints[field.name]
        given = next((n for mark in marks if (n := getattr(mark, "name", None)) is not None), field.name)
        yield plain, given
