"""Whether the weights in a model folder are all of its model's, and no others.

transformers draws random numbers for weights that its files do not have, and passes over weights that its model
has no place for. A training would go on from such a mixture, and nobody would know. Here both are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from internalize.errors import require
from internalize.kinds.text.weight_files import shapes_in

Shape = tuple[int, ...]
NAMED = 3
"""Weights that a refusal names; it says the number of all."""


def require_weights(path: Path, config: Any, outline: Any) -> None:
    """Refuse a folder whose weights are not those of the model that its config.json describes.

    outline: that model without its weights. Names and shapes alone are looked at where each weight is there
    under its own name. Otherwise the library must say what it makes of the files, since it knows names of old
    files, and weights that are put together from several: then they are read.
    """
    own = {name: tuple(tensor.shape) for name, tensor in outline.state_dict().items()}
    front, held, strange = f"{outline.base_model_prefix}.", set(), False
    for name, shape in shapes_in(path, "model"):
        meant = next((n for n in (name, front + name, name.removeprefix(front)) if n in own), None)
        if meant is None:
            strange = strange or not _is_old_mask(name, shape)
            continue
        held.add(meant)
        differs = f"{path}: {name} has shape {shape}, but by its config.json {own[meant]}"
        require(shape == own[meant], "model", differs)
    none = f"{path}: its files hold no weights of a {config.model_type}, as its config.json says"
    require(bool(held), "model", none)
    shared = _shared_names(outline)
    single = [{name} for name in own.keys() - set().union(*shared)]
    if strange or any(len(names & held) != 1 for names in (*shared, *single)):
        _require_tied(path, load_whole(path, config), shared)


def load_whole(path: Path, config: Any) -> nn.Module:
    """The model of a folder with its weights; refused where not all of them are there, or too many."""
    from transformers import AutoModelForCausalLM

    model, found = AutoModelForCausalLM.from_pretrained(
        str(path), config=config, local_files_only=True, use_safetensors=True, trust_remote_code=False,
        output_loading_info=True,
    )  # fmt: skip
    missing, strange = sorted(found["missing_keys"]), sorted(found["unexpected_keys"])
    if strange:
        shapes = dict(shapes_in(path, "model"))
        strange = [name for name in strange if not _is_old_mask(name, shapes.get(name))]
    kind = f"a {config.model_type} as its config.json says"
    lacks = f"{path} lacks {len(missing)} of the {len(list(model.parameters()))} weights of {kind}"
    has = f"has {_counted(strange)} without a place in it: {_listed(strange)}"
    also = f"; it {has}" if strange else ""
    whole = "all must be there, as model.save_pretrained writes them"
    require(not missing, "model", f"{lacks}: {_listed(missing)}{also}; {whole}")
    again = "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(ANOTHER)"
    advice = f"correct its config.json, or save the model alone: {again}"
    require(not strange, "model", f"{path} is not {kind}: it {has}; {advice}")
    loaded: nn.Module = model
    return loaded


def _shared_names(model: nn.Module) -> list[set[str]]:
    """The names of each parameter: tied ones have more than one."""
    names: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), set()).add(name)
    return list(names.values())


def _require_tied(path: Path, model: nn.Module, shared: Iterable[set[str]]) -> None:
    """The library unties weights that are one by the config.json and two by the files, with a warning alone."""
    loaded = dict(model.named_parameters(remove_duplicate=False))
    for names in shared:
        single = len({id(loaded[name]) for name in names}) == 1
        both = f"{path} holds different weights for {' and '.join(sorted(names))}"
        advice = 'which are one by its config.json; say "tie_word_embeddings": false there'
        require(single, "model", f"{both}, {advice}")


def _is_old_mask(name: str, shape: Shape | None) -> bool:
    """Older versions of the library saved the causal mask and the number that it hides by among the weights."""
    last = name.rpartition(".")[2]
    mask = last in ("bias", "causal_mask") and shape is not None and len(shape) == 4 and shape[:2] == (1, 1)
    return mask or (last == "masked_bias" and shape in ((), (1,)))


def _counted(names: Sequence[str]) -> str:
    return f"{len(names):,} weight{'s' if len(names) > 1 else ''}"


def _listed(names: Sequence[str]) -> str:
    few = [name[:80] for name in names[:NAMED]]
    return ", ".join([*few, "…"] if len(names) > NAMED else few)
