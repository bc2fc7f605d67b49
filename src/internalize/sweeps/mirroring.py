"""A run folder in two places: where a node trains it, and where the sweep was issued.

Every checkpoint goes home when it is written, so that a lost node costs no more than a lost process; a run
that begins on a node first fetches what is at home.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from internalize.errors import RunFailed
from internalize.runs.atomic import flush, move, sync_folder
from internalize.runs.folder import Run
from internalize.runs.lock import LOCK, OWNER
from internalize.runtime.experiment import Row, Stage

PIECE = 8 * 2**20
"""Bytes that travel at once."""
PAUSE = 0.5
"""Seconds between two looks for a new checkpoint."""
LAST = ("config.json", "status.json")
"""Files that say what a folder is and that it is done: they travel after all others."""


class Home(Protocol):
    """The folder of runs where the sweep was issued."""

    def enter(self, run: str) -> int:
        """A number for whoever trains the run from now on; whoever had one before may not write any more."""

    def files(self, run: str) -> list[str]: ...

    def read(self, run: str, path: str, offset: int) -> bytes: ...

    def write(self, run: str, number: int, path: str, piece: bytes, first: bool, last: bool) -> None: ...

    def keep_only(self, run: str, number: int, folder: str, names: list[str]) -> None: ...


class HomeFolder:
    """The home itself, on the machine of the sweep."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._numbers: dict[str, int] = {}
        self._writing = threading.Lock()

    def enter(self, run: str) -> int:
        """A node that was given up for lost may still be at work for a while: its number is out of date."""
        with self._writing:
            self._numbers[run] = self._numbers.get(run, 0) + 1
            return self._numbers[run]

    def _require(self, run: str, number: int) -> None:
        if self._numbers.get(run) != number:
            raise RunFailed(f"{run} is being trained elsewhere by now")

    def files(self, run: str) -> list[str]:
        return _files(self.out / run)

    def read(self, run: str, path: str, offset: int) -> bytes:
        with (self.out / run / path).open("rb") as file:
            file.seek(offset)
            return file.read(PIECE)

    def write(self, run: str, number: int, path: str, piece: bytes, first: bool, last: bool) -> None:
        """The pieces of a file come in order; it is in place when the last one is there."""
        target = self.out / run / path
        incoming = target.with_name(f".{target.name}.incoming.tmp")
        with self._writing:
            self._require(run, number)
            target.parent.mkdir(parents=True, exist_ok=True)
            with incoming.open("wb" if first else "ab") as file:
                file.write(piece)
                if last:
                    flush(file)
            if last:
                move(incoming, target)
                sync_folder(target.parent)

    def keep_only(self, run: str, number: int, folder: str, names: list[str]) -> None:
        """Delete what the node has deleted too."""
        with self._writing:
            self._require(run, number)
            for path in (self.out / run / folder).glob("*"):
                if path.name not in names:
                    path.unlink()


class Mirror:
    """An observer that sends home what has changed whenever a new checkpoint is there."""

    def __init__(self, folder: Path, home: Home) -> None:
        self.folder, self.home = folder, home
        self._sent: dict[str, tuple[int, int]] = {}
        self._checkpoints: set[str] = set()
        self._next_look = 0.0
        self._number = 0

    def fetch(self) -> None:
        """Take the run over, with all of it that is at home."""
        self._number = self.home.enter(self.folder.name)
        for path in self.home.files(self.folder.name):
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                while piece := self.home.read(self.folder.name, path, file.tell()):
                    file.write(piece)
            self._sent[path] = _stamp(target)
        self._checkpoints = _names(self.folder / "checkpoints")

    def send(self) -> None:
        for path in _files(self.folder):
            stamp = _stamp(self.folder / path)
            if self._sent.get(path) != stamp:
                for piece, first, last in _pieces(self.folder / path):
                    self.home.write(self.folder.name, self._number, path, piece, first, last)
                self._sent[path] = stamp
        self._checkpoints = _names(self.folder / "checkpoints")
        self.home.keep_only(self.folder.name, self._number, "checkpoints", sorted(self._checkpoints))

    def begin(self, run: Run, stage: Stage) -> None:
        self.send()

    def stepped(self, stage: Stage) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + PAUSE
        if _names(self.folder / "checkpoints") != self._checkpoints:
            self.send()

    def row(self, row: Row, stage: Stage) -> None: ...

    def end(self, state: str, summary: Row) -> None:
        """Whoever began the run sends the last state of the folder."""


def _files(folder: Path) -> list[str]:
    """All but the lock and half-written files, those that say most last."""
    found = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    found = [path for path in found if path not in (LOCK, OWNER) and not path.endswith(".tmp")]
    return sorted(found, key=lambda path: LAST.index(path) if path in LAST else -1)


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*") if not path.name.endswith(".tmp")}


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _pieces(path: Path) -> Iterator[tuple[bytes, bool, bool]]:
    """(piece, whether it is the first, whether it is the last); one empty piece for an empty file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while True:
            start = file.tell()
            piece = file.read(PIECE)
            yield piece, start == 0, start + len(piece) >= size
            if start + len(piece) >= size or not piece:
                return
