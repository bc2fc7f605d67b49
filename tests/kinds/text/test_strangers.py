"""Rows, models and tokenizers from strangers: nothing of theirs is executed, fetched or waited for."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

from internalize.errors import BadInput, RunWarning
from internalize.kinds.text.network import build, find_model
from internalize.kinds.text.rows import RowsConfig, read_rows
from internalize.kinds.text.tokenization import TextTokenizer, read_tokenizer
from tests.hostile.laboratory import GOLDEN
from tests.kinds.text.toys import SHAPES

MODEL = next(iter(GOLDEN.glob("C2-T3-left-s0-*"))) / "model"
"""A folder of GPT-2 with its tokenizer."""
SOMEBODYS = dict.fromkeys(("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoTokenizer"), "evil.Thing")


def folder_with(tmp_path: Path, **fields: Any) -> Path:
    """The model folder with these fields in its config.json, and a Python file that leaves a mark."""
    folder = shutil.copytree(MODEL, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text()) | fields
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\nThing = None\n")
    return folder


def test_the_python_files_of_a_model_are_not_executed(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, auto_map=SOMEBODYS)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    about = settings | {"auto_map": {"AutoTokenizer": ["evil.Thing", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    source = find_model(str(folder), 0.0, None)
    build(source, source.config.vocab_size, None)
    read_tokenizer(folder, "tokenizer", 0)
    assert not (tmp_path / "mark").exists()


def test_a_type_that_only_their_files_know_is_refused(tmp_path: Path) -> None:
    """Also where the library knows the type, but not as a language model: it would ask the user, and wait."""
    with pytest.raises(BadInput, match="no model that transformers can make"):
        find_model(str(folder_with(tmp_path, auto_map=SOMEBODYS, model_type="nobodys")), 0.0, None)
    shutil.rmtree(tmp_path / "model")
    source = find_model(str(folder_with(tmp_path, auto_map=SOMEBODYS, model_type="vit")), 0.0, None)
    with pytest.raises(BadInput, match="no model that transformers can make"):
        build(source, 10, None)
    assert not (tmp_path / "mark").exists()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"_attn_implementation": "somebody/kernels"}, "only eager and sdpa"),  # fetched, and executed
    ({"attn_implementation": "flash_attention_2"}, "only eager and sdpa"),
    ({"text_config": {"_attn_implementation": "somebody/kernels"}}, "only eager and sdpa"),
    ({"attn_implementation": {"": "somebody/kernels"}}, "only eager and sdpa"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantized"),
    ({"n_layer": 10**9}, "must have 1 … 1,000 layers, got 1000000000"),
    ({"n_layer": -1}, "must have 1 … 1,000 layers, got -1"),
    ({"num_labels": 10**9}, "num_labels = 1000000000"),
    ({"to_dict": 1}, "'to_dict', which no model has"),
    ({"n_embd": "x"}, "no model that transformers can make"),
]


@pytest.mark.parametrize(("fields", "said"), REFUSED)
def test_a_config_that_asks_for_more_than_there_is(fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "gpt2.json"
    path.write_text(json.dumps(SHAPES["gpt2"] | fields))
    with pytest.raises(BadInput, match=said) as refused:
        find_model(str(path), 0.0, None)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("fields", [{"n_head": 7}, {"n_head": 0}, {"activation_function": "none such"}])
def test_a_config_that_no_model_can_have(fields: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "gpt2.json"
    path.write_text(json.dumps(SHAPES["gpt2"] | {"vocab_size": 9} | fields))
    with pytest.raises(BadInput, match="no model that transformers can make"):
        build(find_model(str(path), 0.0, None), 9, None)


def test_keys_that_mean_nothing_are_named(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    older = SHAPES["llama"] | {"rope_theta": 5000.0}
    for fields, said in (
        (
            SHAPES["gpt2"] | {"n_lyer": 2},
            r"gpt2 knows no 'n_lyer' \(did you mean 'n_layer'\?\); nothing is done",
        ),
        (SHAPES["llama"] | {"n_embd": 8, "n_head": 2}, "llama knows no 'n_embd', 'n_head'; nothing is done"),
    ):
        path.write_text(json.dumps(fields))
        with pytest.warns(RunWarning, match=said):
            find_model(str(path), 0.0, None)
    for fields in (*SHAPES.values(), older):
        path.write_text(json.dumps(fields))
        with warnings.catch_warnings():
            warnings.simplefilter("error", RunWarning)
            find_model(str(path), 0.0, None)


def test_a_switch_is_no_rate_of_dropout(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "esm"}')  # token_dropout is true or false there
    found = find_model(str(path), 0.0, None).config
    assert (type(found.token_dropout), found.hidden_dropout_prob) == (bool, 0.0)


def test_weights_of_another_model(tmp_path: Path) -> None:
    source = find_model(str(folder_with(tmp_path, n_embd=64)), 0.0, None)
    import torch

    with pytest.raises(BadInput, match="no model that transformers can make"):
        build(source, source.config.vocab_size, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("content", ["[" * 100_000, "{", "", "3", '{"model_type": 3}'])
def test_a_config_that_is_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(BadInput, match="model: "):
        find_model(str(tmp_path / "config.json"), 0.0, None)


def test_words_that_a_tokenizer_does_not_know() -> None:
    """One of words, without a word for the others, such as those of the models that this package writes."""
    tokenizer = TextTokenizer.of(str(MODEL), read_tokenizer(MODEL, "tokenizer", 0), 0)
    with pytest.raises(BadInput, match=r"the tokenizer in .* cannot be used: .*UNK"):
        tokenizer.encode(["what nobody has said"])


def test_a_tokenizer_that_is_none(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    for content in ("", "{", "[]", '{"version": "1.0", "model": 3}', '{"added_tokens": [{"id": -1}]}'):
        (folder / "tokenizer.json").write_text(content)
        with pytest.raises(BadInput, match=r"the tokenizer in .* cannot be used") as refused:
            read_tokenizer(folder, "tokenizer", 0)
        assert "\n" not in str(refused.value)


def test_nothing_is_waited_for(tmp_path: Path) -> None:
    """A FIFO in place of rows, weights or a file of the tokenizer; a device, which never ends."""
    os.mkfifo(tmp_path / "rows.jsonl")
    for rows in (str(tmp_path / "rows.jsonl"), os.devnull):
        with pytest.raises(BadInput, match="must be a plain file of rows"):
            read_rows(rows, RowsConfig(), "data", {})
    for name in ("model.safetensors", "tokenizer_config.json"):
        folder = folder_with(tmp_path)
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(BadInput, match="must be a plain file"):
            find_model(str(folder), 0.0, None)
        with pytest.raises(BadInput, match="must be a plain file"):
            read_tokenizer(folder, "tokenizer", 0)
        shutil.rmtree(folder)
