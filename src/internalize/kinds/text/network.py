"""Any causal language model of transformers: a local folder, or a config.json from scratch.

Nothing is fetched and no pickle is opened. What transformers hides is made explicit: its dropout is a field of
the config, and its draws from torch's global generator happen inside `drawing_from`, which puts a stream's seed
there and takes it away again.
"""

from __future__ import annotations

import copy
import inspect
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from internalize.errors import BadInput, RunWarning, closest, is_out_of_memory, require
from internalize.kinds.text.completeness import load_whole
from internalize.kinds.text.config import LoraFields
from internalize.kinds.text.rendering import Batch
from internalize.kinds.text.tokenization import TextTokenizer
from internalize.kinds.text.weight_files import require_whole
from internalize.models.config import DEEPEST
from internalize.runs.storage import read_plain, reason_of

POSITION_FIELDS = ("n_positions", "max_position_embeddings", "n_ctx", "max_seq_len")
INITIAL_FIELDS = ("initializer_range", "init_std")


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Let whoever draws from torch's global generators draw from this one, and leave them as they were."""
    device = generator.device
    devices = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices, device_type="cuda" if device.type == "cuda" else "cpu"):
        torch.manual_seed(generator.initial_seed())
        yield


@dataclass(frozen=True, eq=False)
class ModelSource:
    """A model that was found and looked at, its weights not yet read."""

    name: str
    path: Path
    """The folder, or the config.json."""
    config: Any
    """transformers' config of the model, with everything settled but its size where that is left open."""
    open_fields: frozenset[str]
    """vocabulary, context: what the config.json leaves to the data."""

    @property
    def has_weights(self) -> bool:
        return self.path.is_dir()


def find_model(name: str, dropout: float, init_std: float | None, field: str = "model") -> ModelSource:
    """The model that a folder or a config.json describes; refuses what cannot be used."""
    from transformers import AutoConfig

    path = Path(name)
    why = f"there is no folder or config.json {name} here, and nothing is fetched from the internet"
    require(path.exists(), field, why)
    if path.is_dir():
        require_whole(path, field)
    described = path / "config.json" if path.is_dir() else path
    raw = _read_config(described, field)
    kind = raw.pop("model_type", None)
    require(isinstance(kind, str), field, f'{described} has no model_type, for example "gpt2"')
    require_own_means(raw, described, field)
    with naming_the_model(described, field), quietly():
        config = AutoConfig.for_model(kind, **raw)
        config.return_dict = True  # what is computed is asked for by its name
        if not path.is_dir():
            _name_unknown_keys(AutoConfig.for_model(kind), raw, config, described)
    _require_layers(config, described, field)
    set_dropout(config, dropout)
    open_fields = set()
    if not path.is_dir():
        if "vocab_size" not in raw:
            open_fields.add("vocabulary")
        if not any(name in raw for name in POSITION_FIELDS):
            open_fields.add("context")
        if init_std is not None:
            _set_first(config, INITIAL_FIELDS, init_std, "init-std")
    else:
        require(
            init_std is None, "init-std", "belongs to a config.json: the folder's weights are there already"
        )
    return ModelSource(name, path, config, frozenset(open_fields))


def _name_unknown_keys(plain: Any, raw: Mapping[str, Any], config: Any, path: Path) -> None:
    """Transformers keeps a key that means nothing to the model: a misspelt one would pass for a setting.

    plain: a config of the same type of which nothing was said.
    """
    known = {*plain.to_dict(), *type(plain).attribute_map, *POSITION_FIELDS}
    translated = {name for name in raw if not hasattr(config, name)}  # names of older versions
    unknown = sorted({*raw} - known - translated)
    if unknown:
        named = ", ".join(f"{name[:60]!r}{closest(name, sorted(known))}" for name in unknown[:8])
        warnings.warn(
            f"{path}: {plain.model_type} knows no {named}; nothing is done with it", RunWarning, stacklevel=2
        )


