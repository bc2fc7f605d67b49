"""A run on a node far from its driver: its folder in two places, one attempt at it, and what it says.

Knows nothing of how a cluster passes calls and files on: see `ray.py`. Every checkpoint goes home when it is
written, so that a lost node costs no more than a lost process; a run that
begins on a node first fetches what is at home.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from internalize.contract import Begun, Ended, Event, Row, RunState, Stage
from internalize.errors import BadInput, RunFailed
from internalize.runs.storage import LOCK, OWNER, flush, move, sync_folder
from internalize.runtime.fleet.pool import Reporter, carry_out

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

    def begin(self, folder: Path, stage: Stage) -> None:
        self.send()

    def stepped(self, stage: Stage) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + PAUSE
        if _names(self.folder / "checkpoints") != self._checkpoints:
            self.send()

    def row(self, row: Row, stage: Stage) -> None: ...

    def end(self, state: RunState, summary: Row) -> None:
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


# An attempt -----------------------------------------------------------------------------------------------


class Board(HomeFolder):
    """Beside the driver: what the runs say, and the way home for their files."""

    def __init__(self, out: str, driver: int) -> None:
        """driver: its process; the board is on the same machine."""
        super().__init__(Path(out))
        self._driver = driver
        self._said: list[tuple[int, Event]] = []

    def _require(self, run: str, number: int) -> None:
        """When the driver is dead, another one may have the folder already."""
        os.kill(self._driver, 0)
        super()._require(run, number)

    def tell(self, index: int, event: Event) -> None:
        self._said.append((index, event))

    def take(self) -> list[tuple[int, Event]]:
        said, self._said = self._said, []
        return said


class SentFile(NamedTuple):
    """A file of the user on its way to a node."""

    digest: str
    name: str
    content: bytes


def attempt_here(
    job: dict[str, Any], files: Mapping[str, SentFile], home: Home, tell: Callable[[Event], None]
) -> Ended:
    """Begin or continue a run on this node; returns the event with which it ended.

    job: as for `pool.carry_out`, with `out` and `folder`, where the run is at home, and `token`, the name of
    a file that whoever sees that place finds there; None if the results are to be sent home.
    files: the user's, by the names that the config has for them.
    tell: is given the events on the way.
    """
    ended: list[Ended] = []

    def hear(event: Event) -> None:
        if isinstance(event, Ended):
            ended.append(event)
        else:  # at home the run has another folder
            tell(replace(event, run="") if isinstance(event, Begun) else event)

    with tempfile.TemporaryDirectory(prefix="internalize-sources-") as folder:
        copies = {name: _write_copy(Path(folder), file) for name, file in files.items()}
        if job["token"] is None:
            _mirrored(job, Reporter(hear), home, copies)
        else:
            _require_shared(job)
            carry_out(job, Reporter(hear), copies=copies)
    end = ended[-1]
    return replace(end, run=str(Path(job["out"]) / job["folder"])) if end.run else end


def _mirrored(job: dict[str, Any], reporter: Reporter, home: Home, copies: Mapping[str, Path]) -> None:
    """Train in a folder of this node, with the folder at home kept up to date."""
    with tempfile.TemporaryDirectory(prefix="internalize-runs-") as scratch:
        mirror = Mirror(Path(scratch) / job["folder"], home)
        mirror.fetch()
        job["execution"]["out"] = scratch
        carry_out(job, reporter, [mirror], copies)
        mirror.send()


def _require_shared(job: Mapping[str, Any]) -> None:
    if not Path(job["out"], job["token"]).exists():
        raise BadInput("results", f"the node {os.uname().nodename} does not see {job['out']}: use fetched")


def _write_copy(folder: Path, file: SentFile) -> Path:
    path = folder / file.digest / file.name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(file.content)
    return path
