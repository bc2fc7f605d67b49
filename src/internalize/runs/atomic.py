"""Files that are there whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, BinaryIO


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the path, flush to the disk, move into place, flush the folder.

    Whoever reads the path, at whatever moment the machine stops, finds the old content or the new.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file, content)
            flush(file)
        move(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


# The steps of saving, each by its own name, so that tests can make any one of them fail.


def write(file: BinaryIO, content: bytes) -> None:
    file.write(content)


def flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def move(temporary: Path, path: Path) -> None:
    temporary.replace(path)


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable, where the system has a way to (Windows has none)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove the half-written files that killed processes left in the folder and one level below it.

    Only the folder's owner may: what another process is writing just now looks the same.
    """
    leftovers = [path for pattern in (".*.tmp", "*/.*.tmp") for path in folder.glob(pattern)]
    for path in leftovers:
        path.unlink(missing_ok=True)
    return leftovers


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
