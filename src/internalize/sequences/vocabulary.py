"""Token ids: input symbols, states, EOS and, for mixtures, LEN_2 … LEN_{T+1}; all disjoint."""

from __future__ import annotations

from dataclasses import dataclass

from internalize.tasks.semiautomaton import Semiautomaton


@dataclass(frozen=True)
class Vocabulary:
    """Symbol s has id s, state q follows the symbols, then EOS, then the length tokens."""

    symbol_names: tuple[str, ...]
    state_names: tuple[str, ...]
    longest_answer: int | None = None
    """The largest L of the tokens LEN_2 … LEN_L; None where prompts carry no length."""

    @property
    def first_state(self) -> int:
        return len(self.symbol_names)

    @property
    def eos(self) -> int:
        return self.first_state + len(self.state_names)

    def length_token(self, answer_length: int) -> int:
        """The id of LEN_L, L = number of answer tokens with EOS."""
        if self.longest_answer is None or not 2 <= answer_length <= self.longest_answer:
            raise ValueError(f"there is no token LEN_{answer_length}")
        return self.eos + answer_length - 1

    @property
    def size(self) -> int:
        return self.eos + 1 if self.longest_answer is None else self.eos + self.longest_answer

    def tokens(self) -> tuple[str, ...]:
        """Readable names, one per id."""
        lengths = () if self.longest_answer is None else range(2, self.longest_answer + 1)
        return (
            *(f"x:{name}" for name in self.symbol_names),
            *(f"q:{name}" for name in self.state_names),
            "EOS",
            *(f"LEN_{length}" for length in lengths),
        )


def vocabulary_of(task: Semiautomaton, horizon: int, length_hint: bool) -> Vocabulary:
    return Vocabulary(task.symbol_names, task.state_names, horizon + 1 if length_hint else None)
