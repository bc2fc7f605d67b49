"""Objects that a user names in a config: `module:attribute`, `file.py:attribute`, or a file of data.

Whatever file stands behind a name is a *source* of the run: hashed by content into the run's identity and
copied into its folder, so that the run still knows what it computed when the file has changed or moved.
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import importlib.util
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from internalize.errors import BadInput, closest

Copies = Mapping[str, Path]
"""Where the copied file behind a name is: name as written in the config → path. Empty: use the originals."""


@dataclass(frozen=True)
class Source:
    """The file behind a name."""

    name: str
    path: Path
    kept: bool = True
    """Whether the run keeps a copy. Large files stay where they are: only their hash is part of the run."""

    def digest(self) -> str:
        return digest_of(read_source(self.path))


def read_source(path: Path) -> bytes:
    """The file's bytes; a run of somebody else may have a FIFO in its place, which would be waited for."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is not a plain file", str(path))
    return path.read_bytes()


def is_object_name(name: str) -> bool:
    """Whether the name has the form `module:attribute` or `file.py:attribute`."""
    module, colon, attribute = name.rpartition(":")
    return bool(colon) and attribute.isidentifier() and not module.startswith("(")


def load_object(name: str, field: str, copies: Copies) -> tuple[Any, Source]:
    """The object that `module:attribute` or `file.py:attribute` names, and the file that defines it.

    A module is executed from its file alone, exactly as the run's copy of it will be. This is the one place
    where a user's Python file is executed, and only if it is trusted: see `require_trusted`.
    """
    where, _, attribute = name.rpartition(":")
    try:
        path = copies[name] if name in copies else file_of(where)
        module = _execute(path, field)
    except Untrusted:
        raise
    except (Exception, SystemExit) as error:  # a user's module may fail in any way
        raise _cannot_import(where, field, error) from error
    if not hasattr(module, attribute):
        raise BadInput(field, f"module {where!r} has no attribute {attribute!r}{_near(module, attribute)}")
    return getattr(module, attribute), Source(name, path)


def _near(module: ModuleType, name: str) -> str:
    return closest(name, [own for own in vars(module) if not own.startswith("_")])


def find_source(name: str, field: str, copies: Copies) -> Source:
    """The file behind `module:attribute` or `file.py:attribute`; nothing of it is executed."""
    where = name.rpartition(":")[0]
    try:
        source = Source(name, copies[name] if name in copies else file_of(where))
        source.digest()
    except (Exception, SystemExit) as error:
        raise _cannot_import(where, field, error) from error
    return source


def _cannot_import(where: str, field: str, error: BaseException) -> BadInput:
    if isinstance(error, FileNotFoundError) and not Path(where).exists():
        return BadInput(field, f"there is no file {where}")
    alone = " (the file is kept with the run: it must stand alone)" if isinstance(error, ImportError) else ""
    return BadInput(field, f"cannot import {where!r}: {type(error).__name__}: {error}{alone}")


def file_of(where: str) -> Path:
    """The file itself, or that of a module beside the user or installed. Executes nothing.

    Not `importlib.util.find_spec`: of `a.b` it would import `a`, whoever has written that.
    """
    if where.endswith(".py"):
        return Path(where)
    first, *rest = where.split(".")
    spec = _spec_of(first)
    if spec is None:
        raise ModuleNotFoundError(f"no module {where!r} here or installed")
    if not rest:
        if spec.origin is None or not spec.has_location:
            raise ImportError(f"{where!r} is not a Python file")
        return Path(spec.origin)
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    for name in rest[:-1]:
        places = [place / name for place in places if (place / name).is_dir()]
    files = (place / file for place in places for file in (f"{rest[-1]}/__init__.py", f"{rest[-1]}.py"))
    found = next((file for file in files if file.is_file()), None)
    if found is None:
        raise ModuleNotFoundError(f"no module {where!r} here or installed")
    return found


def _spec_of(module: str) -> ModuleSpec | None:
    """Of a module that is in no package: looking for it imports nothing."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)  # wherever the command line is installed
    importlib.invalidate_caches()  # the module may be newer than this process
    try:
        return importlib.util.find_spec(module) if module else None
    finally:
        sys.path.remove(folder)


class _FromBytes(SourceFileLoader):
    """Executes the bytes that were looked at: neither what the file holds by now nor a compiled file beside it,
    which Python would prefer and nobody has read."""

    def __init__(self, name: str, path: Path, content: bytes) -> None:
        super().__init__(name, str(path))
        self._content = content

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self._content, self.path)
        return code


def _execute(path: Path, field: str) -> ModuleType:
    name = f"internalize_user_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    content = read_source(path)
    if path.suffix != ".py":
        raise ImportError(f"{path} is not a Python file")
    require_trusted(content, path, field)
    spec = importlib.util.spec_from_loader(name, _FromBytes(name, path, content))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    except BaseException:
        del sys.modules[name]
        raise
    return module


PLACE = "INTERNALIZE_CONFIG"
"""The environment variable that says where this user's settings are."""
STORE = "trusted.jsonl"
"""The file there: a line for each file that is trusted, so that two processes can add to it at once."""

