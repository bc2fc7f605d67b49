"""Small directed graphs: which of two nodes can be reached, and over which hops?"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from internalize.tasks.text.problem import Problem, Problems

SPARE = 3
"""Nodes that a graph needs beside those of the path: the other candidate and two more."""


@dataclass(frozen=True)
class Reachability:
    """Edges in any order, a start and two nodes, of which one can be reached, over exactly `hops` edges.

    `n1 > n4 , n4 > n2 , … : n1 ? n2 n7` is answered `n2`; a step says the node that a hop leads to.
    """

    nodes: int = 10
    hops: int = 3

    @property
    def name(self) -> str:
        return f"reachability:{self.nodes}:{self.hops}"

    def draw(self, source: random.Random) -> Problem:
        names = [f"n{i}" for i in range(self.nodes)]
        source.shuffle(names)
        path, others = names[: self.hops + 1], names[self.hops + 1 :]
        split = source.randint(1, len(others) - 1)
        dead_ends, apart = others[:split], others[split:]
        edges = {*pairwise(path)}
        # a dead end hangs on the path but not on its last node; what is apart leads to anywhere from outside
        edges |= {(source.choice(path[:-1]), node) for node in dead_ends}
        for i, node in enumerate(apart):
            edges.add((node, source.choice([*path, *dead_ends, *apart[:i]])))
        wrong = source.choice(apart)
        listed = sorted(edges)
        source.shuffle(listed)
        asked = [path[-1], wrong]
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
        more = min(self.hops + 2, self.nodes - SPARE)
        return {"hops": replace(self, hops=more)} if more > self.hops else {}
