"""Absurd command lines: a command's good words with some of its fields set to what nobody should say.

The fields and their types are read from the commands' own dataclasses, so that a new field is attacked too.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from internalize.cli import COMMANDS
from internalize.configs.files import UNNAMED
from tests.hostile.laboratory import CHAIN, GOOD

STARTS_OTHERS = {"seeds", "workers", "tuning-seeds"}
"""Fields by which a command would start other processes, a matter of seconds each: only refused values here."""
ELSEWHERE = {"backend", "address", "tracker"}
"""Fields that lead to other machines or services."""
SAFE_PATHS = ["", ".", "..", "runs", "no/such", "turnstile.json", "turnstile.json/x", CHAIN, "-",
              "\x1b]0;x\x07",
              "a" * 300, "a/" * 3000, "\udcff", "ä ö", "/proc/nothing/x", "x\0y", "~", "$HOME",
              "*"]  # fmt: skip
"""Nothing outside of the laboratory can be written to by these: `..` is the test's own folder."""
# no millions: of samples, for example, these are an honest wish that takes its time
INTS = ["-1", "0", "1", "2", "3", "17", "1000000000", "2147483648", "9223372036854775807",
        "9223372036854775808", "-9223372036854775809", "1" + "0" * 30, "1" * 5000, "1e3", "", "x", "٣",
        "1_0", "nan",
        "0x10", " 1", "None", "-0", "1.0", "True"]  # fmt: skip
FLOATS = ["-1", "0", "0.5", "1", "1e-300", "1e-45", "1e308", "1e999", "inf", "-inf", "nan", "-0.0", "1e40",
          "", "x",
          "1,5", "None", "1_0", "9" * 400]  # fmt: skip
TEXTS = ["", " ", "x", "C2", "C0", "C-1", "C1000000000", "S20", "A9", "D100000", "C2xC3xC5xC7xC11xC13xC17",
         "x", "left",
         "mixture", "cot", "regex:((((", "regex:(a*)*b", "regex:" + "(" * 500 + "a" + ")" * 500, "regex:[",
         "regex:",
         "uniform", "binomial:nan", "binomial:2", "binomial:", "binomial:1e-300", "no.such:thing",
         "os:system", ":",
         "turnstile.json", "no.json", "x.py:y", "sweep.json", "files/doors.py:doors", "parity3.jsonl", "1,0,1",
         "1" * 2000, "\x1b[31mred", "a" * 300, "é", "\udcff", "💥", "\n", "--out", "%s", "{}",
         "[bold]x[/bold]", "/",
         CHAIN, f"{CHAIN}@1", f"{CHAIN}@99", f"{CHAIN}@-1", "runs@", "@", "..", ".", "go", "chess", "a100",
    "(", "[",
         "tic_tac_toe(", "multiplication:0x0", "multiplication:99999x99999", "addition:-1", "id_accuracy",
         "seed",
         "graph:1000000000", "automaton:C2:0", "model.width", "S4:(1 2)(", "S3:" + "(1 2)," * 500, "𝟚",
         "C٣"]  # fmt: skip


def fields_of(arguments: type[Any], before: str = "") -> Iterator[tuple[str, Any, bool]]:
    """The flags of a dataclass with their types, and whether one is a place without a flag."""
    hints = get_type_hints(arguments)
    marked = get_type_hints(arguments, include_extras=True)
    for field in dataclasses.fields(arguments):
        name = before if field.name in UNNAMED else f"{before}{field.name.replace('_', '-')}"
        if dataclasses.is_dataclass(hints[field.name]):
            inner = "" if field.name in UNNAMED else f"{name}."
            yield from fields_of(hints[field.name], inner)
        elif name not in ELSEWHERE and field.name != "rest":
            yield name, hints[field.name], "Positional" in str(marked[field.name])


def flags_of(command: str) -> list[tuple[str, Any]]:
    arguments = COMMANDS[command].expected()
    if command == "experiment":
        arguments, _ = arguments(["chain"])
    return [(name, kind) for name, kind, place in fields_of(arguments) if not place]


def values_of(name: str, kind: Any) -> st.SearchStrategy[list[str]]:
    """What may follow a flag: absurd and ordinary values of its type, and some of none."""
    if get_origin(kind) in (Union, types.UnionType):
        options = [part for part in get_args(kind) if part is not types.NoneType]
        return values_of(name, options[0])
    if get_origin(kind) is tuple:
        inner = values_of(name, get_args(kind)[0])
        return st.lists(inner, max_size=4).map(lambda lists: [word for words in lists for word in words])
    if get_origin(kind) is Literal:
        return st.sampled_from([*map(str, get_args(kind)), "", "x", "\x1b[31m"]).map(lambda word: [word])
    if kind is bool:
        return st.sampled_from([[], ["True"], ["maybe"]])
    if kind is int and name in STARTS_OTHERS:
        return st.sampled_from([["-1"], ["0"], ["x"], ["1000000000"], ["9223372036854775808"]])
    pool = {int: INTS, float: FLOATS, Path: SAFE_PATHS}.get(kind, TEXTS)
    return st.sampled_from(pool).map(lambda word: [word])


@st.composite
def absurd_words(draw: st.DrawFn, command: str) -> list[str]:
    """What is put behind a command's good words: some of its flags, mostly one, with values from the pools."""
    words: list[str] = []
    flags = flags_of(command)
    for name, kind in draw(st.lists(st.sampled_from(flags), min_size=1, max_size=3)) if flags else ():
        words += [f"--{name}", *draw(values_of(name, kind))]
    return words


@st.composite
def absurd_places(draw: st.DrawFn, command: str) -> list[str]:
    """In place of the good words: texts, numbers and paths where a command expects its runs and files."""
    pool = st.sampled_from([*TEXTS, *SAFE_PATHS, *INTS[:8], "--json", "--help", "--", "-", "--no-such"])
    return draw(st.lists(pool, max_size=3))


ATTACKED = sorted(GOOD)