_own: ContextVar[bool] = ContextVar("own", default=False)
_once: ContextVar[bool] = ContextVar("once", default=False)
_known_here: set[str] = set()
"""Hashes that this process trusts, whether or not they could be written down."""


class Untrusted(BadInput):
    """Python files that this user has not allowed to be executed."""

    def __init__(self, field: str, files: Sequence[Path], brought_by: str = "") -> None:
        """brought_by: the run that `internalize runs trust` takes; the files themselves if empty."""
        names = shlex.join(name if (name := str(file)).isprintable() else ascii(name) for file in files)
        lost = "" if _writable() else f" ({store()} cannot be written: nothing is remembered)"
        super().__init__(
            field,
            f"{brought_by or 'this'} would run Python code that you have neither trained with nor allowed. "
            f"Read it: less {names} – then allow it: --trust for this once, or for good: "
            f"internalize runs trust {shlex.quote(brought_by) if brought_by else names}{lost}",
        )
        self.files = tuple(files)


@dataclass(frozen=True, kw_only=True)
class TrustOption:
    """For the arguments of every command that may meet other people's files."""

    trust: bool = False
    """Run the Python files that a run or a sweep brings along, this once, even if they were never allowed."""


# Whose files ---------------------------------------------------------------------------------------------


@contextmanager
def own_files() -> Iterator[None]:
    """What is named inside the block is named by the user, for a training: it is trusted from then on."""
    with _set(_own, True):
        yield


@contextmanager
def others_files() -> Iterator[None]:
    """What is named inside the block comes from a run folder, whoever is around it."""
    with _set(_own, False):
        yield


@contextmanager
def trusting() -> Iterator[None]:
    """Everything may be executed inside the block; afterwards only this process remembers."""
    with _set(_once, True):
        yield


@contextmanager
def _set(switch: ContextVar[bool], value: bool) -> Iterator[None]:
    before = switch.set(value)
    try:
        yield
    finally:
        switch.reset(before)


def require_trusted(content: bytes, path: Path, field: str) -> None:
    """Refuse to go on unless these bytes may be executed, here and now."""
    digest = digest_of(content)
    if _once.get():
        _known_here.add(digest)
    elif _own.get():
        remember(digest, path)
    elif not _is_ours(path) and not is_trusted(digest):
        raise Untrusted(field, [path])


def _is_ours(path: Path) -> bool:
    """Whether the file is part of this package, such as a figure of the paper."""
    return Path(__file__).resolve().parents[1] in path.resolve().parents


def may_run(path: Path) -> bool:
    """Whether the file as it is now would be executed; a file that cannot be read says so when it is."""
    try:
        return _once.get() or _is_ours(path) or is_trusted(digest_of(read_source(path)))
    except OSError:
        return True


# What is remembered --------------------------------------------------------------------------------------


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def store() -> Path:
    """The user's list of trusted files."""
    if os.environ.get(PLACE):
        return Path(os.environ[PLACE]).expanduser() / STORE
    if os.environ.get("XDG_CONFIG_HOME"):
        return Path(os.environ["XDG_CONFIG_HOME"]) / "internalize" / STORE
    with suppress(RuntimeError):  # nobody's home is known here
        return Path.home() / ".config" / "internalize" / STORE
    return Path(os.devnull) / STORE


def is_trusted(digest: str) -> bool:
    if digest in _known_here:
        return True
    _known_here.update(_stored())
    return digest in _known_here


def remember(digest: str, path: Path) -> bool:
    """Trust these bytes from now on; False if only this process will know, for want of a place to write."""
    known = digest in _stored()
    _known_here.add(digest)
    if known:
        return True
    line = json.dumps({"sha256": digest, "file": str(path.absolute())}) + "\n"
    place = store()
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # one short line in one call: what others append at the same time comes before or after it
        handle = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)
    except OSError:
        return False
    return True


def _stored() -> set[str]:
    """All hashes in the list; a line that is none of ours trusts nothing."""
    found: set[str] = set()
    try:
        lines = store().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return found
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            found.add(str(json.loads(line)["sha256"]))
    return found


def _writable() -> bool:
    place = store().absolute()
    there = next(path for path in (place, *place.parents) if path.exists())
    return os.access(there, os.W_OK)
