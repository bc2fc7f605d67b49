"""Patched answers against a pass written out by hand, and what must hold in every model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
import torch
from torch import Tensor

from internalize.analysis.open_run import OpenChain
from internalize.analysis.patch import Reader, patch_inputs, patch_map, patch_stages, places_of
from internalize.cli import main
from internalize.models.gpt2 import GPT2, Block
from tests.measure.test_activations import random_model


@torch.no_grad()
def by_hand(model: GPT2, here: Tensor, there: Tensor, layer: int, position: int) -> Tensor:
    """(batch,) the likeliest of the tokens 3 … 6 when the stream after `layer` is the other's at one place."""
    streams = [model.embed(here), model.embed(there)]
    for i, block in enumerate([None, *cast(list[Block], list(model.transformer.h))]):
        if block is not None:
            streams = [block(x, None)[0] for x in streams]
        if i == layer:
            streams[0][:, position] = streams[1][:, position]
    logits = model.transformer.ln_f(streams[0][:, -1]) @ model.transformer.wte.weight.T
    return logits[:, 3:7].argmax(-1)


@torch.no_grad()
def test_every_cell_is_what_a_pass_by_hand_says(generator: torch.Generator) -> None:
    model = random_model("absolute")
    here, there = torch.randint(9, (2, 30, 5), generator=generator)
    found = patch_map(
        Reader(model, here), Reader(model, there), "other", places_of(model, "residual", (), 5), 3, 4
    )
    said, wanted = (model(tokens)[0][:, -1, 3:7].argmax(-1) for tokens in (here, there))
    differ = said != wanted
    assert found.pairs == int(differ.sum()) > 10
    assert found.layers == (0, 1, 2, 3)
    for i, layer in enumerate(range(4)):
        for position in range(5):
            moved = (by_hand(model, here, there, layer, position) == wanted) & differ
            assert int(found.moved[i, position]) == int(moved.sum())
    assert len(set(found.moved.flatten().tolist())) > 4


def test_a_symbol_is_carried_by_its_own_place_at_first_and_by_the_answers_in_the_end(chain: OpenChain) -> None:
    found = patch_inputs(chain, None, "residual", (), samples=60, seed=0)
    assert [each.case for each in found.maps] == ["σ1", "σ2", "σ3", "σ4"]
    for t, each in enumerate(found.maps, start=1):
        assert each.pairs > 50  # a parity: whichever symbol is changed, the answer is another one
        first, last = each.moved
        assert int(first[t - 1]) == each.pairs
        assert int(first.sum()) == each.pairs  # and nowhere else: the inputs differ there alone
        assert int(last[-1]) == each.pairs
        assert int(last[:-1].sum()) == 0
    rows = found.rows()
    assert len(rows) == 4 * 2 * len(found.positions)
    assert found.positions == ("σ1", "σ2", "σ3", "σ4", "q0")


def test_the_last_layer_of_another_stage_says_what_that_stage_says(chain: OpenChain) -> None:
    (found,) = patch_stages(chain, None, 1, "residual", samples=60, seed=0).maps
    assert 10 < found.pairs < 60  # q_4 against q_1
    assert int(found.moved[-1, -1]) == found.pairs


def test_the_command(chain: OpenChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["patch", str(chain.run.path), "--samples", "20", "--out", str(tmp_path)]
    assert main([*words, "--symbols", "2", "--part", "mlp", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["stage"], found["status"], found["part"]) == (4, "done", "mlp")
    assert {row["layer"] for row in found["rows"]} == {1}
    assert {path.name for path in tmp_path.iterdir()} == {f"patch.{k}" for k in ("png", "svg", "csv", "json")}
    assert main([*words, "--symbols", "5"]) == 2
    assert "symbols: must lie in 1…4, got [5]" in capsys.readouterr().err
    assert main([*words, "--symbols", "1", "--source-stage", "1"]) == 2
    assert "symbols: must be left out" in capsys.readouterr().err
