"""Folders in Hugging Face's layout: opened by transformers alone, and read back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, GPT2Model

from internalize import Run
from internalize.errors import BadInput
from internalize.kinds.chain.experiment import ChainExperiment
from internalize.kinds.entrance import load_experiment
from internalize.models.config import ModelConfig
from internalize.models.gpt2 import GPT2
from internalize.models.huggingface import folder_files, load_weights, read_weights

SHAPE = ModelConfig(depth=2, width=8, heads=4, mlp=20)
TOKENS = ("x:0", "x:1", "q:0", "q:1", "EOS", "LEN_2", "LEN_3")


def new_model(config: ModelConfig = SHAPE, seed: int | None = 0) -> GPT2:
    model = GPT2(config, vocabulary=len(TOKENS), context=9)
    if seed is not None:
        model.initialise(torch.Generator().manual_seed(seed))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(10.0)  # out of the linear range of attention and GELU
    return model


def write_folder(model: GPT2, folder: Path) -> Path:
    folder.mkdir()
    for name, text in folder_files(model, TOKENS, eos=4).items():
        (folder / name).write_text(text)
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def same_weights(a: GPT2, b: GPT2) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


@torch.no_grad()
def test_transformers_open_a_folder_with_the_same_logits_and_tokens(tmp_path: Path) -> None:
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    ours = new_model()
    folder = write_folder(ours, tmp_path / "model")
    theirs = AutoModelForCausalLM.from_pretrained(folder)
    assert type(theirs) is GPT2LMHeadModel
    ids = torch.randint(len(TOKENS), (4, 9), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(theirs(ids).logits, ours(ids)[0], rtol=1e-5, atol=1e-5)
    assert theirs.lm_head.weight is theirs.transformer.wte.weight

    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("x:0 x:1 q:0 LEN_2 q:1 EOS")["input_ids"] == [0, 1, 2, 5, 3, 4]
    assert tokenizer.convert_ids_to_tokens(range(len(TOKENS))) == list(TOKENS)
    assert tokenizer.decode([0, 3, 4]) == "x:0 q:1 EOS"
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.vocab_size) == (4, 4, len(TOKENS))


def test_greedy_generation_of_a_trained_model_is_ours(internalized: Run) -> None:
    """At stage 1 it reasons out loud: several tokens, then EOS."""
    _, experiment = load_experiment(internalized, "cpu")
    assert isinstance(experiment, ChainExperiment)
    theirs = AutoModelForCausalLM.from_pretrained(internalized.path / "model")
    tokenizer = AutoTokenizer.from_pretrained(internalized.path / "model")
    symbols = torch.tensor([[int(bit) for bit in f"{i:04b}"] for i in range(16)])
    renderer = experiment.renderer
    for stage, length in ((1, 5), (None, 2)):
        weights = internalized.weights(stage)
        missing, unexpected = theirs.load_state_dict(weights, strict=False)
        assert (missing, unexpected) == (["lm_head.weight"], [])
        ours = experiment.load_predictor(weights, budget=None).generate(symbols)
        prompts = tokenizer(renderer.text(renderer.prompt(symbols)), return_tensors="pt")
        written = theirs.generate(**prompts, max_new_tokens=renderer.generation_limit(), do_sample=False)
        assert written[:, renderer.prompt_length() :].tolist() == ours.tolist()
        assert renderer.text(ours)[5].split()[-1] == "EOS"
        assert renderer.read(ours).length.tolist() == [length] * 16


def test_a_folder_is_read_back(tmp_path: Path) -> None:
    ours, other = new_model(), new_model(seed=1)
    folder = write_folder(ours, tmp_path / "model")
    assert not same_weights(ours, other)
    load_weights(other, read_weights(folder, "init-from"), "init-from")
    assert same_weights(ours, other)


@pytest.mark.parametrize("cls", [GPT2LMHeadModel, GPT2Model])
def test_folders_that_transformers_saved_are_read(tmp_path: Path, cls: Any) -> None:
    """With the head (tied) and bare, whose names lack a prefix."""
    shape = GPT2Config(vocab_size=7, n_positions=9, n_embd=8, n_layer=2, n_head=4, n_inner=20)
    theirs = cls(shape)
    theirs.save_pretrained(tmp_path / "saved")
    ours = new_model(seed=None)
    load_weights(ours, read_weights(tmp_path / "saved", "init-from"), "init-from")
    trunk = theirs if cls is GPT2Model else theirs.transformer
    for name, tensor in trunk.state_dict().items():
        assert torch.equal(ours.state_dict()[f"transformer.{name}"], tensor)


def test_masks_of_older_folders_are_left_out() -> None:
    ours, other = new_model(), new_model(seed=1)
    old = {name.removeprefix("transformer."): tensor for name, tensor in ours.state_dict().items()}
    old |= {"h.0.attn.bias": torch.ones(1, 1, 9, 9), "h.0.attn.masked_bias": torch.tensor(-1e4)}
    load_weights(other, old, "init-from")
    assert same_weights(ours, other)


@pytest.mark.parametrize("positions", ["rotary", "none"])
def test_other_positions_are_refused_clearly(positions: Any) -> None:
    model = new_model(ModelConfig(depth=1, width=8, heads=2, positions=positions))
    with pytest.raises(BadInput, match=f"model.positions: .* absolute positions, this model has '{positions}'"):
        folder_files(model, TOKENS, eos=4)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (ModelConfig(depth=2, width=8, heads=4, mlp=21), r"has shape \(8, 20\), this model needs \(8, 21\)"),
        (ModelConfig(depth=3, width=8, heads=4, mlp=20), "has no weights transformer.h.2"),
        (ModelConfig(depth=1, width=8, heads=4, mlp=20), "has weights that this model lacks: transformer.h.1"),
        (ModelConfig(depth=2, width=8, heads=4, mlp=20, positions="none"), "lacks: transformer.wpe.weight"),
    ],
)
def test_weights_of_another_shape_are_refused(config: ModelConfig, words: str) -> None:
    with pytest.raises(BadInput, match=f"^init-from: .*{words}"):
        load_weights(new_model(config), new_model().state_dict(), "init-from")


def test_weights_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"init-from: there is no .*model.safetensors"):
        read_weights(tmp_path, "init-from")
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle is never opened")
    with pytest.raises(BadInput, match=r"init-from: there is no .*model.safetensors"):
        read_weights(tmp_path, "init-from")
    for content in (b"", b"no safetensors", b"\xff" * 100):
        (tmp_path / "model.safetensors").write_bytes(content)
        with pytest.raises(BadInput, match=r"init-from: cannot read .*model.safetensors"):
            read_weights(tmp_path, "init-from")


def test_names_outside_ascii_survive(tmp_path: Path) -> None:
    files = folder_files(new_model(), ("x:σ", *TOKENS[1:]), eos=4)
    assert json.loads(files["tokenizer.json"])["model"]["vocab"]["x:σ"] == 0
    assert "x:σ" in files["tokenizer.json"]
