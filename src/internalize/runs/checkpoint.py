"""Checkpoints: one safetensors file holds a whole state, its scalars and a checksum of both."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from internalize.errors import RunWarning, require
from internalize.runs.storage import require_file, write_atomically

if TYPE_CHECKING:
    from torch import Tensor

NAME = re.compile(r"[0-9]{12,}\.safetensors")
KEPT = 2
"""How many checkpoints stay: if the newest one turns out damaged there is one before it."""
METRICS = "metrics.jsonl"
"""The name under which a checkpoint keeps the rows written so far."""


class Damaged(ValueError):
    """A file of tensors that is not what was written."""


@dataclass(frozen=True)
class Checkpoint:
    """A moment of a run: nothing else is needed to go on from it."""

    step: int
    tensors: dict[str, Tensor]
    scalars: dict[str, Any]
    metrics: bytes
    """All of metrics.jsonl up to here: whatever happens to that file, it can be written again."""
    measured: bool = True
    """Whether the measurement due at this step is in the metrics; not so if a signal cut it short."""


def save_tensors(path: Path, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> None:
    """Write tensors and JSON scalars to one file, atomically and with a checksum."""
    from safetensors.torch import save

    # clone: safetensors refuses views into one flat tensor
    plain = {name: tensor.detach().to("cpu").contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps(scalars, sort_keys=True)
    metadata = {"format": "pt", "scalars": text, "checksum": _checksum(plain, text)}
    write_atomically(path, _same_bytes_every_time(save(plain, metadata)))


def _same_bytes_every_time(content: bytes) -> bytes:
    """safetensors writes its metadata in an order that differs from call to call: sort them."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data begin at a multiple of eight bytes
    return b"".join([len(text).to_bytes(8, "little"), text, memoryview(content)[start:]])


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote; `Damaged` if any of it is different."""
    from safetensors import SafetensorError, safe_open

    try:
        require_file(path)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = metadata["scalars"]
        if metadata["checksum"] != _checksum(tensors, text):
            raise Damaged(f"{path} does not match its checksum")
        return tensors, json.loads(text)
    except (SafetensorError, KeyError, OSError, ValueError) as error:
        raise error if isinstance(error, Damaged) else Damaged(f"{path} cannot be read: {error}") from error


def save_checkpoint(folder: Path, identity: str, checkpoint: Checkpoint) -> Path:
    """Add a checkpoint and drop all but the newest two.

    identity: digest of what the run computes, so that no checkpoint is ever taken for another run's.
    """
    import torch

    folder.mkdir(exist_ok=True)
    path = place_of(folder, checkpoint.step)
    scalars = {"identity": identity, "state": checkpoint.scalars, "measured": checkpoint.measured}
    # frombuffer takes no empty buffer: the first checkpoint is made before the first row
    rows = torch.zeros(0, dtype=torch.uint8)
    if checkpoint.metrics:
        rows = torch.frombuffer(bytearray(checkpoint.metrics), dtype=torch.uint8)
    save_tensors(path, {**checkpoint.tensors, METRICS: rows}, scalars)
    # what is newer than the newest was found damaged, or this run would have gone on from there
    past = [old for old in checkpoints(folder) if old <= path]
    for old in set(checkpoints(folder)) - set(past[:KEPT]):
        old.unlink()
    return path


def load_newest(folder: Path, identity: str) -> Checkpoint | None:
    """The newest good checkpoint; damaged ones are passed over with a warning."""
    for path in checkpoints(folder):
        try:
            tensors, scalars = load_tensors(path)
            rows = bytes(tensors.pop(METRICS).numpy())
            made_by, state, measured = (scalars[name] for name in ("identity", "state", "measured"))
            if not (isinstance(state, dict) and isinstance(measured, bool)):
                raise Damaged(f"{path} has no state of a run in it")
        except (Damaged, KeyError, TypeError) as error:
            warnings.warn(f"checkpoint passed over: {error}", RunWarning, stacklevel=2)
            continue
        require(made_by == identity, "run", f"{path} belongs to another run ({made_by}, not {identity})")
        return Checkpoint(int(path.stem), tensors, state, rows, measured)
    return None


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoints, newest first."""
    named = [path for path in folder.glob("[0-9]*.safetensors") if NAME.fullmatch(path.name)]
    return sorted(named, reverse=True)


def drop_older(folder: Path, step: int) -> None:
    """Finish what a killed process has left: of the checkpoints up to that step only the newest two stay."""
    past = [path for path in checkpoints(folder) if path <= place_of(folder, step)]
    for old in past[KEPT:]:
        old.unlink()


def place_of(folder: Path, step: int) -> Path:
    """Where the checkpoint of that step is."""
    return folder / f"{step:012d}.safetensors"


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    import torch

    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"|{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