@contextmanager
def naming_the_model(
    path: Path, field: str, what: str = "is no model that transformers can make"
) -> Iterator[None]:
    """An unknown type, a wrong field, weights that do not fit: the library says each in its own way."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        said = " ".join(str(error).split())[:200]
        raise BadInput(field, f"{path} {what}: {said}") from None


OWN_ATTENTION = ("eager", "sdpa", None)
"""Ways to compute attention that come with torch; others are fetched from the internet and executed."""
MOST_LABELS = 10_000


def require_own_means(raw: dict[str, Any], path: Path, field: str) -> None:
    """Refuse a config.json, which may be a stranger's, that asks for more than transformers itself has.

    Names of Python files (`auto_map`) are taken out: the library's own class of that type is used, or none.
    """
    from transformers import PretrainedConfig

    raw.pop("auto_map", None)
    for name, value in raw.items():
        if name.removeprefix("_") in ("attn_implementation", "experts_implementation"):
            own = value in OWN_ATTENTION if isinstance(value, str | None) else False
            require(own, field, f"{path} has {name} = {str(value)[:60]!r}: only eager and sdpa are used here")
        taken = callable(getattr(PretrainedConfig, name, None))
        require(not taken, field, f"{path} has a field {name[:60]!r}, which no model has")
        if isinstance(value, dict):
            require_own_means(value, path, field)
    quantized = raw.get("quantization_config") is not None
    require(not quantized, field, f"{path} is of quantized weights: only plain ones are trained here")
    labels = raw.get("num_labels", 0)
    few = isinstance(labels, int) and labels <= MOST_LABELS
    require(few, field, f"{path} has num_labels = {str(labels)[:60]}, at most {MOST_LABELS:,} are read")


def _require_layers(config: Any, path: Path, field: str) -> None:
    layers = getattr(config, "num_hidden_layers", 1)
    good = isinstance(layers, int) and 1 <= layers <= DEEPEST
    require(good, field, f"{path} must have 1 … {DEEPEST:,} layers, got {str(layers)[:60]}")


def _read_config(path: Path, field: str) -> dict[str, Any]:
    require(path.is_file(), field, f"{path.parent} has no config.json")
    try:
        raw = json.loads(read_plain(path).decode("utf-8"))  # with Infinity, which some models' configs have
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(field, f"{path} is not JSON: {reason_of(error)}") from None
    require(isinstance(raw, dict), field, f"{path} must be a JSON object")
    return dict(raw)


def dropout_fields(config: Any) -> list[str]:
    """The fields of a config that are rates of dropout."""
    ends = ("dropout", "pdrop", "dropout_prob", "layerdrop")
    left_out = ("classifier_dropout", "summary_first_dropout")  # of heads that a language model has not
    return [
        name
        for name, value in config.to_dict().items()
        if name.endswith(ends) and name not in left_out and type(value) in (int, float)  # no switches
    ]


def set_dropout(config: Any, rate: float) -> None:
    fields = dropout_fields(config)
    require(bool(fields) or rate == 0, "dropout", f"must be 0: a {config.model_type} has none")
    for name in fields:
        setattr(config, name, 0.0 if name.endswith("layerdrop") else rate)


def _set_first(config: Any, names: tuple[str, ...], value: float, field: str) -> None:
    for name in names:
        if hasattr(config, name):
            setattr(config, name, value)
            return
    raise BadInput(field, f"a {config.model_type} has none of {', '.join(names)}")


def settle_sizes(
    source: ModelSource, vocabulary: int, context: int, markers: int, field: str = "model"
) -> None:
    """Fill in what the config leaves open, and refuse a model that is too small for the data.

    vocabulary: ids of the tokenizer; markers: how many of these were added to a folder's own.
    """
    config = source.config
    if "vocabulary" in source.open_fields:
        config.vocab_size = vocabulary
    needed = vocabulary - markers if source.has_weights else vocabulary
    small = f"vocab_size is {config.vocab_size}, but the tokenizer has {needed} tokens"
    require(config.vocab_size >= needed, field, f"{source.name}: {small}")
    name = next((name for name in POSITION_FIELDS if hasattr(config, name)), None)
    if name is None:
        return
    if "context" in source.open_fields:
        try:
            setattr(config, name, context)
        except NotImplementedError:  # how some types say that their rows have no longest
            return
    most = getattr(config, name)
    if most < context and is_rotary(config):
        setattr(config, name, context)  # there is no table that would have to be longer
        return
    rows = f"{name} is {most}, but the longest row with its answer needs {context}"
    require(most >= context, field, f"{source.name}: {rows}")


def is_rotary(config: Any) -> bool:
    """Whether positions are turned angles, which no table bounds."""
    return any(getattr(config, name, None) is not None for name in ("rope_parameters", "rope_theta"))


def build(source: ModelSource, vocabulary: int, generator: torch.Generator | None) -> nn.Module:
    """The model with its first weights: drawn from the generator, or read from the folder.

    Without a generator the weights are whatever they are: somebody will load others over them.
    """
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(source.config)
    drawing = drawing_from(generator or torch.Generator().manual_seed(0))
    with drawing, quietly(), naming_the_model(source.path, "model"):
        if source.has_weights and generator is not None:
            model: Any = load_whole(source.path, config)
        else:
            model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
        model = model.float()
        before = model.get_input_embeddings().num_embeddings
        if before < vocabulary:
            model.resize_token_embeddings(vocabulary, mean_resizing=False)
            _start_new_rows(model, before)
    found: nn.Module = model
    return found


def outline(source: ModelSource, vocabulary: int) -> nn.Module:
    """The model without any weights, for whoever needs names and shapes alone: it takes no memory.

    vocabulary: at least so many tokens; 0: as many as the config says.
    """
    from transformers import AutoModelForCausalLM

    with torch.device("meta"), quietly(), naming_the_model(source.path, "model"):
        model = AutoModelForCausalLM.from_config(copy.deepcopy(source.config), trust_remote_code=False)
        if model.get_input_embeddings().num_embeddings < vocabulary:
            model.resize_token_embeddings(vocabulary, mean_resizing=False)
        require(model.get_output_embeddings() is not None, "model", f"{source.path} has no output for words")
    found: nn.Module = model
    return found


@contextmanager
def quietly() -> Iterator[None]:
    """The library draws a bar while it reads weights, and says at length what it made anew."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@torch.no_grad()
