"""The index over runs: an SQLite file beside them that can be deleted and rebuilt at will.

The folders are the truth. The index only saves opening ten thousand of them: a refresh looks at every
folder's two small files from outside (inode, size, time of change) and reads those that have changed.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, TypeVar

from internalize.contract import RunState
from internalize.errors import BadInput, require
from internalize.runs.folder import Run
from internalize.runs.location import run_folders
from internalize.runs.manifest import MANIFEST, read_checked
from internalize.runs.storage import Unreadable, living_state, require_shape

INDEX = ".index.sqlite"
SCHEMA = 3
"""Goes up when the table changes; an index of another schema is made anew."""
OLDER_SUBJECTS = ("task", "circuit", "game")
OLDER_ACCURACIES = ("id_accuracy", "accuracy", "raw_optimal_rate")
"""Where folders have it whose status.json does not say yet what is learned, and how well."""
BUSY_SECONDS = 30.0
"""How long a writer waits for another one."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Entry:
    """What the index knows of a run: its fields are the columns of the table."""

    path: str
    """Where the run folder is, below the store's folder."""
    stamp: str
    """Changes when the folder's config or status does."""
    hash: str
    kind: str
    task: str | None
    """What is learned, as the run's status says."""
    method: str | None
    horizon: int | None
    seed: int | None
    state: RunState
    """new, running, interrupted, failed, done, or damaged: not readable as a run."""
    accuracy: float | None
    """Final-state accuracy in distribution, of finished runs, as the run's status says."""
    ood_accuracy: float | None
    seconds: float | None
    created: str | None
    message: str | None
    """Why it failed or cannot be read."""
    config_text: str
    summary_text: str

    @property
    def config(self) -> dict[str, Any]:
        return dict(json.loads(self.config_text))

    @property
    def summary(self) -> dict[str, Any]:
        """The results; empty unless the run is done."""
        return dict(json.loads(self.summary_text))


COLUMNS = tuple(Entry.__annotations__)


@dataclass(frozen=True)
class Filter:
    """Which runs; None: all."""

    task: str | None = None
    method: str | None = None
    state: str | None = None
    min_accuracy: float | None = None

    def fits(self, entry: Entry) -> bool:
        """Whether the rest holds, which no SQL asks. `div3` is also the task of div3.json and of x.py:div3."""
        named = self.task is None or self.task in names_of_task(entry.task or "")
        return named and self.state in (None, entry.state)

    def sql(self) -> tuple[str, list[Any]]:
        """A condition and its values for what the index knows for sure."""
        wanted = {"method = ?": self.method, "accuracy >= ?": self.min_accuracy}
        given = {test: value for test, value in wanted.items() if value is not None}
        return " AND ".join(given) or "1", list(given.values())


def names_of_task(task: str) -> set[str]:
    """What a user may call a task that a file describes: the file with or without its folder and its ending."""
    file, _, attribute = task.rpartition(":")
    path = PurePath(file or task)
    return {task, path.name, path.stem, attribute}


class Store:
    """The runs below a folder."""

    def __init__(self, out: Path) -> None:
        first = "internalize train --preset laptop --task C2 --horizon 6"
        require(
            out.is_dir(), "out", f"there is no folder {out}, so there are no runs yet; for a first one: {first}"
        )
        self.out = out

    def entries(self, wanted: Filter | None = None, from_folders: bool = False) -> list[Entry]:
        """All runs that pass the filter, by path, as their folders are now.

        from_folders: read every folder and believe no index, for whoever is going to delete some.
        """
        wanted = wanted or Filter()
        condition, values = wanted.sql()
        query = f"SELECT {', '.join(COLUMNS)} FROM runs WHERE {condition} ORDER BY path"

        def read(index: sqlite3.Connection) -> list[Entry]:
            there = _refresh(index, self.out)
            rows = [Entry(*row) for row in index.execute(query, values)]
            return [self._as_it_is(entry) for entry in rows if entry.path in there]

        found = self._with_index(read, from_folders)
        return [entry for entry in found if wanted.fits(entry)]

    def rebuild(self) -> int:
        """Forget the index and read every folder again; the number of runs."""

        def read(index: sqlite3.Connection) -> int:
            _refresh(index, self.out)
            return int(index.execute("SELECT count(*) FROM runs").fetchone()[0])

        self._delete()
        return self._with_index(read)

    def _as_it_is(self, entry: Entry) -> Entry:
        """A run that was killed says that it is running, but nobody owns it."""
        return replace(entry, state=living_state(RunState(entry.state), self.out / entry.path))

    def _with_index(self, work: Callable[[sqlite3.Connection], Result], in_memory: bool = False) -> Result:
        """A damaged index is made anew; where none can be written, one in memory does for this once."""
        if (self.out / INDEX).is_symlink():  # a database is none of ours that is kept elsewhere
            self._delete()
        places = [":memory:"] if in_memory else [str(self.out / INDEX), str(self.out / INDEX), ":memory:"]
        while True:
            try:
                with closing(_connect(places.pop(0), self.out)) as index:
                    return work(index)
            except sqlite3.OperationalError:  # a read-only folder, or a writer that never ends
                if not places:
                    raise
                places = places[-1:]
            except sqlite3.DatabaseError:
                if not places:
                    raise
                self._delete()

    def _delete(self) -> None:
        for ending in ("", "-wal", "-shm"):
            with suppress(OSError):
                (self.out / f"{INDEX}{ending}").unlink(missing_ok=True)


