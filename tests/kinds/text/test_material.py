"""What is read before a training: names of files, stages from the training rows, vocabulary, markers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from internalize import BadInput, Execution, train
from internalize.kinds.text.config import FILE_COLUMNS, OWN_COLUMNS, LoraFields, TextConfig, columns_of
from tests.kinds.text.toys import parity_rows, shape_file


def config_of(folder: Path, **fields: Any) -> TextConfig:
    rows = parity_rows(folder)
    base = TextConfig(
        data=rows, eval=(f"id={rows}",), model=shape_file(folder, "gpt2"), tokenizer="words", iterations=9
    )
    return replace(base, **fields)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["train"], "'train' is the name of the training rows"),
        (["chain"], "'chain' cannot be used, its result 'chain_accuracy' would also be one of the run itself"),
        (["token"], "'token_accuracy' would also be one of the run itself"),
        (["id_target"], "'id_target_accuracy' would also be one of 'id'"),
        (["chain_id"], "'chain_id_accuracy' would also be one of 'id'"),
        (["far_chain", "far"], "the name 'far' cannot be used, .* one of 'far_chain'"),
    ],
)
def test_names_of_files_whose_results_would_clash(names: list[str], said: str) -> None:
    with pytest.raises(BadInput, match=f"eval: .*{said}"):
        TextConfig(eval=tuple(f"{name}=a.jsonl" for name in names))


def test_all_columns_that_could_clash_are_known(tmp_path: Path) -> None:
    """A mixture has all columns that there are: each is a file's, or one that no file can be named for."""
    config = config_of(
        tmp_path, method="mixture", eval=(*config_of(tmp_path).eval, "ood=" + parity_rows(tmp_path))
    )
    run = train(config, Execution(out=tmp_path / "out"))
    found = {*run.summary(), *(name for row in run.metrics().rows for name in row)}
    of_files = columns_of("id") | columns_of("ood")
    shaped = {name for name in found if name.endswith(tuple(f"_{column}" for column in FILE_COLUMNS))}
    assert shaped - of_files <= OWN_COLUMNS | {"response_length"}
    assert {"chain_id_accuracy", "id_target_accuracy", "chain_chain_accuracy", "token_accuracy"} <= shaped


@pytest.mark.parametrize("alpha", [-3.0, 0.0, float("inf"), float("nan")])
def test_a_scale_of_adapters_is_more_than_nothing(alpha: float) -> None:
    with pytest.raises(BadInput, match=r"lora.alpha: must be more than 0 and finite"):
        LoraFields(rank=2, alpha=alpha)
