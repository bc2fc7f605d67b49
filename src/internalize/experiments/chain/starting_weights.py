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
    good = not at or (stage.isascii() and stage.isdigit())
    require(good, field, f"must end in a stage's number after @, got {text!r}")
    try:
        run = Run.open(folder if at else text, field)
        return Source(text, run.weights_path(int(stage) if at else None))
    except BadInput as error:
        raise BadInput(field, error.message) from None