TABLE = f"CREATE TABLE runs (path TEXT PRIMARY KEY, {', '.join(COLUMNS[1:])}) WITHOUT ROWID"
HOME = "CREATE TABLE home (folder TEXT)"
"""Which folder the index was made for: one that came with a folder from elsewhere knows nothing of this one."""


def _connect(place: str, out: Path) -> sqlite3.Connection:
    index = sqlite3.connect(place, timeout=BUSY_SECONDS)
    try:
        index.execute("PRAGMA journal_mode = WAL")
        index.execute("PRAGMA synchronous = OFF")  # it can always be made again
        index.execute("PRAGMA trusted_schema = OFF")
        if not _is_ours(index, out):
            with index:
                index.execute("BEGIN IMMEDIATE")
                if _is_ours(index, out):  # another process was faster
                    return index
                if _schema(index):
                    raise sqlite3.DatabaseError("an index from elsewhere, or of another schema")
                index.execute(TABLE)
                index.execute(HOME)
                index.execute("INSERT INTO home VALUES (?)", [_home(out)])
                index.execute(f"PRAGMA user_version = {SCHEMA}")
    except BaseException:
        index.close()
        raise
    return index


def _schema(index: sqlite3.Connection) -> set[str]:
    """All that is defined in it: also views and triggers, with which a received file could make up rows."""
    return {sql for (sql,) in index.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}


def _is_ours(index: sqlite3.Connection, out: Path) -> bool:
    if index.execute("PRAGMA user_version").fetchone()[0] != SCHEMA or _schema(index) != {TABLE, HOME}:
        return False
    return index.execute("SELECT folder FROM home").fetchall() == [(_home(out),)]


def _home(out: Path) -> str:
    """What no copy of a folder has in common with it."""
    folder = out.stat()
    return f"{folder.st_dev}.{folder.st_ino}"


def _refresh(index: sqlite3.Connection, out: Path) -> dict[str, str]:
    """Read the folders that are new or changed, forget those that are gone; the paths that are there."""
    known = dict(index.execute("SELECT path, stamp FROM runs"))
    there = {
        _as_text(Path(folder).relative_to(out).as_posix()): _stamp(folder, config)
        for folder, config in run_folders(out)
    }
    changed = [_read(out, path, stamp) for path, stamp in there.items() if known.get(path) != stamp]
    gone = [(path,) for path in known if path not in there]
    if not changed and not gone:
        return there
    places = ", ".join("?" * len(COLUMNS))
    with index:
        index.executemany(f"INSERT OR REPLACE INTO runs VALUES ({places})", changed)
        index.executemany("DELETE FROM runs WHERE path = ?", gone)
    return there


def _as_text(path: str) -> str:
    """A path that can be stored and printed: the bytes of a name that is not UTF-8 are spelled out."""
    return path.encode("utf-8", "backslashreplace").decode()


def _stamp(folder: str, config: os.stat_result) -> str:
    """Every atomic write makes a new inode, so that even two changes within one tick of the clock show."""
    files = [config]
    for name in ("status.json", "provenance.json", MANIFEST):
        with suppress(OSError):
            files.append(os.stat(f"{folder}/{name}"))  # noqa: PTH116
    return " ".join(f"{file.st_ino}.{file.st_size}.{file.st_mtime_ns}" for file in files)


def _first_of(names: Sequence[str], values: Mapping[str, Any]) -> Any:
    return next((values[name] for name in names if name in values), None)


def _if_a(kind: type, value: Any) -> Any:
    """The value, if a column can hold it; a user's own kind may call something else by the same name."""
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    good = isinstance(value, kind) and not isinstance(value, bool)
    return value if good and not (kind is int and abs(value) >= 2**63) else None


def require_if_there(path: Path) -> None:
    """Refuse a file that is there and is no JSON object, and one that is gone from a finished run."""
    try:
        require_shape(read_checked(path.parent, path.name), {})
    except FileNotFoundError:
        return
    except Unreadable as error:
        raise BadInput("run", f"{path} {error}") from None


def _read(out: Path, path: str, stamp: str) -> tuple[Any, ...]:
    """The row of one folder, whatever is wrong with it."""
    try:
        strange = "\\" in path and not (out / path).exists()  # see `_as_text`
        require(not strange, "run", f"{out / path} has a name that is not UTF-8 text: rename the folder")
        run = Run.at(out / path)
        identity, status = run.identity(), run.status()
        created = run.provenance().get("created")
        require_if_there(run.path / "provenance.json")
    except (BadInput, OSError) as error:
        unknown = (None,) * 4
        message = error.message if isinstance(error, BadInput) else f"{out / path}: {error.strerror}"
        return (path, stamp, "", "", *unknown, RunState.DAMAGED, *unknown, _as_text(message), "{}", "{}")
    config, summary = dict(identity.config), dict(status.get("summary", {}))
    return (
        path,
        stamp,
        identity.digest(),
        identity.kind,
        _if_a(str, status.get("subject", _first_of(OLDER_SUBJECTS, config))),
        _if_a(str, config.get("method")),
        *(_if_a(int, config.get(name)) for name in ("horizon", "seed")),
        status["state"],
        _if_a(float, status.get("accuracy", _first_of(OLDER_ACCURACIES, summary))),
        _if_a(float, status.get("ood_accuracy", summary.get("ood_accuracy"))),
        _if_a(float, status.get("seconds")),
        created,
        status.get("message"),
        json.dumps(config),
        json.dumps(summary),
    )
