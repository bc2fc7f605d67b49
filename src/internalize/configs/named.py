"""Objects that a user names in a config: `module:attribute`, `file.py:attribute`, or a file of data.

Whatever file stands behind a name is a *source* of the run: hashed by content into the run's identity and
copied into its folder, so that the run still knows what it computed when the file has changed or moved.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from internalize.configs.trust import Untrusted, require_trusted
from internalize.errors import BadInput

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
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def is_object_name(name: str) -> bool:
    """Whether the name has the form `module:attribute` or `file.py:attribute`."""
    module, colon, attribute = name.rpartition(":")
    return bool(colon) and attribute.isidentifier() and not module.startswith("(")


def load_object(name: str, field: str, copies: Copies) -> tuple[Any, Source]:
    """The object that `module:attribute` or `file.py:attribute` names, and the file that defines it.

    A module is executed from its file alone, exactly as the run's copy of it will be. This is the one place
    where a user's Python file is executed, and only if it is trusted: see `trust.py`.
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
        raise BadInput(field, f"module {where!r} has no attribute {attribute!r}")
    return getattr(module, attribute), Source(name, path)


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
    content = path.read_bytes()
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
