"""Models that do not fit are refused before anything is written; those that fit are tried at little cost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from internalize.cli import main
from internalize.errors import BadInput
from internalize.kinds.text.evaluation import TextCosts
from internalize.kinds.text.material import find_material
from internalize.kinds.text.network import build, find_model, outline, quietly, settle_sizes
from tests.kinds.text.test_commands import refuse, words_of
from tests.kinds.text.test_material import config_of
from tests.kinds.text.toys import SHAPES, shape_file

BERT = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
BART = {
    "d_model": 32, "decoder_layers": 1, "encoder_layers": 1, "decoder_ffn_dim": 64, "encoder_ffn_dim": 64,
    "decoder_attention_heads": 4, "encoder_attention_heads": 4,
}  # fmt: skip
PROPHET = {
    "hidden_size": 32, "num_decoder_layers": 1, "num_encoder_layers": 1, "decoder_ffn_dim": 64,
    "encoder_ffn_dim": 64, "num_decoder_attention_heads": 4, "num_encoder_attention_heads": 4,
}  # fmt: skip
UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "mamba": ({"hidden_size": 32, "num_hidden_layers": 1}, "the type mamba keeps no keys and values"),
    "mamba2": (
        {"hidden_size": 32, "num_hidden_layers": 1, "num_heads": 8, "head_dim": 8},
        "the type mamba2 keeps no keys and values",
    ),
    "openai-gpt": ({"n_embd": 32, "n_layer": 1, "n_head": 4}, "the type openai-gpt keeps no keys and values"),
    "bert": (BERT, 'the type bert sees the tokens that it should predict.*need "is_decoder": true'),
    "roberta": (BERT, "the type roberta sees the tokens that it should predict"),
    "bart": (BART, "the type bart answers rows of different lengths differently together than one by one"),
    "xlnet": ({"d_model": 32, "n_layer": 1, "n_head": 4, "d_inner": 64}, "model: "),
    "prophetnet": (PROPHET, "model: "),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_models_that_do_not_fit(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields, said = UNFIT[kind]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": kind, **fields}))
    err = refuse(capsys, [*words_of(tmp_path, model=str(path)), "--out", str(tmp_path / "out"), "--quiet"])
    assert re.search(said, err), err
    assert not (tmp_path / "out").exists()


FIT: dict[str, dict[str, Any]] = {
    **SHAPES,
    "bert": {"model_type": "bert", "is_decoder": True, **BERT},
    "opt": {"model_type": "opt", "hidden_size": 32, "num_hidden_layers": 1, "ffn_dim": 64,
            "num_attention_heads": 4, "word_embed_proj_dim": 32},
    "mistral, windows by layer": {"model_type": "qwen2", **BERT, "num_key_value_heads": 2,
                                  "num_hidden_layers": 3, "use_sliding_window": True, "max_window_layers": 1},
    "many words": {"model_type": "gpt2", "n_embd": 8, "n_layer": 3, "n_head": 2, "vocab_size": 5_000},
}  # fmt: skip


@pytest.mark.parametrize("name", FIT)
def test_models_that_fit(name: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(FIT[name]))
    before = torch.get_rng_state()
    find_material(config_of(tmp_path, model=str(path)), {})
    assert torch.equal(torch.get_rng_state(), before)  # the trial's weights come from its own generator


def test_the_trial_is_of_a_small_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many layers and words it makes few, and it reads no weights of a folder."""
    from transformers import AutoModelForCausalLM

    folder = str(folder_of(tmp_path))
    made: list[tuple[int, int]] = []
    plain = AutoModelForCausalLM.from_config

    def noted(config: Any, **more: Any) -> Any:
        model = plain(config, **more)
        if next(model.parameters()).device.type != "meta":
            made.append((config.n_layer, config.vocab_size))
        return model

    monkeypatch.setattr(AutoModelForCausalLM, "from_config", noted)
    monkeypatch.setattr(
        AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("weights were read")
    )
    path = shape_file(tmp_path, "gpt2", "large", n_layer=9, vocab_size=4_000)
    find_material(config_of(tmp_path, model=path), {})
    assert made == [(2, 1_024)]
    find_material(config_of(tmp_path, model=folder), {})
    assert made == [(2, 1_024), (1, 9)]


def test_what_only_some_models_can_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ctrl = tmp_path / "ctrl.json"
    ctrl.write_text('{"model_type": "ctrl", "n_embd": 32, "n_layer": 1, "n_head": 4, "dff": 64}')
    kept, again = ["--removal.positions", "kept"], ["--checkpointing"]
    for model, more, said in (
        (
            shape_file(tmp_path, "bloom"),
            kept,
            "removal.positions: must be closed: the type bloom takes no position",
        ),
        (str(ctrl), again, "checkpointing: must be left out: the type ctrl cannot compute its layers again"),
    ):
        words = [*words_of(tmp_path, model=model), *more, "--out", str(tmp_path / "out"), "--quiet"]
        assert said in refuse(capsys, words)
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", SHAPES)
def test_an_outline_costs_what_the_model_costs(name: str, tmp_path: Path) -> None:
    source = find_model(shape_file(tmp_path, name), 0.0, None)
    settle_sizes(source, 16, 40, 0)
    assert TextCosts.of(outline(source, 19)) == TextCosts.of(build(source, 19, None))


