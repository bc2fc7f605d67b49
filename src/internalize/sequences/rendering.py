"""From traces to token sequences (σ_1 … σ_T, q_0, [LEN_L], q_{j_1} … q_{j_K}, EOS) and back.

Every sequence of a batch shows the same states, so the answer is the same slice in all of them and nothing
here loops over a batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from internalize.curricula.curriculum import Shown
from internalize.sequences.vocabulary import Vocabulary


@dataclass(frozen=True)
class Answers:
    """Generated answers, read."""

    final_state: Tensor
    """(batch,) the state right before EOS; -1 where there is none or no EOS came."""
    length: Tensor
    """(batch,) tokens written, EOS included (all of them where no EOS came)."""
    ended: Tensor
    """(batch,) whether EOS came."""


@dataclass(frozen=True)
class Renderer:
    """The language of one experiment: vocabulary, horizon and whether prompts carry the answer's length."""

    vocabulary: Vocabulary
    horizon: int
    initial_state: int

    @property
    def length_hint(self) -> bool:
        return self.vocabulary.longest_answer is not None

    @property
    def prompt_length(self) -> int:
        """Where the answer begins, which alone the loss is taken on."""
        return self.horizon + 1 + self.length_hint

    @property
    def generation_limit(self) -> int:
        """Tokens after which an answer without EOS counts as wrong: the longest right one and one more."""
        return self.horizon + 2

    @property
    def context(self) -> int:
        """Positions the model needs: all it reads while it writes `generation_limit` tokens."""
        return self.prompt_length + self.generation_limit - 1

    def places(self, states: int) -> Tensor:
        """(context,) positions for an answer of so many states, counted from the end of the full chain.

        q_T stands at 2T whatever is not shown; q_0 and the answer move up against it, the symbols stay.
        """
        first = self.prompt_length - 1  # of q_0
        places = torch.arange(self.context)
        places[first:] += self.horizon - states
        return places.clamp(max=self.context - 1)  # of answers that are too long

    def prompt(self, symbols: Tensor, answer_length: int | None = None) -> Tensor:
        """(batch, T) symbols to (batch, prompt_length) tokens; answer_length = L of LEN_L, for mixtures."""
        ends = [self.vocabulary.first_state + self.initial_state]
        if self.length_hint:
            if answer_length is None:
                raise ValueError("this language needs the answer's length in the prompt")
            ends.append(self.vocabulary.length_token(answer_length))
        tail = torch.tensor(ends, device=symbols.device).expand(symbols.shape[0], -1)
        return torch.cat([symbols, tail], dim=1)

    def answer(self, states: Tensor, shown: Shown) -> Tensor:
        """(batch, T+1) states q_0 … q_T to (batch, K+1) tokens: the shown states and EOS."""
        index = torch.tensor(shown, device=states.device)
        tokens = states.index_select(1, index) + self.vocabulary.first_state
        eos = tokens.new_full((tokens.shape[0], 1), self.vocabulary.eos)
        return torch.cat([tokens, eos], dim=1)

    def sequence(self, symbols: Tensor, states: Tensor, shown: Shown) -> Tensor:
        """Prompt and answer: (batch, prompt_length + K + 1) tokens."""
        return torch.cat([self.prompt(symbols, len(shown) + 1), self.answer(states, shown)], dim=1)

    def read(self, generated: Tensor) -> Answers:
        """(batch, G) tokens written after the prompt; whatever follows the first EOS is ignored."""
        is_eos = generated == self.vocabulary.eos
        ended = is_eos.any(dim=1)
        first_eos = torch.where(ended, is_eos.int().argmax(dim=1), generated.shape[1])
        before = generated.gather(1, (first_eos - 1).clamp(0, generated.shape[1] - 1)[:, None])[:, 0]
        state = before - self.vocabulary.first_state
        valid = ended & (first_eos > 0) & (state >= 0) & (state < len(self.vocabulary.state_names))
        length = torch.where(ended, first_eos + 1, generated.shape[1])
        return Answers(torch.where(valid, state, -1), length, ended)

    def text(self, tokens: Tensor) -> list[str]:
        """Readable sequences, one a row of (batch, length) tokens, up to and with EOS."""
        names = self.vocabulary.tokens()
        rows = []
        for row in tokens.tolist():
            end = row.index(self.vocabulary.eos) + 1 if self.vocabulary.eos in row else len(row)
            rows.append(" ".join(names[token] for token in row[:end]))
        return rows
