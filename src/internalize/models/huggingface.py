"""Models in Hugging Face's layout: a folder that `AutoModelForCausalLM` and `AutoTokenizer` open.

The weights already have the names of Hugging Face's GPT-2, so a folder is the weights and four small JSON
files. They are written here without importing transformers, which is slow and need not be installed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from internalize.errors import BadInput, require
from internalize.models.gpt2 import GPT2, LAYER_NORM_EPSILON
from internalize.models.language_model import LanguageModel


def is_exportable(model: GPT2) -> bool:
    """Whether Hugging Face's GPT-2 can express the model: it has absolute positions, in order."""
    return model.config.positions == "absolute" and model.places is None


def folder_files(model: GPT2, tokens: Sequence[str], eos: int) -> dict[str, str]:
    """The text files beside model.safetensors: file name → content."""
    require(
        is_exportable(model),
        "model.positions",
        f"Hugging Face's GPT-2 has absolute positions, this model has {model.config.positions!r}",
    )
    files = {
        "config.json": _model_config(model, eos),
        "generation_config.json": {"eos_token_id": eos, "pad_token_id": eos, "do_sample": False},
        "tokenizer.json": _tokenizer(tokens, eos),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": tokens[eos],
            "pad_token": tokens[eos],
            "model_max_length": model.context,
            "clean_up_tokenization_spaces": False,
        },
    }
    return {name: json.dumps(content, indent=2, ensure_ascii=False) + "\n" for name, content in files.items()}


def _model_config(model: GPT2, eos: int) -> dict[str, Any]:
    shape = model.config
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": model.vocabulary,
        "n_positions": model.context,
        "n_embd": shape.width,
        "n_layer": shape.depth,
        "n_head": shape.heads,
        "n_inner": shape.mlp_width,
        "activation_function": "gelu_new",
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "layer_norm_epsilon": LAYER_NORM_EPSILON,
        "scale_attn_weights": True,
        "tie_word_embeddings": True,
        "bos_token_id": eos,
        "eos_token_id": eos,
        "pad_token_id": eos,
    }


def _tokenizer(tokens: Sequence[str], eos: int) -> dict[str, Any]:
    """Every word between two spaces is one token. UNK is none of them, so that an unknown word is an error."""
    special = {
        "id": eos,
        "content": tokens[eos],
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [special],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {token: i for i, token in enumerate(tokens)},
            "unk_token": "UNK",
        },
    }


def load_weights(model: GPT2, weights: Mapping[str, Tensor], field: str) -> None:
    """Copy weights into the model, which must fit it."""
    model.load(fitting_weights(model, weights, field), field)


def fitting_weights(model: GPT2, weights: Mapping[str, Tensor], field: str) -> dict[str, Tensor]:
    """The weights under the model's own names, refused where a name or a shape does not match.

    A tied `lm_head.weight` may be there too. The model may be on the meta device: only its shapes are read.
    """
    given = {name: tensor for name, tensor in weights.items() if name != "lm_head.weight"}
    # folders saved from the bare GPT2Model lack the prefix
    if not any(name.startswith("transformer.") for name in given):
        given = {f"transformer.{name}": tensor for name, tensor in given.items()}
    # masks that older versions of transformers saved among the weights
    given = {
        name: tensor for name, tensor in given.items() if not name.endswith((".attn.bias", ".attn.masked_bias"))
    }
    model.require_fit(given, field)
    return given


def read_weights(folder: Path, field: str) -> dict[str, Tensor]:
    """The weights of a Hugging Face folder; safetensors only, a pickle is never opened."""
    path = folder / "model.safetensors" if folder.is_dir() else folder
    require(path.is_file(), field, f"there is no {path}")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise BadInput(field, f"cannot read {path}: {error}") from None


def starting_weights(model: LanguageModel, path: Path, field: str) -> dict[str, Tensor]:
    """The weights in the file under the model's own names, refused where they do not fit it."""
    weights = read_weights(path, field)
    if isinstance(model, GPT2):  # folders of other people's name the same weights in several ways
        weights = fitting_weights(model, weights, field)
    model.require_fit(weights, field)
    return weights