# Weights of a folder ---------------------------------------------------------------------------------------


def folder_of(tmp_path: Path, name: str = "gpt2") -> Path:
    """A small model, as the library saves it."""
    source = find_model(shape_file(tmp_path, name), 0.0, None)
    settle_sizes(source, 9, 16, 0)
    model: Any = build(source, 9, torch.Generator().manual_seed(0))
    with quietly():
        model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def spoil(folder: Path, how: str) -> None:
    file = folder / "model.safetensors"
    weights, whole = load_file(file), file.read_bytes()
    file.unlink()
    indexes = {
        "a part is missing": {"weight_map": {"x": "model-1.safetensors"}},
        "a part elsewhere": {"weight_map": {"x": "../gpt2.json"}},
        "no index": [],
    }
    if how in indexes:
        (folder / "model.safetensors.index.json").write_text(json.dumps(indexes[how]))
    elif how in ("truncated", "empty"):
        file.write_bytes(whole[:-100] if how == "truncated" else b"")
    elif how == "of another model":
        save_file({name: torch.cat([w, w]) for name, w in weights.items()}, file)
    else:
        name = "adapter_model.safetensors" if how == "an adapter alone" else file.name
        save_file({"x": torch.zeros(1)}, folder / name)


SPOILT = {
    "truncated": "model.safetensors is not a whole safetensors file",
    "empty": "model.safetensors is not a whole safetensors file",
    "of another model": r"has shape \(.*\), but by its config.json \(",
    "of no model": "its files hold no weights of a gpt2",
    "an adapter alone": "has only an adapter",
    "a part is missing": "names a file 'model-1.safetensors', which is not in the folder",
    "a part elsewhere": "names a file '../gpt2.json', which is not in the folder",
    "no index": "is no index of weights",
}


@pytest.mark.parametrize("how", SPOILT)
def test_weights_that_cannot_be_used(how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path)
    spoil(folder, how)
    err = refuse(capsys, [*words_of(tmp_path, model=str(folder)), "--out", str(tmp_path / "out"), "--quiet"])
    assert re.search(SPOILT[how], err), err
    assert not (tmp_path / "out").exists()


