"""Where a training starts from, if not from random weights: another run, a stage of it, or a folder."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from internalize.configs.named import Copies, Source
from internalize.errors import BadInput, require
from internalize.models.gpt2 import GPT2
from internalize.models.huggingface import fitting_weights, read_weights
from internalize.models.language_model import LanguageModel
from internalize.runs.folder import Run
from internalize.runs.location import split_stage


def find_weights(text: str, copies: Copies, field: str = "init-from") -> Source:
    """The file of weights that `RUN`, `RUN@STAGE` or a Hugging Face folder names."""
    if text in copies:
        return Source(text, copies[text])
    if Path(text).is_dir() and not (Path(text) / "status.json").exists():
        path = Path(text) / "model.safetensors"
        require(path.is_file(), field, f"{text} is neither a run nor a folder with a model.safetensors")
        return Source(text, path)
    folder, stage = split_stage(text, field)
    try:
        return Source(text, Run.open(folder, field).weights_path(stage))
    except BadInput as error:
        raise BadInput(field, error.message) from None


def read_starting_weights(model: LanguageModel, source: Source, field: str = "init-from") -> dict[str, Tensor]:
    """The weights in the file under the model's own names, refused where they do not fit it."""
    weights = read_weights(source.path, field)
    if isinstance(model, GPT2):  # folders of other people's name the same weights in several ways
        weights = fitting_weights(model, weights, field)
    model.require_fit(weights, field)
    return weights
