"""Properties of the language over random semiautomata: what is rendered can be read back."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from internalize.curricula import Shown
from internalize.sequences import Renderer, Vocabulary, vocabulary_of
from internalize.tasks import Semiautomaton, parse_task
from tests.tasks.test_semiautomaton import random_symbols, semiautomata


@st.composite
def shown_states(draw: st.DrawFn) -> tuple[int, Shown]:
    """A horizon and a non-empty set of its states."""
    horizon = draw(st.integers(1, 7))
    return horizon, tuple(sorted(draw(st.sets(st.integers(1, horizon), min_size=1))))


HINTS = {"none": (False, False), "length token": (True, False), "pauses": (False, True)}
hints = st.sampled_from(sorted(HINTS))


def decode(tokens: list[int], names: tuple[str, ...]) -> tuple[list[int], int, int | None, list[int]]:
    """An independent reader, by the tokens' names: symbols, q_0, L of LEN_L or of as many pauses, answer states
    before EOS."""
    words = [names[token] for token in tokens]
    symbols = [int(word[2:]) for word in words if word.startswith("x:")]
    states = [int(word[2:]) for word in words if word.startswith("q:")]
    lengths = [int(word[4:]) for word in words if word.startswith("LEN_")]
    pauses = words.count("PAUSE")
    order = "".join(word[0] for word in words)
    hint = "L" * len(lengths) + "P" * pauses
    assert order == "x" * len(symbols) + "q" + hint + "q" * (len(states) - 1) + "E"
    if "PAUSE" in names:
        lengths = [len(symbols) + 1 - pauses]
    return symbols, states[0], lengths[0] if lengths else None, states[1:]


@given(semiautomata(), shown_states(), hints, st.integers(0, 2**32))
def test_a_rendered_batch_decodes_back_to_its_trace(
    task: Semiautomaton, case: tuple[int, Shown], hint: str, seed: int
) -> None:
    horizon, shown = case
    vocabulary = vocabulary_of(task, horizon, *HINTS[hint])
    renderer = Renderer(vocabulary, horizon, task.initial_state)
    symbols = random_symbols(task, (3, horizon), seed)
    states = task.trace(symbols)
    sequence = renderer.sequence(symbols, states, shown)
    prompt = renderer.prompt_length(len(shown) + 1)
    assert sequence.shape == (3, prompt + len(shown) + 1)
    assert sequence.shape[1] <= renderer.context
    assert sequence.max() < vocabulary.size
    for row in range(3):
        read = decode(sequence[row].tolist(), vocabulary.tokens())
        length = None if hint == "none" else len(shown) + 1
        assert read == (symbols[row].tolist(), task.initial_state, length, states[row, list(shown)].tolist())

    answer = sequence[:, prompt:]  # what a training step scores: the answer and nothing else
    for row in range(3):
        words = [f"q:{state}" for state in states[row, list(shown)].tolist()]
        assert [vocabulary.tokens()[token] for token in answer[row].tolist()] == [*words, "EOS"]

    answers = renderer.read(answer)
    assert torch.equal(answers.final_state, states[:, shown[-1]])
    assert answers.length.tolist() == [len(shown) + 1] * 3
    assert bool(answers.ended.all())
    assert renderer.text(sequence)[0].split()[-1] == "EOS"


@given(semiautomata(), st.integers(1, 7), hints)
def test_ids_are_disjoint_and_all_used(task: Semiautomaton, horizon: int, hint: str) -> None:
    vocabulary = vocabulary_of(task, horizon, *HINTS[hint])
    ids = list(range(task.symbols))
    ids += [vocabulary.first_state + q for q in range(task.states)]
    ids.append(vocabulary.eos)
    if hint == "length token":
        ids += [vocabulary.length_token(length) for length in range(2, horizon + 2)]
    if hint == "pauses":
        ids.append(vocabulary.pause)
    assert ids == list(range(vocabulary.size))
    assert len(set(vocabulary.tokens())) == vocabulary.size


def test_names_and_room() -> None:
    task = parse_task("C2")
    vocabulary = vocabulary_of(task, 3, length_hint=True)
    assert vocabulary.tokens() == ("x:0", "x:1", "q:0", "q:1", "EOS", "LEN_2", "LEN_3", "LEN_4")
    plain = Renderer(vocabulary_of(task, 3, length_hint=False), 3, 0)
    assert (plain.prompt_length(), plain.generation_limit(), plain.context) == (4, 5, 8)
    assert Renderer(vocabulary, 3, 0).context == 9
    pausing = Renderer(vocabulary_of(task, 3, pauses=True), 3, 0)
    assert [pausing.prompt_length(length) for length in (2, 3, 4)] == [6, 5, 4]
    assert [pausing.generation_limit(length) for length in (2, 3, 4)] == [3, 4, 5]
    assert pausing.context == 8
    symbols = torch.tensor([[1, 1, 0]])
    assert plain.text(plain.sequence(symbols, task.trace(symbols), (2, 3))) == ["x:1 x:1 x:0 q:0 q:0 q:0 EOS"]
    text = pausing.text(pausing.sequence(symbols, task.trace(symbols), (3,)))
    assert text == ["x:1 x:1 x:0 q:0 PAUSE PAUSE q:0 EOS"]


@pytest.mark.parametrize("length", [1, 5])
def test_lengths_without_a_token_are_refused(length: int) -> None:
    vocabulary = vocabulary_of(parse_task("C2"), 3, length_hint=True)
    with pytest.raises(ValueError, match=f"there is no token LEN_{length}"):
        vocabulary.length_token(length)


def test_a_language_with_lengths_needs_one() -> None:
    renderer = Renderer(vocabulary_of(parse_task("C2"), 3, length_hint=True), 3, 0)
    with pytest.raises(ValueError, match="needs the answer's length"):
        renderer.prompt(torch.zeros(1, 3, dtype=torch.int64))


E, X, Q = 5, 0, 2
"""In the language below: EOS, the symbol 0, the state 0."""


@pytest.mark.parametrize(
    ("written", "state", "length", "ended"),
    [
        ([Q + 1, E, E, E], 1, 2, True),
        ([Q, Q + 2, E, E], 2, 3, True),
        ([Q, Q, Q, E], 0, 4, True),
        ([E, Q, E, E], -1, 1, True),  # nothing was said
        ([Q + 1, X, E, E], -1, 3, True),  # EOS comes after a symbol
        ([Q, Q, Q, Q + 1], -1, 4, False),  # no EOS counts as wrong
        ([Q + 1, E, Q, Q], 1, 2, True),  # what follows EOS is ignored
        ([X, Q + 1, E, E], 1, 3, True),
    ],
)
def test_reading_of_answers(written: list[int], state: int, length: int, ended: bool) -> None:
    renderer = Renderer(Vocabulary(("0", "1"), ("0", "1", "2")), 2, 0)
    assert renderer.vocabulary.eos == E
    answers = renderer.read(torch.tensor([written, [Q, E, E, E]]))
    found: list[Tensor] = [answers.final_state, answers.length, answers.ended]
    assert [column.tolist() for column in found] == [[state, 0], [length, 2], [ended, True]]
