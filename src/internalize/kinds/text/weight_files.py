"""The weights in a model folder: which files hold them, whether these are whole, and what is in them.

Only headers are read. No pickle is opened, and no file outside of the folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from internalize.errors import BadInput, require
from internalize.kinds.text.tokenization import require_plain_files
from internalize.runs.storage import read_plain, reason_of

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_model.safetensors"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth", "model.ckpt")


def weight_files(folder: Path, field: str) -> list[Path]:
    """The safetensors that the library would load; refused where there are none."""
    require_plain_files(folder, field)
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    if (folder / INDEX).exists():
        return _parts(folder, field)
    adapter = f"{folder} has only an adapter: save the model with the adapter merged into it"
    require(not (folder / ADAPTER).exists(), field, adapter)
    pickled = [name for name in PICKLES if (folder / name).exists()] or [p.name for p in folder.glob("*.bin")]
    convert = "save it again by model.save_pretrained(folder, safe_serialization=True)"
    require(
        not pickled, field, f"{folder} has its weights in {pickled[:1]}, a pickle, not safetensors: {convert}"
    )
    raise BadInput(field, f"{folder} has no {WEIGHTS}")


def _parts(folder: Path, field: str) -> list[Path]:
    """The files that an index names."""
    index = folder / INDEX
    try:
        raw = json.loads(read_plain(index).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(field, f"{index} is not JSON: {reason_of(error)}") from None
    listed = raw.get("weight_map") if isinstance(raw, dict) else None
    if not isinstance(listed, dict) or not listed:
        raise BadInput(field, f"{index} is no index of weights")
    names = sorted(set(map(str, listed.values())))
    for name in names:
        beside = Path(name).name == name and (folder / name).exists()
        require(beside, field, f"{index} names a file {name[:60]!r}, which is not in the folder")
    return [folder / name for name in names]


def require_whole(folder: Path, field: str) -> None:
    """Refuse files that are cut off or damaged, as far as their headers and sizes tell."""
    for path in weight_files(folder, field):
        for _ in _shapes(path, field):
            pass


def shapes_in(folder: Path, field: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of all weights of a folder."""
    for path in weight_files(folder, field):
        yield from _shapes(path, field)


def _shapes(path: Path, field: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            found = [(name, tuple(file.get_slice(name).get_shape())) for name in file.keys()]  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise BadInput(field, f"{path} is not a whole safetensors file: {reason_of(error)}") from None
    yield from found
