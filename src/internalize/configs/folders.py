"""Folders that a user names to be written to."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from internalize.errors import BadInput, require


def require_writable(folder: Path, field: str = "out") -> Path:
    """Refuse a folder that could not be made or written to, before any time is spent. Leaves nothing."""
    whole = folder.absolute()
    there = next(path for path in (whole, *whole.parents) if os.path.lexists(path))
    require(there.is_dir(), field, f"cannot write to {folder}: {there} is not a folder")
    require(os.access(there, os.W_OK | os.X_OK), field, f"cannot write to {folder}: {there} is write-protected")
    try:  # permissions are not all: nobody makes folders in /proc or on a read-only disk
        tempfile.TemporaryDirectory(prefix=".writable-", dir=there).cleanup()
    except OSError as error:
        why = f"no folder can be made in {there} ({error.strerror})"
        raise BadInput(field, f"cannot write to {folder}: {why}") from None
    return folder


def make_folder(folder: Path, field: str = "out") -> Path:
    """Make the folder, with those above it, unless it is there."""
    try:
        require_writable(folder, field).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(field, f"cannot write to {folder}: {error.strerror}") from None
    return folder
