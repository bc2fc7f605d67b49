"""The manifest of a finished run: what every file held when it was done, so that damage is never silent.

It is written last, and it goes before anything else changes: where it is, all that it lists must be as it says.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path, PurePosixPath
from typing import Any

from internalize.runs.storage import (
    Unreadable,
    parse_json,
    read_json,
    read_plain,
    require_shape,
    write_json,
)

MANIFEST = "manifest.json"
LISTED = (
    *(".run.json", "config.json", "provenance.json", "status.json", "metrics.jsonl", "timing.jsonl"),
    *("sources.json", "sources/*/*", "model/*", "stages/*.safetensors", "checkpoints/*.safetensors"),
)
"""Which files; what else is in the folder, such as a tracker's, is none of ours."""
MAY_GO = ("stages", "checkpoints")
"""What `runs prune` takes away whole."""

Record = dict[str, dict[str, Any]]
"""File → its number of `bytes` and its `sha256`."""


def write_manifest(folder: Path) -> None:
    """Record every file of the run as it is now."""
    files = sorted(path for pattern in LISTED for path in folder.glob(pattern) if _is_ours(path))
    record = {path.relative_to(folder).as_posix(): _record_of(path) for path in files}
    write_json(folder / MANIFEST, {"files": record, "sha256": _digest(record)})


def read_manifest(folder: Path) -> Record | None:
    """What the manifest lists; None without one. `Unreadable` where it is damaged itself."""
    try:
        found = require_shape(read_json(folder / MANIFEST), {"files": (dict,)}, needed=["files", "sha256"])
        for name, known in found["files"].items():  # whoever forges one can give it the right digest
            require_shape(known, {"bytes": (int,), "sha256": (str,)}, needed=["bytes", "sha256"])
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise Unreadable(f"names a file that is not in the run's folder: {name[:60]}")
    except FileNotFoundError:
        return None
    except Unreadable as error:
        raise Unreadable(f"cannot be checked: {MANIFEST} {error}") from None
    if found["sha256"] != _digest(found["files"]):
        raise Unreadable(f"cannot be checked: {MANIFEST} is not what was written")
    return dict(found["files"])


def require_unchanged(folder: Path, name: str, content: bytes) -> None:
    """`Unreadable` if the content of a file that was just read is not what the manifest says."""
    record = read_manifest(folder)
    if record is not None and name in record and record[name]["sha256"] != _sha256(content):
        raise Unreadable("is not what was written when the run was done")


def read_checked(folder: Path, name: str) -> Any:
    """The JSON in a file of a run; `Unreadable` also where it is not as it was when the run was done."""
    try:
        content = read_plain(folder / name)
    except FileNotFoundError:
        if name in (read_manifest(folder) or {}):
            raise Unreadable("is missing, though the run is done") from None
        raise
    found = parse_json(content)
    require_unchanged(folder, name, content)
    return found


def changed_files(folder: Path, thorough: bool = True) -> dict[str, str]:
    """The files that are not as the manifest says, and how; none where there is no manifest.

    thorough: read them; else only their sizes are looked at.
    """
    try:
        record = read_manifest(folder) or {}
    except (Unreadable, OSError) as error:
        return {MANIFEST: str(error)}
    found = {}
    for name, known in record.items():
        path, part = folder / name, name.partition("/")[0]
        if part in MAY_GO and not (folder / part).exists():
            continue
        if not _is_ours(path):
            found[name] = "is missing"
        elif path.stat().st_size != known["bytes"]:
            found[name] = f"has {path.stat().st_size:,} bytes in place of {known['bytes']:,}"
        elif thorough and _record_of(path) != known:
            found[name] = "has changed"
    return found


def _is_ours(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and not path.name.endswith(".tmp")


def _record_of(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _digest(record: Any) -> str:
    return _sha256(json.dumps(record, sort_keys=True).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