def test_weights_in_several_parts_are_read(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in halves.items():
        save_file({name: weights[name] for name in part}, folder / file, {"format": "pt"})
    index = {"weight_map": {name: file for file, part in halves.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index | {"metadata": {}}))
    source = find_material(config_of(tmp_path, model=str(folder)), {}).model
    built = build(source, source.config.vocab_size, torch.Generator().manual_seed(0)).state_dict()
    assert all(torch.equal(built[name], weights[name]) for name in names if name in built)


# Weights that fit only in part -----------------------------------------------------------------------------


def rewrite(folder: Path, changed: Callable[[dict[str, torch.Tensor]], None]) -> None:
    weights = load_file(folder / "model.safetensors")
    changed(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


LAYER = {"gpt2": "transformer.h.0.ln_1.weight", "llama": "model.layers.0.mlp.up_proj.weight"}
TOTAL = {"gpt2": 16, "llama": 12}


def without(*names: str) -> Callable[[dict[str, torch.Tensor]], None]:
    def changed(weights: dict[str, torch.Tensor]) -> None:
        for name in names:
            del weights[name]

    return changed


def renamed(name: str) -> Callable[[dict[str, torch.Tensor]], None]:
    return lambda weights: weights.update({f"{name}_old": weights.pop(name)})


def grown(name: str) -> Callable[[dict[str, torch.Tensor]], None]:
    return lambda weights: weights.update({name: torch.cat([weights[name]] * 2)})


def added(name: str, *shape: int) -> Callable[[dict[str, torch.Tensor]], None]:
    return lambda weights: weights.update({name: torch.zeros(*shape)})


@pytest.mark.parametrize("name", LAYER)
@pytest.mark.parametrize(
    ("how", "change", "said"),
    [
        (
            "removed",
            without,
            "lacks 1 of the {total} weights of a {name} as its config.json says: {layer}; all",
        ),
        ("renamed", renamed, "{layer}; it has 1 weight without a place in it: {layer}_old; all must be there"),
        ("reshaped", grown, "model: .*{layer} has shape .*, but by its config.json "),
    ],
)
def test_weights_that_fit_in_part(
    name: str, how: str, change: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library would draw random numbers for what is missing."""
    folder, layer = folder_of(tmp_path, name), LAYER[name]
    rewrite(folder, change(layer))
    before = torch.get_rng_state()
    err = refuse(capsys, [*words_of(tmp_path, model=str(folder)), "--out", str(tmp_path / "out"), "--quiet"])
    assert re.search(said.format(total=TOTAL[name], name=name, layer=layer), err), err
    assert err.startswith("internalize: model: ")
    assert not (tmp_path / "out").exists()
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_without_a_place_and_heads_that_are_missing(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "llama")
    whole = load_file(folder / "model.safetensors")
    for change, said in (
        (without("lm_head.weight"), "lacks 1 of the 12 weights of a llama .*: lm_head.weight; all"),
        (without(*(n for n in whole if "mlp" in n or "norm" in n)), r"lacks 6 of the 12 .*: (\S+, ){3}…; all"),
        (
            added("score.weight", 2, 32),
            "is not a llama .*: it has 1 weight without a place in it: score.weight;",
        ),
        (
            added("model.layers.1.mlp.up_proj.weight", 64, 32),
            "correct its config.json, or save the model alone",
        ),
        (added("model.layers.0.self_attn.q_proj.bias", 32), "without a place in it: .*q_proj.bias;"),
    ):
        save_file(whole, folder / "model.safetensors", {"format": "pt"})
        rewrite(folder, change)
        with pytest.raises(BadInput, match=said):
            find_material(config_of(tmp_path, model=str(folder)), {})
        with pytest.raises(BadInput, match=said):  # whoever builds it without asking first
            build(find_model(str(folder), 0.0, None), 9, torch.Generator().manual_seed(0))


def test_tied_weights_may_be_absent_and_old_masks_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM

    folder = folder_of(tmp_path)
    whole = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in whole
    monkeypatch.setattr(
        AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("weights were read")
    )

    def bare(weights: dict[str, torch.Tensor]) -> None:
        """As a base model is saved, without its head, by an old version."""
        for name in list(weights):
            weights[name.removeprefix("transformer.")] = weights.pop(name)
        weights |= {"h.0.attn.bias": torch.ones(1, 1, 16, 16), "h.0.attn.masked_bias": torch.tensor(-1e4)}

    rewrite(folder, bare)
    source = find_material(config_of(tmp_path, model=str(folder)), {}).model
    monkeypatch.undo()
    built = build(source, source.config.vocab_size, torch.Generator().manual_seed(0)).state_dict()
    assert all(torch.equal(built[name], weight) for name, weight in whole.items())
    assert torch.equal(built["lm_head.weight"], whole["transformer.wte.weight"])


def test_a_base_model_that_the_library_saved(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    folder = folder_of(tmp_path)
    with quietly():
        whole = AutoModelForCausalLM.from_pretrained(folder)
        whole.transformer.save_pretrained(folder)
    assert "wte.weight" in load_file(folder / "model.safetensors")
    source = find_material(config_of(tmp_path, model=str(folder)), {}).model
    built = build(source, source.config.vocab_size, torch.Generator().manual_seed(0)).state_dict()
    assert all(torch.equal(built[name], weight) for name, weight in whole.state_dict().items())


def test_weights_that_are_one_by_the_config_and_two_by_the_files(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    table = load_file(folder / "model.safetensors")["transformer.wte.weight"]
    rewrite(folder, lambda weights: weights.update({"lm_head.weight": table.clone()}))
    find_material(config_of(tmp_path, model=str(folder)), {})  # the same twice
    rewrite(folder, lambda weights: weights.update({"lm_head.weight": table + 1}))
    with pytest.raises(
        BadInput, match=r'lm_head.weight and .*wte.weight, .* "tie_word_embeddings": false there'
    ):
        find_material(config_of(tmp_path, model=str(folder)), {})


# Adapters --------------------------------------------------------------------------------------------------


def test_adapters_that_have_no_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("peft")
    words = [
        *words_of(tmp_path, model=str(folder_of(tmp_path))), "--lora.rank", "2", "--quiet",
        "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    for more, said in (
        (["--lora.targets", "nonsense"], "lora.targets: Target modules {'nonsense'} not found"),
        (["--lora.alpha", "-3"], "lora.alpha: must be more than 0"),
    ):
        assert said in refuse(capsys, [*words, *more])
        assert not (tmp_path / "out").exists()
    assert main([*words, "--lora.targets", "c_attn", "--iterations", "3"]) == 0


def test_a_model_without_an_output_for_words(tmp_path: Path) -> None:
    path = tmp_path / "vit.json"
    path.write_text('{"model_type": "vit"}')
    source = find_model(str(path), 0.0, None)
    with pytest.raises(BadInput, match="no model that transformers can make"):
        outline(source, 9)