def _start_new_rows(model: Any, before: int) -> None:
    """Markers that a folder's model has not seen begin at the mean of the others, a little apart."""
    tables = {id(t.weight): t.weight for t in (model.get_input_embeddings(), model.get_output_embeddings())}
    for table in tables.values():
        old, new = table[:before], table[before:]
        new.copy_(old.mean(0) + 0.1 * old.std(0) * torch.randn(new.shape))


def weights_of(model: nn.Module, trained_only: bool = False) -> dict[str, Tensor]:
    """All that a file must hold to have the model again: of tied weights one. Not copied."""
    named = {
        name for name, parameter in model.named_parameters() if parameter.requires_grad or not trained_only
    }
    if trained_only:
        return {name: parameter for name, parameter in model.named_parameters() if name in named}
    tied = {name for name, _ in model.named_parameters(remove_duplicate=False)} - named
    return {name: tensor for name, tensor in model.state_dict().items() if name not in tied}


@torch.no_grad()
def load_weights(
    model: nn.Module, weights: Mapping[str, Tensor], field: str, trained_only: bool = False
) -> None:
    """Copy weights into the model; refused where a name or a shape is not the model's."""
    own = weights_of(model, trained_only)
    for name, tensor in own.items():
        require(name in weights, field, f"has no weights {name}")
        given, needed = tuple(weights[name].shape), tuple(tensor.shape)
        require(given == needed, field, f"{name} has shape {given}, this model needs {needed}")
        tensor.copy_(weights[name])


def takes(model: nn.Module, argument: str) -> bool:
    """Whether the model's forward pass has an argument of this name."""
    network: Any = type(getattr(model, "get_base_model", lambda: model)())
    return argument in _arguments(network)


@cache
def _arguments(network: Any) -> frozenset[str]:
    return frozenset(inspect.signature(network.forward).parameters)


def answer_logits(model: nn.Module, batch: Batch) -> Tensor:
    """(batch, length - first, vocabulary) logits at the positions from `batch.first` on.

    The rows are filled up on the right, where causal attention never looks: they need no mask, and positions
    0, 1, 2, … are right for absolute, rotary and ALiBi models alike.
    """
    more: dict[str, Any] = {}
    if batch.positions is not None:
        # without a mask transformers takes a jump of the ids for the beginning of another, packed sequence
        more = {"position_ids": batch.positions, "attention_mask": torch.ones_like(batch.tokens)}
    length = batch.tokens.shape[1]
    keeps = takes(model, "logits_to_keep")
    if keeps:
        more["logits_to_keep"] = length - batch.first
    logits: Tensor = model(input_ids=batch.tokens, use_cache=False, **more).logits
    return logits if keeps else logits[:, batch.first :]


def require_peft() -> Any:
    try:
        import peft  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise BadInput("lora.rank", "needs the library peft: pip install 'internalize[lora]'") from None
    return peft


def add_adapters(
    model: nn.Module, fields: LoraFields, tokenizer: TextTokenizer, generator: torch.Generator
) -> nn.Module:
    """The model with everything frozen but new matrices and the markers' own rows of the embedding."""
    peft = require_peft()
    assert fields.rank is not None
    markers = tokenizer.markers
    trained = [markers.chain, markers.answer, markers.end, markers.pause, markers.pad, *markers.budgets]
    from transformers.pytorch_utils import Conv1D

    settings = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=fields.rank,
        lora_alpha=2 * fields.rank if fields.alpha is None else fields.alpha,
        target_modules=list(fields.targets) or "all-linear",
        trainable_token_indices=sorted(trained),
        lora_dropout=0.0,
        # GPT-2's layers hold their matrices the other way round
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
    )
    try:
        with drawing_from(generator):
            found: nn.Module = peft.get_peft_model(model, settings)
    except Exception as error:  # no such modules, or of a kind that adapters cannot stand beside
        if is_out_of_memory(error):
            raise
        said = " ".join(str(error).split())[:200]
        raise BadInput("lora.targets" if fields.targets else "lora.rank", said) from None
    return found


def merged(model: nn.Module) -> nn.Module:
    """A plain model of the same function: the matrices added to the weights beside them. A copy."""
    whole: Any = copy.deepcopy(model)
    found: nn.Module = whole.merge_and_unload()
    return found
