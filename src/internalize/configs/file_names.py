"""Under which names a file can be written: looked at before anything else is written or said."""

from __future__ import annotations

import os
from pathlib import Path

from internalize.errors import require

LONGEST_NAME, LONGEST_PATH = 255, 4_095
"""Bytes of a file's name on every common file system, and of a path that Linux takes."""
TOO_LONG = f"a name may have {LONGEST_NAME} bytes, a path {LONGEST_PATH:,}"


def is_too_long(path: Path) -> bool:
    longest = max(len(os.fsencode(part)) for part in path.parts)
    return longest > LONGEST_NAME or len(os.fsencode(path)) > LONGEST_PATH


def require_file(path: Path, field: str) -> None:
    """Refuse a name under which no file can be written. Standard output is no name."""
    whole = path.absolute()
    require(not is_too_long(whole), field, f"cannot write {str(path)[:60]}…: {TOO_LONG}")
    require(not whole.is_dir(), field, f"cannot write {path}: Is a directory")
    require(whole.parent.is_dir(), field, f"cannot write {path}: there is no folder {path.parent}")
