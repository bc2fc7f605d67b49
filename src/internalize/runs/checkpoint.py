"""Checkpoints: one safetensors file holds a whole state, its scalars and a checksum of both."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from internalize.runs.atomic import write_atomically

KEPT = 2
"""How many checkpoints stay: if the newest one turns out damaged there is one before it."""


class Damaged(ValueError):
    """A file of tensors that is not what was written."""


@dataclass(frozen=True)
class Checkpoint:
    """A saved state, and how long the metrics were when it was saved."""

    tensors: dict[str, Tensor]
    scalars: dict[str, Any]
    metrics_bytes: int


def save_tensors(path: Path, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> None:
    """Write tensors and JSON scalars to one file, atomically and with a checksum."""
    # clone: safetensors refuses views into one flat tensor
    plain = {name: tensor.detach().to("cpu").contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps(scalars, sort_keys=True)
    metadata = {"format": "pt", "scalars": text, "checksum": _checksum(plain, text)}
    write_atomically(path, save(plain, metadata))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote; `Damaged` if one bit of it is different."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = metadata["scalars"]
        if metadata["checksum"] != _checksum(tensors, text):
            raise Damaged(f"{path} does not match its checksum")
        return tensors, json.loads(text)
    except (SafetensorError, KeyError, OSError, ValueError) as error:
        raise error if isinstance(error, Damaged) else Damaged(f"{path} cannot be read: {error}") from error


def save_checkpoint(folder: Path, step: int, checkpoint: Checkpoint) -> Path:
    """Add a checkpoint and drop all but the newest two."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{step:012d}.safetensors"
    scalars = {"state": checkpoint.scalars, "metrics_bytes": checkpoint.metrics_bytes}
    save_tensors(path, checkpoint.tensors, scalars)
    for old in _newest_first(folder)[KEPT:]:
        old.unlink()
    return path


def load_newest(folder: Path, metrics_bytes: int) -> Checkpoint | None:
    """The newest good checkpoint; damaged ones are passed over with a warning.

    metrics_bytes: how long the metrics are now. A checkpoint that counts on more of them is of no use, since
    the rows between could not be written again.
    """
    for path in _newest_first(folder):
        try:
            tensors, scalars = load_tensors(path)
        except Damaged as error:
            warnings.warn(f"checkpoint passed over: {error}", stacklevel=2)
            continue
        if scalars["metrics_bytes"] > metrics_bytes:
            warnings.warn(f"checkpoint passed over: metrics.jsonl is shorter than {path} says", stacklevel=2)
            continue
        return Checkpoint(tensors, scalars["state"], scalars["metrics_bytes"])
    return None


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.safetensors"), reverse=True)


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"|{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
