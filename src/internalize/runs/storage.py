"""Files of a run: there whole or not at all, rows that are only added, and trouble with disks in words."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import socket
import stat
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from internalize.configs.files import naming_the_file
from internalize.contract import RunState
from internalize.errors import BadInput, RunFailed, RunWarning, require

# Whole files ---------------------------------------------------------------------------------------------


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the path, flush to the disk, move into place, flush the folder.

    Whoever reads the path, at whatever moment the machine stops, finds the old content or the new.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # a link of this name, which a folder from somebody else may hold, would lead elsewhere
        temporary.unlink(missing_ok=True)
        with naming_the_file(path), temporary.open("xb") as file:
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


# Reading JSON, which may come from anybody ----------------------------------------------------------------

LARGEST_FILE = 2**28
DEEPEST = 100
"""Bytes and nesting beyond which nothing is read: no run writes as much into one file."""
NEWEST_ROWS = 2**17
"""Bytes from the end of a file of rows in which its last measurement is looked for."""


class Unreadable(ValueError):
    """Why a file is not what this package writes; whoever catches it knows the file."""


def reason_of(error: Exception) -> str:
    """Why a file could not be read, in a few words; the file is named beside it."""
    return str(error.strerror if isinstance(error, OSError) and error.strerror else error)


def read_json(path: Path) -> Any:
    """What the file holds; `Unreadable` says what is wrong with it, `OSError` why it cannot be opened."""
    return parse_json(read_plain(path))


def read_plain(path: Path, last: int | None = None) -> bytes:
    """The bytes of a plain file of reasonable size. A FIFO in its place would be waited for without end.

    last: only so many bytes, from its end.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        there = os.fstat(handle)
        if not stat.S_ISREG(there.st_mode):
            raise Unreadable("is not a plain file")
        if there.st_size > LARGEST_FILE:
            raise Unreadable(f"has {there.st_size:,} bytes, at most {LARGEST_FILE:,} are read")
        with os.fdopen(handle, "rb", closefd=False) as file:
            file.seek(0 if last is None else max(0, there.st_size - last))
            return file.read(LARGEST_FILE)
    finally:
        os.close(handle)


def require_file(path: Path) -> None:
    """Refuse what is no plain file, for readers of other libraries, which would wait for a FIFO without end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise Unreadable("is not a plain file")


def parse_json(data: bytes) -> Any:
    """JSON without what would break a reader later: deep nesting, halves of characters, endless numbers, NaN.

    NaN and Infinity are no JSON: a page that carries them, or another program, would refuse all the rest too.
    """
    try:
        long = re.search(rb"[0-9]{19}", data) is not None
        value = json.loads(
            data.decode("utf-8"), parse_int=_parse_long if long else None, parse_constant=_refuse_constant
        )
        if data.count(b"[") + data.count(b"{") > DEEPEST and _is_deeper(value, DEEPEST):
            raise RecursionError
        if b"\\ud" in data.lower():  # else no half of a pair can be there
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise Unreadable("is nested too deeply") from None
    except UnicodeError:
        raise Unreadable("is not UTF-8 text") from None
    except Unreadable:
        raise
    except ValueError as error:
        raise Unreadable(f"is not JSON ({error})" if data.strip() else "is empty") from None
    return value


MOST_DIGITS = 30
"""Of a number: the operations of the longest training have fewer."""


def _parse_long(digits: str) -> float:
    """Beyond 2^64, which libraries take for no number, as a float: operations on large machines come there."""
    if len(digits) > MOST_DIGITS:
        raise Unreadable(f"has a number of more than {MOST_DIGITS} digits")
    number = int(digits)
    return number if abs(number) < 2**64 else float(number)


def _refuse_constant(name: str) -> float:
    raise Unreadable(f"holds {name}, which is no number")


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        inner = (item.values() if isinstance(item, dict) else item for item in level)
        level = [entry for entries in inner for entry in entries if isinstance(entry, dict | list)]
        if not level:
            return False
    return True


Shape = Mapping[str, tuple[type, ...]]
"""Name of an entry → the types that it may have."""
NUMBER = (int, float)


def require_shape(value: Any, shape: Shape, needed: Sequence[str] = ()) -> dict[str, Any]:
    """The value as an object whose known entries have the right types; `Unreadable` names one that has not."""
    if not isinstance(value, dict):
        raise Unreadable("is not an object")
    for name in needed:
        if name not in value:
            raise Unreadable(f"has no {name}")
    for name, types in shape.items():
        found = value.get(name)
        wrong = not isinstance(found, types) or (isinstance(found, bool) and bool not in types)
        if name in value and wrong:
            names = " or ".join(JSON_TYPES[kind] for kind in types)
            raise Unreadable(f"has {name} = {str(found)[:60]!r}, which must be {names}")
    return value


JSON_TYPES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
    bool: "true or false",
    type(None): "null",
}


# Rows ----------------------------------------------------------------------------------------------------


class Journal:
    """A .jsonl file being written. Rows reach the disk for good when `sync` is called."""

    def __init__(self, path: Path, content: bytes = b"") -> None:
        """content: what the file holds to begin with. Whatever else was in it is written anew, or gone."""
        self.path = path
        self.content = bytearray(content)
        if not _holds(path, content):
            write_atomically(path, content)

    def append(self, row: dict[str, Any]) -> None:
        line = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode()
        rest = memoryview(line)
        # opened for each row, without a buffer: rows are rare, and nothing is left to close or to flush
        with naming_the_file(self.path), self.path.open("ab", buffering=0) as file:
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:  # part of the row may be there: it goes, so that whole rows are all there is
                file.truncate(len(self.content))
                raise
        self.content += line

    def sync(self) -> bytes:
        """Make all rows durable; returns what the file now holds."""
        with self.path.open("ab") as file:
            os.fsync(file.fileno())
        return bytes(self.content)


def _holds(path: Path, content: bytes) -> bool:
    try:
        return not path.is_symlink() and read_plain(path) == content
    except (OSError, Unreadable):
        return False


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All whole rows; a last line that was cut off, as by a kill, is left out."""
    if not path.exists():
        return []
    try:
        *lines, last = read_plain(path).split(b"\n")
    except (Unreadable, OSError) as error:
        warnings.warn(f"{path} cannot be read: {error}", RunWarning, stacklevel=2)
        return []
    rows = [_row(line) for line in lines if line]
    if None in rows:
        warnings.warn(f"{path} has lines that cannot be read; they are left out", RunWarning, stacklevel=2)
    return [row for row in [*rows, _row(last)] if row is not None]


