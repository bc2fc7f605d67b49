"""Any semiautomaton as text: the symbols are the question, the states the chain, the last state the answer."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from internalize.tasks.inputs import parse_inputs
from internalize.tasks.semiautomaton import Semiautomaton
from internalize.tasks.text.problem import Problem, Problems


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
        probabilities = parse_inputs(self.inputs, self.task.symbols).probabilities
        drawn = source.choices(range(self.task.symbols), probabilities, k=self.horizon)
        states = self.task.trace(torch.tensor(drawn))[1:].tolist()
        names = [f"q{self.task.state_names[state]}" for state in states]
        return Problem(" ".join(f"x{self.task.symbol_names[s]}" for s in drawn), tuple(names[:-1]), names[-1])

    def solve(self, question: str) -> str:
        """Symbol by symbol, on the table itself."""
        state = self.task.initial_state
        for word in question.split():
            state = int(self.task.table[state, self.task.symbol_names.index(word[1:])])
        return f"q{self.task.state_names[state]}"

    def key(self, question: str) -> str:
        return question

    def companions(self) -> Mapping[str, Problems]:
        return {"binomial": replace(self, inputs="binomial:0.8")} if self.task.symbols > 1 else {}
