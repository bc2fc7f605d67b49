"""Where a training starts from, if not from random weights: another run, a stage of it, or a folder."""

from __future__ import annotations

from pathlib import Path

from internalize.configs.named import Copies, Source
from internalize.errors import BadInput, require
from internalize.runs.folder import Run


def find_weights(text: str, copies: Copies, field: str = "init-from") -> Source:
    """The file of weights that `RUN`, `RUN@STAGE` or a Hugging Face folder names."""
    if text in copies:
        return Source(text, copies[text])
    if Path(text).is_dir() and not (Path(text) / "status.json").exists():
        path = Path(text) / "model.safetensors"
        require(path.is_file(), field, f"{text} is neither a run nor a folder with a model.safetensors")
        return Source(text, path)
    folder, at, stage = text.rpartition("@")
    if not at:
        return Source(text, Run.open(text, field).weights_path())
    require(stage.isdigit(), field, f"must end in a stage's number after @, got {text!r}")
    try:
        return Source(text, Run.open(folder, field).weights_path(int(stage)))
    except BadInput as error:
        raise BadInput(field, error.message) from None
