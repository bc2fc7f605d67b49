"""The one parser that turns names into families of problems."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from internalize.errors import BadInput, closest, require
from internalize.tasks.inputs import parse_inputs
from internalize.tasks.names import parse_task
from internalize.tasks.semiautomaton import Semiautomaton
from internalize.tasks.text.arithmetic import Addition, Expressions, Multiplication
from internalize.tasks.text.problem import Problem, Problems

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


def find_problems(text: str, field: str = "problem") -> Problems:
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
        need = 2 * (hops + 1)
        require(nodes >= need, field, f"two paths of {hops} hops need at least {need} nodes, got {text!r}")
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


@dataclass(frozen=True)
class AutomatonProblems:
    """σ_1 … σ_T asked, q_1 … q_{T-1} as steps, q_T answered; `x1` is a symbol and `q1` a state."""

    label: str
    task: Semiautomaton
    horizon: int
    inputs: str = "uniform"

    @property
    def name(self) -> str:
        return f"semiautomaton:{self.label}:{self.horizon}"

    def draw(self, source: random.Random) -> Problem:
        import torch

        probabilities = parse_inputs(self.inputs, self.task.symbols).probabilities
        drawn = source.choices(range(self.task.symbols), probabilities, k=self.horizon)
        states = self.task.trace(torch.tensor(drawn))[1:].tolist()
        names = [f"q{self.task.state_names[state]}" for state in states]
        return Problem(" ".join(f"x{self.task.symbol_names[s]}" for s in drawn), tuple(names[:-1]), names[-1])

    def solve(self, question: str) -> str:
        """Symbol by symbol, on the table itself."""
        state = self.task.initial_state
        for word in question.split():
            state = int(self.task.transitions[state, self.task.symbol_names.index(word[1:])])
        if self.task.outputs is not None:
            state = int(self.task.outputs[state])
        return f"q{self.task.state_names[state]}"

    def key(self, question: str) -> str:
        return question

    def companions(self) -> Mapping[str, Problems]:
        return {"binomial": replace(self, inputs="binomial:0.8")} if self.task.symbols > 1 else {}


@dataclass(frozen=True)
class Reachability:
    """Edges in any order, a start and two nodes, of which one can be reached, over exactly `hops` edges.

    `n1 > n4 , n4 > n2 , … : n1 ? n2 n7` is answered `n2`; a step says the node that a hop leads to.

    There are two paths, drawn alike, and each candidate ends one of them. Which path is meant is drawn last:
    nothing but the start tells the candidates apart, and both have one edge in and none out.
    """

    nodes: int = 10
    hops: int = 3

    @property
    def name(self) -> str:
        return f"reachability:{self.nodes}:{self.hops}"

    def draw(self, source: random.Random) -> Problem:
        names = [f"n{i}" for i in range(self.nodes)]
        source.shuffle(names)
        long = self.hops + 1
        paths, spare = [names[:long], names[long : 2 * long]], names[2 * long :]
        listed = [edge for path in paths for edge in pairwise(path)]
        hosts = [node for path in paths for node in path[:-1]]  # the candidates stay as they are
        for node in spare:  # one edge each, to or from what is there: it never joins the two paths
            edge = (source.choice(hosts), node)
            listed.append(edge if source.random() < 0.5 else edge[::-1])
            hosts.append(node)
        source.shuffle(listed)
        path = source.choice(paths)
        asked = [both[-1] for both in paths]
        source.shuffle(asked)
        question = f"{' , '.join(f'{a} > {b}' for a, b in listed)} : {path[0]} ? {' '.join(asked)}"
        return Problem(question, tuple(path[1:]), path[-1])

    def solve(self, question: str) -> str:
        graph, _, asked = question.partition(" : ")
        start, _, candidates = asked.partition(" ? ")
        edges = [tuple(edge.split(" > ")) for edge in graph.split(" , ")]
        reached = {start}
        while True:
            more = {b for a, b in edges if a in reached} - reached
            if not more:
                (found,) = (node for node in candidates.split() if node in reached)
                return found
            reached |= more

    def key(self, question: str) -> str:
        graph, _, asked = question.partition(" : ")
        start, _, candidates = asked.partition(" ? ")
        return f"{sorted(graph.split(' , '))} {start} {sorted(candidates.split())}"

    def companions(self) -> Mapping[str, Problems]:
        """As many hops more as the nodes allow, so that no name is new."""
        more = min(self.hops + 2, self.nodes // 2 - 1)
        return {"hops": replace(self, hops=more)} if more > self.hops else {}