def last_row(path: Path, event: str) -> dict[str, Any]:
    """The last row of this event among the newest rows; empty where there is none, or none to be read."""
    try:
        lines = read_plain(path, NEWEST_ROWS).split(b"\n")
    except (Unreadable, OSError):
        return {}
    rows = (_row(line) for line in reversed(lines) if event.encode() in line)
    return next((row for row in rows if row is not None and row.get("event") == event), {})


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = parse_json(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


# Trouble -------------------------------------------------------------------------------------------------

TROUBLE = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file would be larger than allowed here",
    errno.EROFS: "the disk is read-only",
    errno.EIO: "the disk does not answer",
    errno.EACCES: "no permission to write there",
    errno.EPERM: "no permission to write there",
}


@contextmanager
def naming_disk_trouble(folder: Path) -> Iterator[None]:
    """Turn trouble with the disk below the run folder into one line that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOENT and not folder.is_dir():
            raise RunFailed(
                f"{folder} was removed or renamed while the run was going on; put it back, then go on with: "
                f"internalize resume {shlex.quote(str(folder))}"
            ) from error
        if error.errno not in TROUBLE:
            raise
        said, again = f"{TROUBLE[error.errno]} ({error.strerror})", "with the same command"
        if any(folder.glob("checkpoints/*.safetensors")):
            said = f"{said}; the last checkpoint in {folder} is good"
            again = f"with: internalize resume {shlex.quote(str(folder))}"
        raise RunFailed(f"{said}: mend that, then go on {again}") from error


class Owned(BadInput):
    """Somebody else is training this run just now."""


LOCK, OWNER = ".lock", ".owner.json"
PATIENCE = 0.3
"""Seconds to wait for the lock: longer than `is_owned` holds it when it looks."""


@contextmanager
def own(folder: Path) -> Iterator[None]:
    """Hold the run while the block runs; a second owner is refused with a line that names the first."""
    for name in (LOCK, OWNER):
        _require_plain_or_missing(folder / name)
    lock = FileLock(folder / LOCK)
    owner = folder / OWNER
    try:
        lock.acquire(timeout=PATIENCE, poll_interval=0.02)
    except Timeout:
        raise Owned("run", f"{folder} is being trained by {_describe(owner)}") from None
    except FileNotFoundError:
        raise BadInput("run", f"{folder} has just been deleted") from None
    try:
        require((folder / LOCK).exists(), "run", f"{folder} has just been deleted")
        with suppress(OSError):  # only a hint for people: a full disk must not keep the owner out
            owner.write_text(json.dumps({"host": socket.gethostname(), "process": os.getpid()}))
        yield
    finally:
        with suppress(OSError):
            owner.unlink(missing_ok=True)
        lock.release()


def is_owned(folder: Path) -> bool:
    """Whether somebody is training this run now. A killed owner leaves his card, but not the lock."""
    if not (folder / OWNER).exists() or (folder / LOCK).is_symlink():
        return False
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        return True
    lock.release()
    return False


def living_state(said: RunState, folder: Path) -> RunState:
    """The one answer to "is it alive?": if it says that it is running, and nobody owns it, it is not."""
    return RunState.INTERRUPTED if said == RunState.RUNNING and not is_owned(folder) else said


def _require_plain_or_missing(path: Path) -> None:
    """It is written: in a folder from somebody else, a link would lead that anywhere, a FIFO would wait."""
    with suppress(FileNotFoundError):
        plain = stat.S_ISREG(path.lstat().st_mode)
        require(plain, "run", f"{path} is a link, a folder or something else: delete it first")


def _describe(owner: Path) -> str:
    try:
        who = json.loads(owner.read_text())
        return f"process {who['process']} on {who['host']}"
    except (OSError, ValueError, KeyError):
        return "another process"
