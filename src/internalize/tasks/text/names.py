"""The one parser that turns names into families of problems."""

from __future__ import annotations

import re

from internalize.errors import BadInput, closest, require
from internalize.tasks.names import parse_task
from internalize.tasks.text.arithmetic import Addition, Expressions, Multiplication
from internalize.tasks.text.automata import AutomatonProblems
from internalize.tasks.text.problem import Problems
from internalize.tasks.text.reachability import SPARE, Reachability

PROBLEMS = {
    "multiplication:4x4": "digits reversed, partial products as steps, as Internalize_CoT publishes them",
    "addition:N": "two numbers of N digits, reversed; a step is a digit and what is carried",
    "expressions:mod11:K": "K operators in brackets, modulo 11; a step is one operation",
    "reachability:NODES:HOPS": "a small directed graph; a step is one hop (10 nodes and 3 hops if not given)",
    "semiautomaton:C3:T": "T symbols of any task of this package; a step is a state",
}
"""name → what it is."""
MOST = 100
"""Digits, operators, nodes or symbols of a problem."""


def find_problems(text: str, field: str = "name") -> Problems:
    """The problems of that name, refused with what would be right."""
    family, _, rest = text.partition(":")
    if family == "multiplication":
        left, right = _numbers(r"(\d+)x(\d+)", rest, text, "multiplication:4x4", field)
        return Multiplication(left, right)
    if family == "addition":
        (places,) = _numbers(r"(\d+)", rest, text, "addition:8", field)
        return Addition(places)
    if family == "expressions":
        modulus, operators = _numbers(r"mod(\d+):(\d+)", rest, text, "expressions:mod11:6", field)
        require(modulus >= 2, field, f"a modulus is at least 2, got {text!r}")
        return Expressions(modulus, operators)
    if family == "reachability":
        nodes, hops = _numbers(r"(\d+):(\d+)", rest or "10:3", text, "reachability:10:3", field)
        need = hops + SPARE
        require(nodes >= need, field, f"{hops} hops need at least {need} nodes, got {text!r}")
        return Reachability(nodes, hops)
    if family == "semiautomaton":
        task, _, horizon = rest.rpartition(":")
        (length,) = _numbers(r"(\d+)", horizon, text, "semiautomaton:C3:8", field)
        require(bool(task), field, f"must have the form semiautomaton:C3:8, got {text!r}")
        return AutomatonProblems(task, parse_task(task, field), length)
    families = [name.partition(":")[0] for name in PROBLEMS]
    near = closest(family, families)
    raise BadInput(field, f"unknown problems {text!r}{near}; known: {', '.join(PROBLEMS)}")


def _numbers(form: str, rest: str, text: str, example: str, field: str) -> list[int]:
    found = re.fullmatch(form, rest)
    if found is None:
        raise BadInput(field, f"must have the form {example}, got {text!r}")
    numbers = [int(part) for part in found.groups()]
    good = all(1 <= number <= MOST for number in numbers)
    require(good, field, f"numbers lie in 1…{MOST}, got {text!r}")
    return numbers
