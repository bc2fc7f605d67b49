"""Folders that a user names to be written to."""

from __future__ import annotations

import os
from pathlib import Path

from internalize.errors import require


def require_writable(folder: Path, field: str = "out") -> Path:
    """Refuse a folder that could not be made or written to, before any time is spent. Makes nothing."""
    whole = folder.absolute()
    there = next(path for path in (whole, *whole.parents) if os.path.lexists(path))
    require(there.is_dir(), field, f"cannot write to {folder}: {there} is not a folder")
    require(os.access(there, os.W_OK | os.X_OK), field, f"cannot write to {folder}: {there} is write-protected")
    return folder
