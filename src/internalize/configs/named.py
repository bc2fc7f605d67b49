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
from pathlib import Path
from types import ModuleType
from typing import Any

from internalize.errors import BadInput

Copies = Mapping[str, Path]
"""Where the copied file behind a name is: name as written in the config → path. Empty: use the originals."""


@dataclass(frozen=True)
class Source:
    """The file behind a name."""

    name: str
    path: Path

    def digest(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def is_object_name(name: str) -> bool:
    """Whether the name has the form `module:attribute` or `file.py:attribute`."""
    module, colon, attribute = name.rpartition(":")
    return bool(colon) and attribute.isidentifier() and not module.startswith("(")


def load_object(name: str, field: str, copies: Copies) -> tuple[Any, Source]:
    """The object that `module:attribute` or `file.py:attribute` names, and the file that defines it."""
    where, _, attribute = name.rpartition(":")
    try:
        module = _import(name, where, copies)
    except Exception as error:  # a user's module may fail in any way
        raise BadInput(field, f"cannot import {where!r}: {type(error).__name__}: {error}") from error
    if not hasattr(module, attribute):
        raise BadInput(field, f"module {where!r} has no attribute {attribute!r}")
    if module.__file__ is None:
        raise BadInput(field, f"module {where!r} is not a file, so it cannot be kept with the run")
    return getattr(module, attribute), Source(name, Path(module.__file__))


def _import(name: str, where: str, copies: Copies) -> ModuleType:
    if name in copies or where.endswith(".py"):
        return _import_file(copies.get(name, Path(where)))
    folder = str(Path.cwd())
    sys.path.insert(0, folder)  # a module beside the user, wherever the command line is installed
    try:
        return importlib.import_module(where)
    finally:
        sys.path.remove(folder)


def _import_file(path: Path) -> ModuleType:
    name = f"internalize_user_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
