"""Files and folders that enter a run's identity by their hash and are not copied into the run.

A file of training rows can have gigabytes and a folder with a language model more: every run would carry them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from internalize.configs.named import Source

READ_AT_ONCE = 2**20


@dataclass(frozen=True)
class ContentSource(Source):
    """A file or a folder that stays where it is."""

    kept: bool = False

    def digest(self) -> str:
        """Of a folder: of the names and contents of all its files but hidden ones."""
        if self.path.is_file():
            return _digest_of_file(self.path)
        whole = hashlib.sha256()
        for path in files_of(self.path):
            whole.update(f"{path.relative_to(self.path).as_posix()} {_digest_of_file(path)}\n".encode())
        return whole.hexdigest()


def files_of(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _digest_of_file(path: Path) -> str:
    state = path.stat()
    return _digest_once(path, state.st_ino, state.st_size, state.st_mtime_ns)


@cache  # a command prepares a config more than once, and a model has gigabytes
def _digest_once(path: Path, inode: int, size: int, changed: int) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(READ_AT_ONCE):
            found.update(block)
    return found.hexdigest()
