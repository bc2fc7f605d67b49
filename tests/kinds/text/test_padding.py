"""A padded batch gives what single rows give: absolute, rotary and ALiBi positions, reading and writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from internalize.kinds.text.generation import Prompts, write_answers
from internalize.kinds.text.network import answer_logits, build, find_model, settle_sizes
from internalize.kinds.text.rendering import CutRow, Markers, TextRenderer, collate
from tests.kinds.text.toys import SHAPES, shape_file

MARKERS = Markers(chain=1, answer=2, end=3, pause=4, pad=0)
ROWS = [
    CutRow((5, 6), ((7,), (8,), (9,)), (10,)),
    CutRow((5, 6, 7, 8, 9), ((10,),), (11, 12)),
    CutRow((9,), (), (13,)),
    CutRow((12, 11, 10), tuple((i,) for i in range(5, 12)), (5, 6)),
]
CPU = torch.device("cpu")


def model_of(name: str, folder: Path) -> nn.Module:
    """Weights large enough that a wrong position would show."""
    source = find_model(shape_file(folder, name), dropout=0.0, init_std=0.3)
    settle_sizes(source, vocabulary=16, context=40, markers=0)
    return build(source, 16, torch.Generator().manual_seed(0)).eval()


@pytest.mark.parametrize("name", SHAPES)
def test_a_padded_batch_gives_the_logits_of_single_rows(name: str, tmp_path: Path) -> None:
    model = model_of(name, tmp_path)
    rendered = [TextRenderer(MARKERS, 7, 2).render(row, tuple(range(len(row.units)))) for row in ROWS]
    batch = collate(rendered, MARKERS.pad, False, CPU)
    with torch.no_grad():
        together = answer_logits(model, batch)
        for i, row in enumerate(rendered):
            alone = model(input_ids=torch.tensor([row.tokens[:-1]])).logits[0]
            length = len(row.tokens) - 1
            torch.testing.assert_close(
                together[i, : length - batch.first], alone[batch.first :], rtol=1e-4, atol=1e-5
            )


def slow_answer(model: Any, prompt: list[int], limit: int, budget: int | None) -> list[int]:
    """Token by token, one row, no padding, no cache."""
    tokens = list(prompt)
    for i in range(limit):
        logits = model(input_ids=torch.tensor([tokens])).logits[0, -1]
        if budget is not None and i < budget:
            logits[[MARKERS.answer, MARKERS.end]] = -torch.inf
        token = MARKERS.answer if budget == i else int(logits.argmax())
        tokens.append(token)
        if token == MARKERS.end:
            break
    return tokens[len(prompt) :]


@pytest.mark.parametrize("budget", [None, 3])
@pytest.mark.parametrize("name", SHAPES)
@torch.no_grad()
def test_batches_with_cache_write_what_single_rows_without_it_write(
    name: str, budget: int | None, tmp_path: Path
) -> None:
    model = model_of(name, tmp_path)
    prompts = [[*row.question, MARKERS.chain] for row in ROWS] + [[7, 7, MARKERS.chain]]
    wanted = [slow_answer(model, prompt, 12, budget) for prompt in prompts]
    found = write_answers(model, [Prompts(prompt) for prompt in prompts], MARKERS, 12, 4, budget)
    assert found == wanted
    assert len({tuple(answer) for answer in found}) > 2  # else there would be nothing to confuse


def at_positions(model: Any, tokens: list[int], places: list[int]) -> torch.Tensor:
    """(length, vocabulary). The mask says that the jumps are no borders between packed rows."""
    ids = torch.tensor([tokens])
    found: torch.Tensor = model(
        input_ids=ids, position_ids=torch.tensor([places]), attention_mask=torch.ones_like(ids)
    ).logits[0]
    return found


@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt_neox"])
@torch.no_grad()
def test_kept_positions_are_those_of_the_whole_row(name: str, tmp_path: Path) -> None:
    """In training as explicit ids; in writing the next token is found at the place it was taught at."""
    model = model_of(name, tmp_path)
    form = TextRenderer(MARKERS, 7, 2, positions="kept")
    kept = [(2,), (), (), (3, 4, 5, 6)]
    rendered = [form.render(row, k) for row, k in zip(ROWS, kept, strict=True)]
    batch = collate(rendered, MARKERS.pad, True, CPU)
    together = answer_logits(model, batch)
    asked = []
    for i, (row, k) in enumerate(zip(ROWS, kept, strict=True)):
        ids = torch.tensor([rendered[i].positions[:-1]])
        alone = at_positions(model, rendered[i].tokens[:-1], rendered[i].positions[:-1])
        length = ids.shape[1]
        torch.testing.assert_close(
            together[i, : length - batch.first], alone[batch.first :], rtol=1e-4, atol=1e-5
        )
        asked.append(Prompts(form.prompt(row, k), form.places(row, k), row.chain))
    found = write_answers(model, asked, MARKERS, 10, 4, chain_budget=1)
    for answer, row, question in zip(found, ROWS, asked, strict=True):
        tokens, places = list(question.prompt), list(range(len(question.prompt)))
        for i, token in enumerate(answer):
            logits = at_positions(model, tokens, places)[-1]
            if i == 0:
                logits[[MARKERS.answer, MARKERS.end]] = -torch.inf
            assert token == (MARKERS.answer if i == 1 else int(logits.argmax()))
            tokens.append(token)
            first = (question.places or [0])[0] if row.units else 0
            places.append(len(question.prompt) + (first if i == 0 else row.chain + i - 1))
