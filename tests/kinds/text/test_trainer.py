"""Hugging Face's Trainer follows a curriculum: the same labels as our own step scores, stage by stage."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from internalize.cli import main
from internalize.kinds.text.config import TextConfig
from internalize.kinds.text.rendering import RemovalConfig
from internalize.kinds.text.trainer import NO_LOSS, follow
from tests.kinds.text.toys import parity_rows, shape_file

EXAMPLE = Path(__file__).parents[3] / "examples" / "text" / "trainer.py"


def test_a_batch_of_the_collator_has_our_loss(tmp_path: Path) -> None:
    rows = parity_rows(tmp_path)
    followed = follow(
        TextConfig(data=rows, eval=(f"id={rows}",), model=shape_file(tmp_path, "llama"), tokenizer="words",
                   removal=RemovalConfig(per_stage=1))
    )  # fmt: skip
    model: Any = followed.model()
    for stage, words in ((1, 5), (2, 4), (3, 3)):
        followed.collator.stage = stage
        batch = followed.collator(followed.rows[:4])
        assert int((batch["labels"] != NO_LOSS).sum()) == 4 * words
        rendered = [
            followed.experiment.material.renderer.render(row, followed.experiment.curriculum.kept(2, stage))
            for row in followed.rows[:4]
        ]
        alone = [
            model(
                input_ids=torch.tensor([row.tokens]),
                labels=torch.tensor([[NO_LOSS] * row.prompt + row.block]),
            ).loss
            for row in rendered
        ]
        torch.testing.assert_close(model(**batch).loss, torch.stack(alone).mean(), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_the_example_runs_and_takes_the_words_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("accelerate")
    make = [
        "data",
        "make",
        "addition:1",
        "--n",
        "80",
        "--split",
        "test=10",
        "--out",
        str(tmp_path / "train.jsonl"),
    ]
    assert main(make) == 0
    found = runpy.run_path(str(EXAMPLE))["main"](tmp_path, 12)
    assert [(entry["stage"], entry["step"]) for entry in found] == [(1, 6), (2, 12)]
    assert all(0 <= entry["id"] <= 1 for entry in found)
