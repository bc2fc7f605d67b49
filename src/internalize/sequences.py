"""From traces to token sequences (σ_1 … σ_T, q_0, [hint], q_{j_1} … q_{j_K}, EOS) and back.

Token ids are input symbols, states, EOS and, where prompts tell how long the answer is, LEN_2 … LEN_{T+1} or
PAUSE; all disjoint. The hint is LEN_L, or one PAUSE for each state that is not shown. Every sequence of a batch
shows the same states, so the answer is the same slice in all of them and nothing here loops over a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from internalize.curricula.curriculum import Curriculum, Shown
from internalize.tasks.semiautomaton import Semiautomaton

if TYPE_CHECKING:
    from jaxtyping import Bool, Int


@dataclass(frozen=True)
class Vocabulary:
    """Symbol s has id s, state q follows the symbols, then EOS, then the length tokens or the pause."""

    symbol_names: tuple[str, ...]
    state_names: tuple[str, ...]
    longest_answer: int | None = None
    """The largest L of the tokens LEN_2 … LEN_L; None where prompts carry no length."""
    pauses: bool = False
    """Whether there is a token PAUSE instead."""

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
    def pause(self) -> int:
        """The id of PAUSE."""
        if not self.pauses:
            raise ValueError("there is no token PAUSE")
        return self.eos + 1

    @property
    def size(self) -> int:
        return self.eos + (1 + self.pauses if self.longest_answer is None else self.longest_answer)

    def tokens(self) -> tuple[str, ...]:
        """Readable names, one for each id."""
        lengths = () if self.longest_answer is None else range(2, self.longest_answer + 1)
        return (
            *(f"x:{name}" for name in self.symbol_names),
            *(f"q:{name}" for name in self.state_names),
            "EOS",
            *(f"LEN_{length}" for length in lengths),
            *(["PAUSE"] if self.pauses else []),
        )


def vocabulary_of(
    task: Semiautomaton, horizon: int, length_hint: bool = False, pauses: bool = False
) -> Vocabulary:
    return Vocabulary(task.symbol_names, task.state_names, horizon + 1 if length_hint else None, pauses)


@dataclass(frozen=True)
class Answers:
    """What generated answers say."""

    final_state: Int[Tensor, " batch"]
    """(batch,) the state right before EOS; -1 where there is none or no EOS came."""
    length: Int[Tensor, " batch"]
    """(batch,) tokens written, EOS included (all of them where no EOS came)."""
    ended: Bool[Tensor, " batch"]
    """(batch,) whether EOS came."""


@dataclass(frozen=True)
class Renderer:
    """The language of one experiment: vocabulary, horizon and whether prompts tell the answer's length."""

    vocabulary: Vocabulary
    horizon: int
    initial_state: int

    @property
    def length_hint(self) -> bool:
        """Whether prompts end in a token LEN_L."""
        return self.vocabulary.longest_answer is not None

    @property
    def tells_length(self) -> bool:
        """Whether prompts tell how long the answer is, by LEN_L or by pauses."""
        return self.length_hint or self.vocabulary.pauses

    def hint(self, answer_length: int | None) -> tuple[int, ...]:
        """The tokens between q_0 and an answer of so many tokens, EOS included."""
        if not self.tells_length:
            return ()
        if answer_length is None:
            raise ValueError("this language needs the answer's length in the prompt")
        if self.length_hint:
            return (self.vocabulary.length_token(answer_length),)
        return (self.vocabulary.pause,) * (self.horizon + 1 - answer_length)

    def hint_names(self, answer_length: int) -> list[str]:
        """The same for people: LEN, or a dot for each pause."""
        return ["LEN" if self.length_hint else "·"] * len(self.hint(answer_length))

    def prompt_length(self, answer_length: int | None = None) -> int:
        """Where an answer of so many tokens begins, on which alone the loss is taken.

        answer_length: needed where there are pauses.
        """
        if not self.vocabulary.pauses:
            return self.horizon + 1 + self.length_hint
        return self.horizon + 1 + len(self.hint(answer_length))

    def generation_limit(self, answer_length: int | None = None) -> int:
        """Tokens after which an answer without EOS counts as wrong: the longest right one and one more."""
        if not self.vocabulary.pauses or answer_length is None:
            return self.horizon + 2
        return answer_length + 1

    @property
    def context(self) -> int:
        """Positions the model needs: all it reads while it writes as much as it may."""
        longest = self.horizon + 1
        return self.prompt_length(longest) + self.generation_limit(longest) - 1

    def places(self, states: int) -> Int[Tensor, " context"]:
        """(context,) positions for an answer of so many states, counted from the end of the full chain.

        q_T stands at 2T whatever is not shown; q_0 and the answer move up against it, the symbols stay.
        """
        first = self.prompt_length() - 1  # of q_0
        places = torch.arange(self.context)
        places[first:] += self.horizon - states
        return places.clamp(max=self.context - 1)  # of answers that are too long

    def prompt(
        self, symbols: Int[Tensor, "batch {self.horizon}"], answer_length: int | None = None
    ) -> Int[Tensor, "batch {self.prompt_length(answer_length)}"]:
        """(batch, T) symbols to (batch, prompt_length) tokens; answer_length: where prompts tell it."""
        ends = [self.vocabulary.first_state + self.initial_state, *self.hint(answer_length)]
        tail = torch.tensor(ends, device=symbols.device).expand(symbols.shape[0], -1)
        return torch.cat([symbols, tail], dim=1)

    def answer(
        self, states: Int[Tensor, "batch {self.horizon}+1"], shown: Shown
    ) -> Int[Tensor, "batch {len(shown)}+1"]:
        """(batch, T+1) states q_0 … q_T to (batch, K+1) tokens: the shown states and EOS."""
        index = torch.tensor(shown, device=states.device)
        tokens = states.index_select(1, index) + self.vocabulary.first_state
        eos = tokens.new_full((tokens.shape[0], 1), self.vocabulary.eos)
        return torch.cat([tokens, eos], dim=1)

    def sequence(
        self,
        symbols: Int[Tensor, "batch {self.horizon}"],
        states: Int[Tensor, "batch {self.horizon}+1"],
        shown: Shown,
    ) -> Int[Tensor, "batch {self.prompt_length(len(shown)+1)}+{len(shown)}+1"]:
        """Prompt and answer: (batch, prompt_length + K + 1) tokens."""
        return torch.cat([self.prompt(symbols, len(shown) + 1), self.answer(states, shown)], dim=1)

    def read(self, generated: Int[Tensor, "batch written"]) -> Answers:
        """(batch, G) tokens written after the prompt; whatever follows the first EOS is ignored."""
        is_eos = generated == self.vocabulary.eos
        ended = is_eos.any(dim=1)
        first_eos = torch.where(ended, is_eos.int().argmax(dim=1), generated.shape[1])
        before = generated.gather(1, (first_eos - 1).clamp(0, generated.shape[1] - 1)[:, None])[:, 0]
        state = before - self.vocabulary.first_state
        valid = ended & (first_eos > 0) & (state >= 0) & (state < len(self.vocabulary.state_names))
        length = torch.where(ended, first_eos + 1, generated.shape[1])
        return Answers(torch.where(valid, state, -1), length, ended)

    def text(self, tokens: Int[Tensor, "batch length"]) -> list[str]:
        """Readable sequences, one for each row of tokens, up to and with EOS."""
        names = self.vocabulary.tokens()
        rows = []
        for row in tokens.tolist():
            end = row.index(self.vocabulary.eos) + 1 if self.vocabulary.eos in row else len(row)
            rows.append(" ".join(names[token] for token in row[:end]))
        return rows


def language_of(task: Semiautomaton, curriculum: Curriculum, initial_state: int) -> Renderer:
    """The language in which this curriculum teaches this task."""
    words = vocabulary_of(task, curriculum.horizon, curriculum.length_hint, curriculum.pauses)
    return Renderer(words, curriculum.horizon, initial_state)
